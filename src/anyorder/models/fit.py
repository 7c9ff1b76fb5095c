"""A tokenizer that fits its model: the same ids, a mask token, a length; repaired where that is safe, else refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

# Files that hold a vocabulary; tokenizer_config.json alone holds none.
_VOCABULARIES = ("tokenizer.json", "vocab.json", "*.model", "tokenizer.model*", "*.tiktoken", "tokenization_*.py")
_NO_LIMIT = 10**6  # tokenizers that know no maximum say 1e30
_LENGTHS = ("max_position_embeddings", "max_sequence_length", "model_length")  # of most, of LLaDA, of MDLM


def read_tokenizer(path: str, name: str, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    """The tokenizer beside the model, with or without a mask token."""
    folder = Path(path)
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in _VOCABULARIES):
        if (folder / "vocab.txt").exists():
            with readable(f"the vocabulary of {name}"):
                return _of_vocab(folder, name, trust_remote_code)
        if not _needs_no_files(folder):
            # transformers would answer with an empty vocabulary and no word of warning.
            raise AnyorderError(f"{name} has no tokenizer: save it beside the model (tokenizer.save_pretrained)")
    tokenizer = _auto(path, name, trust_remote_code)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise AnyorderError(
            f"the tokenizer of {name} knows no token but the special ones: save the one the model was trained with "
            "beside it (tokenizer.save_pretrained)"
        )
    return tokenizer


def _auto(path: str, name: str, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with readable(f"the tokenizer of {name}"):
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
        try:
            _ = tokenizer.all_special_ids
        except RecursionError:  # how transformers looks up an unknown token that is itself unknown
            raise ValueError(f"its unk_token {tokenizer.unk_token!r} is not in its vocabulary") from None
        return tokenizer


def _of_vocab(folder: Path, name: str, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    """What ``vocab.txt`` implies, unless transformers reads the same vocabulary and has settings for it."""
    from anyorder.models.vocab import entries_of, is_smiles, tokenizer_from_vocab

    entries = entries_of(folder / "vocab.txt")
    if (folder / "tokenizer_config.json").exists() and not is_smiles(entries):
        try:
            tokenizer = _auto(str(folder), name, trust_remote_code)
        except AnyorderError:
            return tokenizer_from_vocab(folder / "vocab.txt")
        read = tokenizer.get_vocab()
        # transformers guesses by model type; where that has another kind of file, its vocabulary is empty.
        if all(read.get(token) == i for i, token in enumerate(entries)):
            return tokenizer
    return tokenizer_from_vocab(folder / "vocab.txt")


def _needs_no_files(folder: Path) -> bool:
    """Tokenizers of bytes and characters have their vocabulary in their code."""
    path = folder / "tokenizer_config.json"
    with readable(str(path)):
        said = dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
    return str(said.get("tokenizer_class", "")).startswith(("Perceiver", "ByT5", "Canine"))


def with_mask(
    tokenizer: PreTrainedTokenizerBase, mask_id: int | None, name: str
) -> tuple[PreTrainedTokenizerBase, int]:
    """The tokenizer and the id of its mask token, which is ``mask_id`` where it has none of its own.

    Args:
        tokenizer: left as it is; where it lacks the mask token, a copy of it is returned.
        mask_id: what the model's configuration, or the caller, calls the mask token.
        name: of the model, for messages.
    """
    own = tokenizer.mask_token_id
    if own is None and mask_id is None:
        raise AnyorderError(
            f"the tokenizer of {name} has no mask token: choose a masked-LM checkpoint, set tokenizer.mask_token "
            "to the token it was trained with and save it again, or name its id (anyorder.wrap(..., mask_id=...))"
        )
    if mask_id is None or own == mask_id:
        return tokenizer, int(own)
    if own is not None:
        raise AnyorderError(
            f"the tokenizer of {name} has the mask token {own}, its configuration says {mask_id}: "
            "save the tokenizer the model was trained with beside it"
        )
    tokenizer = copy.deepcopy(tokenizer)
    if mask_id < len(tokenizer):
        tokenizer.mask_token = tokenizer.convert_ids_to_tokens(mask_id)
    elif mask_id == len(tokenizer):  # as MDLM does with GPT-2's
        tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    if tokenizer.mask_token_id != mask_id:
        raise AnyorderError(
            f"the mask token of {name} has id {mask_id}, and its tokenizer has only {len(tokenizer)} tokens: "
            "save the tokenizer the model was trained with beside it"
        )
    return tokenizer, mask_id


def rows_of(model: Any) -> int | None:
    """How many tokens the model can read; None if it does not say."""
    try:
        embeddings = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        embeddings = None
    rows = getattr(embeddings, "num_embeddings", None)
    return rows if rows is not None else getattr(getattr(model, "config", None), "vocab_size", None)


def check_fit(tokenizer: PreTrainedTokenizerBase, mask_id: int, rows: int | None, name: str) -> None:
    """Refuse a tokenizer of another model: ids beyond the model's, or far fewer of them."""
    if rows is None:
        return
    remedy = "save the tokenizer the model was trained with beside it"
    if mask_id >= rows:
        raise AnyorderError(
            f"{name}: the tokenizer's mask token has id {mask_id}, but the model knows only {rows} tokens: {remedy}"
        )
    size = len(tokenizer)
    if size > rows or 2 * size < rows:
        raise AnyorderError(f"{name}: its tokenizer has {size} tokens and the model {rows}: {remedy}")


def max_length(model: Any, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens of the longest row: the tightest of what the position table, the configuration and the tokenizer allow."""
    import torch

    config = getattr(model, "config", None)
    limits = [int(getattr(config, name, None) or _NO_LIMIT) for name in _LENGTHS]
    limits = [limit if limit > 0 else _NO_LIMIT for limit in limits]  # XLNet has none, and says -1
    if tokenizer.model_max_length < _NO_LIMIT:
        limits.append(int(tokenizer.model_max_length))
    if isinstance(model, torch.nn.Module):
        limits += [table.num_embeddings - first for _, table, first in position_tables(model)]
    return min(limits)


def position_tables(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Embedding, int]]:
    """The tables of absolute positions by name, each with the row of a text's first token.

    RoBERTa and its relatives count positions from the padding token's id + 1.
    """
    import torch

    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            yield name, module, 0 if module.padding_idx is None else module.padding_idx + 1


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Whatever the libraries below us raise over a file that is damaged, or not what it says, becomes a sentence.

    They raise anything: checks of types, divisions by zero, bare Exceptions of Rust, and its panics, which are not even
    Exceptions.
    """
    try:
        yield
    except AnyorderError:
        raise
    except Exception as error:  # see above: there is no list of what they raise
        raise AnyorderError(f"cannot read {what}: {first_line(error)}") from error
    except BaseException as error:  # a panic of Rust; all else goes on
        if type(error).__name__ != "PanicException":
            raise
        raise AnyorderError(f"cannot read {what}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Errors of transformers run over several lines; the first says what is wrong."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__

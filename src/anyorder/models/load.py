"""Any masked LM and its tokenizer, read from a name or a folder; what cannot be one is refused with a sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

BUNDLED = Path(__file__).parent / "assets" / "mini"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
_NO_LIMIT = 10**6  # tokenizers that know no maximum say 1e30


@dataclass(frozen=True)
class Loaded:
    """What a checkpoint holds, checked and ready to answer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    mask_id: int
    pad_id: int | None
    max_length: int  # tokens of one row, special ones included


def read_checkpoint(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> Loaded:
    """Read a masked LM and its tokenizer; the arguments are those of :func:`anyorder.load`.

    Raises:
        AnyorderError: the checkpoint is missing, damaged, or not a masked LM.
    """
    import torch

    path, name = _locate(name_or_path)
    with _quiet():
        config = _config(path, name, trust_remote_code)
        tokenizer = _tokenizer(path, name, trust_remote_code)
        model, _ = _model(path, name, config, allow_pickle, trust_remote_code, dtype or torch.float32)
    mask_id = int(tokenizer.mask_token_id)
    embeddings: Any = model.get_input_embeddings()
    if mask_id >= embeddings.num_embeddings:
        raise AnyorderError(
            f"{name}: the tokenizer's mask token has id {mask_id}, but the model knows only "
            f"{embeddings.num_embeddings} tokens: save the tokenizer the model was trained with beside it"
        )
    model.to(device or "cpu").eval()  # type: ignore[arg-type]  # as in the trainer: transformers wraps `to`
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else config.pad_token_id
    return Loaded(model, tokenizer, name, mask_id, pad_id, max_length(model, tokenizer))


class Encoder(NamedTuple):
    """An encoder to start a training from, as a masked LM in float32."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    missing: tuple[str, ...]  # parameters of the head that its checkpoint does not hold: they are random


def load_encoder(name_or_path: str | os.PathLike[str]) -> Encoder:
    """Unlike :func:`load`, this takes encoders without a masked-LM head, and tokenizers without a mask token."""
    import torch

    path, name = _locate(name_or_path)
    with _quiet():
        config = _config(path, name, trust_remote_code=False)
        tokenizer = _tokenizer(path, name, trust_remote_code=False, mask_needed=False)
        model, missing = _model(path, name, config, False, False, torch.float32, head_needed=False)
    return Encoder(model, tokenizer, missing)


def _locate(name_or_path: str | os.PathLike[str] | None) -> tuple[str, str]:
    """(what from_pretrained gets, what we call it); a folder must hold a checkpoint."""
    if name_or_path is None:
        if not (BUNDLED / "config.json").exists():
            raise AnyorderError(
                "the bundled model is missing from this installation: reinstall anyorder, or name a model"
            )
        return str(BUNDLED), "anyorder-mini"
    text = os.path.expanduser(os.fspath(name_or_path))
    folder = Path(text)
    if folder.is_file():
        raise AnyorderError(f"{text} is a file: name the folder that holds config.json and model.safetensors")
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise AnyorderError(f"{text} has no config.json: name a folder written by save_pretrained")
    elif folder.is_absolute() or text.startswith(".") or text.count("/") > 1:
        raise AnyorderError(
            f"there is no folder {text}: check the path, or give a Hugging Face name like bert-base-cased"
        )
    return text, text


def _config(path: str, name: str, trust_remote_code: bool) -> PreTrainedConfig:
    """The configuration of a masked LM; a causal or encoder-decoder model is refused before reading weights."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError) as error:
        raise AnyorderError(f"cannot read the configuration of {name}: {_first_line(error)}") from error
    remote = trust_remote_code and "AutoModelForMaskedLM" in (getattr(config, "auto_map", None) or {})
    known = type(config) in MODEL_FOR_MASKED_LM_MAPPING or remote
    if not known or getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False):
        raise AnyorderError(
            f"{name} is not a masked LM ({config.model_type}): choose an encoder trained with a mask token, "
            "such as BERT, RoBERTa or ModernBERT"
        )
    positions = str(getattr(config, "position_embedding_type", None) or "absolute")
    if positions.startswith("relative_key"):
        raise AnyorderError(
            f'{name} was trained with position_embedding_type="{positions}", which this version of transformers '
            "silently ignores: its predictions would be wrong. Train it anew as anyorder's relative BERT, or choose "
            "a checkpoint with absolute or rotary positions"
        )
    return config


def _tokenizer(path: str, name: str, trust_remote_code: bool, mask_needed: bool = True) -> PreTrainedTokenizerBase:
    """The tokenizer beside the model, which must have a mask token unless the model is to get another one."""
    from transformers import AutoTokenizer

    from anyorder.models.vocab import tokenizer_from_vocab

    folder = Path(path)
    has_files = any((folder / file).exists() for file in _TOKENIZER_FILES)
    if folder.is_dir() and not has_files and (folder / "vocab.txt").exists():
        tokenizer = tokenizer_from_vocab(folder / "vocab.txt")
    elif folder.is_dir() and not has_files:
        # transformers would answer with an empty vocabulary and no word of warning.
        raise AnyorderError(f"{name} has no tokenizer: save it beside the model (tokenizer.save_pretrained)")
    else:
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise AnyorderError(f"cannot read the tokenizer of {name}: {_first_line(error)}") from error
    if mask_needed and tokenizer.mask_token_id is None:
        raise AnyorderError(
            f"the tokenizer of {name} has no mask token: choose a masked-LM checkpoint, or set tokenizer.mask_token "
            "to the token it was trained with and save it again"
        )
    return tokenizer


def _model(
    path: str,
    name: str,
    config: PreTrainedConfig,
    allow_pickle: bool,
    trust_remote_code: bool,
    dtype: torch.dtype,
    head_needed: bool = True,
) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """The weights, complete and finite: transformers would fill what is missing with random numbers.

    Returns:
        The model, and the parameters of its head that the checkpoint does not hold: none where a head is needed.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForMaskedLM

    folder = Path(path)
    if folder.is_dir() and not allow_pickle and not any(folder.glob("*.safetensors")):
        if any(folder.glob("*.bin")):
            raise AnyorderError(
                f"{name} holds its weights as a pickle, which can run code when read: convert it to safetensors, "
                "or allow it with allow_pickle=True (--allow-pickle) if you trust the file"
            )
        raise AnyorderError(f"{name} has no weights: it needs a model.safetensors beside its config.json")
    try:
        model, info = AutoModelForMaskedLM.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            use_safetensors=None if allow_pickle else True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
    except SafetensorError as error:
        raise AnyorderError(f"the weights of {name} are damaged ({error}): copy or download the file again") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise AnyorderError(f"cannot read the weights of {name}: {_first_line(error)}") from error
    missing = sorted(info["missing_keys"])
    if missing:
        backbone = model.base_model_prefix + "."
        head = [key for key in missing if not key.startswith(backbone)]
        if head and head_needed:
            raise AnyorderError(
                f"{name} has no masked-LM head (its weights lack {head[0]}): choose a checkpoint saved from "
                "AutoModelForMaskedLM, not a bare encoder or a fine-tuned classifier, or train one from it "
                "(init in a recipe)"
            )
        if len(head) < len(missing):
            missing = [key for key in missing if key.startswith(backbone)]
            raise AnyorderError(f"the weights of {name} lack {missing[0]} and {len(missing) - 1} more: copy it again")
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        raise AnyorderError(
            f"the weights of {name} hold NaN or infinity: its training diverged; take an earlier checkpoint"
        )
    return model, tuple(missing)


def max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens of the longest row: the tightest of what the position table, the configuration and the tokenizer allow."""
    import torch

    limits = [int(getattr(model.config, "max_position_embeddings", None) or _NO_LIMIT)]
    if tokenizer.model_max_length < _NO_LIMIT:
        limits.append(int(tokenizer.model_max_length))
    for module_name, module in model.named_modules():
        if module_name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and its kin count positions from padding_idx + 1.
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - offset)
    return min(limits)


def _first_line(error: Exception) -> str:
    """Errors of transformers run over several lines; the first says what is wrong."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars and no warnings from transformers while loading: what matters in them is checked here."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()

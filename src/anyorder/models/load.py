"""Any masked LM and its tokenizer, read from a name or a folder; what cannot be one is refused with a sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyorder.errors import AnyorderError
from anyorder.metrics.curve import Curve, read_curve
from anyorder.models.fit import check_fit, first_line, max_length, read_tokenizer, readable, rows_of, with_mask
from anyorder.models.hub import check_available
from anyorder.models.pairs import FILE, PAIRS, LengthHead
from anyorder.models.remote import remote_class, remote_reference, wrap_remote
from anyorder.models.safe import check_weights, read_config, read_weights

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

BUNDLED = Path(__file__).parent / "assets" / "mini"
BUNDLED_NAME = "anyorder-mini-3"  # its version too: journals and caches go by it


@dataclass(frozen=True)
class Loaded:
    """What a checkpoint holds, checked and ready to answer."""

    model: PreTrainedModel  # or a Wrapped, which is called in the same way
    tokenizer: PreTrainedTokenizerBase
    name: str
    mask_id: int
    pad_id: int | None
    max_length: int  # tokens of one row, special ones included
    curve: Curve | None = None  # beside the checkpoint, if it was measured
    length_head: LengthHead | None = None  # of a model trained on pairs


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

    place = usable_device(device)
    path, name = locate(name_or_path)
    with quiet():
        config = _config(path, name, trust_remote_code)
        tokenizer = read_tokenizer(path, name, trust_remote_code)
        with readable(f"the tokenizer of {name}"):
            tokenizer, mask_id = with_mask(tokenizer, getattr(config, "mask_token_id", None), name)
        remote = remote_class(path, config) if trust_remote_code else None
        model, _ = _model(path, name, config, allow_pickle, remote, dtype or torch.float32)
    check_fit(tokenizer, mask_id, rows_of(model), name)
    model.to(place).eval()  # type: ignore[arg-type]  # as in the trainer: transformers wraps `to`
    with readable(f"the settings of {name}"):
        longest = max_length(model, tokenizer)
        pad_id, curve = padding(tokenizer, config, mask_id), read_curve(Path(path))
        head = _length_head(path) if getattr(config, PAIRS, None) is not None else None
    ready: Any = model if remote is None else wrap_remote(model, mask_id, longest, name)
    return Loaded(ready, tokenizer, name, mask_id, pad_id, longest, curve, head)


def _length_head(path: str) -> LengthHead | None:
    """The head for p(length | source) beside a model trained on pairs, from its folder or the hub."""
    if Path(path).is_dir():
        return LengthHead.load(Path(path))
    from transformers.utils import cached_file

    found = cached_file(path, FILE, _raise_exceptions_for_missing_entries=False)
    return None if found is None else LengthHead.load(Path(found).parent)


def padding(tokenizer: PreTrainedTokenizerBase, config: Any, mask_id: int) -> int | None:
    """The id that shorter rows may end in; None if there is none that cannot be taken for text."""
    pad_id = tokenizer.pad_token_id
    if pad_id is None:
        pad_id = getattr(config, "pad_token_id", None)
    # Where padding is the end of a text or the mask as well, only whole rows can be told from shorter ones.
    if pad_id is None or pad_id == mask_id or tokenizer("a")["input_ids"][-1:] == [pad_id]:
        return None
    return int(pad_id)


def usable_device(device: str | torch.device | None) -> torch.device:
    """The device, if this machine has it; refused before anything is read."""
    import torch

    try:
        place = torch.device(device or "cpu")
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split(".")[0].splitlines()[0]
        if reason.startswith("Expected one of"):  # torch lists what no wheel of it has
            reason = "known ones are cpu, cuda, cuda:1, mps, xpu"
        raise AnyorderError(f"cannot use the device {str(device)!r} ({reason}): choose cpu, or leave it out") from None
    return place


class Encoder(NamedTuple):
    """An encoder to start a training from, as a masked LM in float32."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    missing: tuple[str, ...]  # parameters of the head that its checkpoint does not hold: they are random


def load_encoder(name_or_path: str | os.PathLike[str]) -> Encoder:
    """Unlike :func:`load`, this takes encoders without a masked-LM head, and tokenizers without a mask token."""
    import torch

    path, name = locate(name_or_path)
    with quiet():
        config = _config(path, name, trust_remote_code=None)
        tokenizer = read_tokenizer(path, name, trust_remote_code=False)
        model, missing = _model(path, name, config, False, None, torch.float32, head_needed=False)
    return Encoder(model, tokenizer, missing)


def locate(name_or_path: str | os.PathLike[str] | None) -> tuple[str, str]:
    """(what from_pretrained gets, what we call it); a folder must hold a checkpoint."""
    if name_or_path is None:
        if not (BUNDLED / "config.json").exists():
            raise AnyorderError(
                "the bundled model is missing from this installation: reinstall anyorder, or name a model"
            )
        return str(BUNDLED), BUNDLED_NAME
    if not isinstance(name_or_path, str | os.PathLike) or not str(name_or_path):
        raise AnyorderError(f"{name_or_path!r} names no model: give a Hugging Face name or a folder")
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
    else:
        check_available(text)
    return text, text


def _config(path: str, name: str, trust_remote_code: bool | None) -> PreTrainedConfig:
    """The configuration of a masked LM; a causal or encoder-decoder model is refused before reading weights."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    config = read_config(path, name, trust_remote_code)
    if trust_remote_code and remote_reference(config) is not None:
        return config
    known = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    if not known or getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False):
        raise AnyorderError(
            f"{name} is not a masked LM ({config.model_type}): choose an encoder trained with a mask token, "
            "such as BERT, RoBERTa or ModernBERT"
        )
    check_positions(config, name)
    return config


def check_positions(config: PreTrainedConfig, name: str) -> None:
    """Refuse relative positions that transformers would not use."""
    positions = str(getattr(config, "position_embedding_type", None) or "absolute")
    if positions.startswith("relative_key"):
        raise AnyorderError(
            f'{name} was trained with position_embedding_type="{positions}", which this version of transformers '
            "silently ignores: its predictions would be wrong. Train it again as anyorder's relative BERT, or choose "
            "a checkpoint with absolute or rotary positions"
        )


def _model(
    path: str,
    name: str,
    config: PreTrainedConfig,
    allow_pickle: bool,
    remote: type[PreTrainedModel] | None,
    dtype: torch.dtype,
    head_needed: bool = True,
) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """The weights, complete and finite: transformers would fill what is missing with random numbers.

    Returns:
        The model, and the parameters of its head that the checkpoint does not hold: none where a head is needed.
    """
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
    reader = AutoModelForMaskedLM if remote is None else remote
    with readable(f"the weights of {name}"):
        try:
            model, missing = read_weights(reader, path, name, config, allow_pickle=allow_pickle, dtype=dtype)
        except SafetensorError as error:
            message = f"the weights of {name} are damaged ({first_line(error)}): copy or download the file again"
            raise AnyorderError(message) from error
    backbone = model.base_model_prefix + "."
    head = [key for key in missing if not key.startswith(backbone)]
    if head and head_needed:
        raise AnyorderError(
            f"{name} has no masked-LM head (its weights lack {head[0]}): choose a checkpoint saved from "
            "AutoModelForMaskedLM, not a bare encoder or a fine-tuned classifier, or train one from it "
            "(init in a recipe)"
        )
    check_weights(model, name, [key for key in missing if key.startswith(backbone)])
    return model, tuple(missing)


@contextmanager
def quiet() -> Iterator[None]:
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

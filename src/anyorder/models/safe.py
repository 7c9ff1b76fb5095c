"""What the files of a checkpoint may not do: run code, name files elsewhere, be no files, hold what was not learnt."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError
from anyorder.models.fit import readable

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig

LARGEST = 1e15  # of a weight: its square still fits float32. One flipped bit makes 0.1 a number of 37 digits

_NOT_HAD = ("missing_entries", "connection_errors", "gated_repo")


def read_config(path: str, name: str, trust_remote_code: bool | None = None, **changes: Any) -> PreTrainedConfig:
    """The configuration of any checkpoint; one that needs code of its own, or asks the hub for some, is refused.

    Without an answer of ours transformers asks whoever sits there whether to run that code, and takes any "y".

    Args:
        path: What ``from_pretrained`` gets.
        name: What we call it.
        trust_remote_code: Whether code may be run; None where it never is, so that nobody is told to allow it.
        changes: Fields that are to be otherwise.
    """
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

    allow = ", and if you trust it allow it with trust_remote_code=True (--trust-remote-code)"
    remedy = "choose a model that transformers itself knows" if trust_remote_code is None else f"read it{allow}"
    with readable(f"the configuration of {name}"):
        said, _ = PreTrainedConfig.get_config_dict(path)
        code = said.get("auto_map") or {}
        if code and not trust_remote_code and said.get("model_type") not in CONFIG_MAPPING:
            files = sorted({f"{str(entry).rpartition('.')[0]}.py" for entry in code.values()})
            raise AnyorderError(f"{name} comes with code of its own ({', '.join(files)}): {remedy}")
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            path, trust_remote_code=bool(trust_remote_code), **changes
        )
        kernel = getattr(config, "_attn_implementation", None)
        if "/" in str(kernel or "") and not trust_remote_code:
            raise AnyorderError(
                f"{name} asks for code from the hub ({kernel}): remove attn_implementation from config.json"
            )
        weights = getattr(config, "transformers_weights", None)
        if weights is not None and os.path.basename(weights) != weights:
            raise AnyorderError(f"{name} names its weights as {weights!r}: they must be files beside its config.json")
    return config


def read_weights(
    reader: Any, path: str, name: str, config: PreTrainedConfig, *, allow_pickle: bool = False, **options: Any
) -> tuple[Any, list[str]]:
    """The model of a checkpoint as the class ``reader`` makes it, and the parameters that it does not hold, sorted."""
    check_shards(path, name, allow_pickle)
    safe = None if allow_pickle else True
    model, info = reader.from_pretrained(path, config=config, use_safetensors=safe, output_loading_info=True, **options)
    return model, sorted(info["missing_keys"])


def check_shards(path: str, name: str, allow_pickle: bool = False) -> None:
    """Refuse an index whose shards are not files of the checkpoint's own: transformers would read any path it names."""
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, cached_file

    endings = (".safetensors", ".bin") if allow_pickle else (".safetensors",)
    folder = Path(path)
    if folder.is_dir():
        odd = next((one for one in folder.iterdir() if one.exists() and not (one.is_file() or one.is_dir())), None)
        if odd is not None:
            raise AnyorderError(f"{odd} is no ordinary file: copy the checkpoint again")
        indices = [str(one) for one in folder.glob("*.index.json")]
    else:
        # Most have none, and a hub out of reach is not refused here: from_pretrained takes what the cache has.
        quietly = dict.fromkeys((f"_raise_exceptions_for_{why}" for why in _NOT_HAD), False)
        found = cached_file(path, SAFE_WEIGHTS_INDEX_NAME, **quietly)
        indices = [] if found is None else [str(found)]
    for index in indices:
        with readable(index):
            shards = set(json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"].values())
        for shard in shards:
            if not (isinstance(shard, str) and shard == os.path.basename(shard) and shard.endswith(endings)):
                raise AnyorderError(
                    f"{index} names {str(shard)[:80]!r} as a part of the weights of {name}: it must be a {endings[0]} "
                    "file beside it; download the checkpoint again"
                )


def check_weights(model: torch.nn.Module, name: str, lost: Sequence[str] = ()) -> None:
    """Refuse weights that have ``lost`` some, are no numbers, or too large to have been learnt."""
    import torch

    if lost:
        raise AnyorderError(f"the weights of {name} lack {lost[0]} and {len(lost) - 1} more: copy it again")
    for weight in (*model.parameters(), *model.buffers()):
        if weight.is_floating_point() and weight.numel():
            largest = float(torch.linalg.vector_norm(weight.detach(), torch.inf))  # NaN if any is
            if not largest < torch.inf:
                raise AnyorderError(
                    f"the weights of {name} hold NaN or infinity: its training diverged; take an earlier checkpoint"
                )
            if largest > LARGEST:
                raise AnyorderError(
                    f"the weights of {name} are damaged (one is {largest:.1e}): copy or download the file again"
                )

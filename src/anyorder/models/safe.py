"""What the files of a checkpoint may not do: name files elsewhere, be no files, hold what was never learnt."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.models.fit import readable

if TYPE_CHECKING:
    import torch

LARGEST = 1e15  # of a weight: its square still fits float32. One flipped bit makes 0.1 a number of 37 digits

_NOT_HAD = ("missing_entries", "connection_errors", "gated_repo")


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


def check_weights(model: torch.nn.Module, name: str) -> None:
    """Refuse weights that are no numbers, or too large to have been learnt."""
    import torch

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

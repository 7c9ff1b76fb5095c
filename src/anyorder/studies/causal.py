"""The left-to-right comparator: log-probabilities in one pass, and sampling with its key-value cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.models.fit import readable
from anyorder.models.hub import check_available
from anyorder.models.load import usable_device
from anyorder.models.safe import check_shards, check_weights
from anyorder.tasks.options import LoadOptions

if TYPE_CHECKING:
    from pathlib import Path

_LOGITS = 2**25  # logits held at once: 128 MB in float32


def read_config(path: str | Path, trust_remote_code: bool = False) -> Any:
    """The configuration of a checkpoint."""
    from transformers import AutoConfig

    check_available(path)
    try:
        return AutoConfig.from_pretrained(str(path), trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise AnyorderError(f"there is no model {path}: name a folder written by save_pretrained") from error


def is_causal(path: str | Path, trust_remote_code: bool = False) -> bool:
    """Whether a checkpoint is a left-to-right model, by its configuration alone."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    config = read_config(path, trust_remote_code)
    # transformers files XLNet here too, which goes along any order: see studies/permutation.py
    causal = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING and config.model_type != "xlnet"
    return causal and type(config) not in MODEL_FOR_MASKED_LM_MAPPING


def load_causal(path: str | Path, options: LoadOptions = LoadOptions()) -> Any:
    """A causal LM in eval mode."""
    from transformers import AutoModelForCausalLM

    said = options.keywords
    check_available(path)
    device, pickle = usable_device(said.pop("device")), said.pop("allow_pickle")
    with readable(f"{path}, which must be a causal LM such as GPT-2"):
        check_shards(str(path), str(path), pickle)
        model = AutoModelForCausalLM.from_pretrained(str(path), use_safetensors=None if pickle else True, **said)
        check_weights(model, str(path))
        return model.to(device).eval()  # type: ignore[arg-type]  # as in the loader: transformers wraps `to`


def few_at_once(model: Any, tokens: Tensor, pad_id: int | None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows of [B, N], as many as their logits may be held: which they are, their tokens, what is attended to."""
    rows = max(1, _LOGITS // (tokens.shape[1] * model.config.vocab_size))
    for part in torch.arange(len(tokens)).split(rows):
        x = tokens[part].to(model.device)
        yield part, x, torch.ones_like(x) if pad_id is None else (x != pad_id).long()


@torch.inference_mode()
def causal_terms(model: Any, tokens: Tensor, free: Tensor, pad_id: int | None) -> Tensor:
    """log p(x_t | x_<t) of every free token, eq. 1: all of them in one pass.

    Args:
        model: A causal LM.
        tokens: [B, N]; the first token of a row is a start mark and never free.
        free: [B, N] bool.
        pad_id: What is not attended to; None attends to everything.

    Returns:
        [B, N] float64, 0 where nothing is asked.
    """
    answer = torch.zeros(tokens.shape, dtype=torch.float64)
    for part, x, attention in few_at_once(model, tokens, pad_id):
        logits = model(input_ids=x, attention_mask=attention).logits[:, :-1].float()
        of_token = logits.log_softmax(-1).gather(-1, x[:, 1:, None])[..., 0]
        answer[part, 1:] = of_token.double().cpu()
    return answer.where(free, 0.0)


@torch.inference_mode()
def causal_sample(
    model: Any, start: Tensor, length: int, generator: torch.Generator, banned: Iterable[int] = ()
) -> Tensor:
    """Draw ``length`` tokens after ``start`` [B, n], one at a time, each pass over one new token only (the cache)."""
    ban = torch.tensor(sorted(set(banned)), dtype=torch.long)
    tokens, new, cache = [start], start, None
    for _ in range(length):
        out = model(input_ids=new.to(model.device), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        # float64: in float32 the tail of a large vocabulary is rounded away, which sharpens the distribution.
        p = out.logits[:, -1].double().cpu().index_fill(-1, ban, -torch.inf).softmax(-1)
        new = torch.multinomial(p, 1, generator=generator)
        tokens.append(new)
    return torch.cat(tokens, 1)

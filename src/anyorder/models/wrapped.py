"""A model we know nothing of, called as if it were a masked LM of transformers: tokens in, logits out.

Masked-diffusion models come with code of their own, each with its habits: LLaDA's is a decoder without a causal mask,
Dream's was made of a causal model and answers for the *next* position, MDLM's reads how much of the text is masked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.modeling_outputs import MaskedLMOutput

from anyorder.errors import AnyorderError

Logits = Callable[[Any], Tensor]  # what the model returned -> [b, n, V]
_TIMES = ("timesteps", "timestep", "sigma")  # what a forward calls the noise level
_FULLY_MASKED = 1 - 1e-3  # MDLM's noise stops short of the infinity that a ratio of 1 means


class WrappedConfig(PreTrainedConfig):
    """Of a model whose layers are unknown, so that no shortcut of a known family is taken."""

    model_type = "anyorder-wrapped"


class Wrapped(nn.Module):
    """``inner`` as a masked LM.

    It is given rows of one length without an attention mask: what code we do not know does with padding is unknown too.

    Args:
        inner: a module, or any callable, from tokens [b, n] to what ``logits`` reads.
        mask_id: the id of the mask token.
        logits: finds the logits in what ``inner`` returns; None: the output itself, its ``logits``, or its first part.
        shift: the logits of token t stand at position t - shift. Where there is none, at the first.
        probe: tokens of the row that is asked once for the width of the answers. Not one: some models cannot.
    """

    def __init__(
        self, inner: Callable[..., Any], *, mask_id: int, logits: Logits | None = None, shift: int = 0, probe: int = 8
    ) -> None:
        super().__init__()
        if shift < 0:
            raise AnyorderError(f"shift is 0, or 1 for logits that answer for the next position, not {shift}")
        self.inner = inner
        self.config = WrappedConfig()
        self._mask_id, self._find, self._shift = mask_id, logits or find_logits, shift
        names = _parameters(inner.forward if isinstance(inner, nn.Module) else inner)
        # The tokens are given by name where the first argument is not them: transformers' forwards begin as they like.
        self._by_name = "input_ids" in names
        timed = getattr(getattr(inner, "config", None), "time_conditioning", False)
        self._time = next((name for name in _TIMES if name in names), None) if timed else None
        with torch.inference_mode():
            row = torch.full((1, probe), mask_id, device=self.device)
            self.vocab_size = self(row).logits.shape[-1]

    @property
    def device(self) -> torch.device:
        """Where the model is; a function is called with tensors on the CPU."""
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> MaskedLMOutput:
        """Logits [b, n, V], those of token t at t."""
        if attention_mask is not None and not bool(attention_mask.all()):
            raise AnyorderError("a wrapped model takes rows of one length: give it no padding")
        known = {} if self._time is None else {self._time: self.noise(input_ids)}
        output = self.inner(input_ids=input_ids, **known) if self._by_name else self.inner(input_ids, **known)
        logits = self._find(output)
        if logits.ndim != 3 or logits.shape[:2] != input_ids.shape:
            raise AnyorderError(
                f"the model answers tokens of shape {tuple(input_ids.shape)} with logits of shape "
                f"{tuple(logits.shape)}: it must be [rows, tokens, vocabulary]; say with `logits` where they are"
            )
        if self._shift:
            first = logits[:, :1].expand(-1, min(self._shift, logits.shape[1]), -1)
            logits = torch.cat([first, logits[:, : -self._shift]], 1)
        return MaskedLMOutput(logits=logits)  # type: ignore[arg-type]  # transformers says FloatTensor

    def set_attn_implementation(self, implementation: str) -> None:
        """Nothing changes: whichever attention the model has, its weights are not shown."""

    def noise(self, tokens: Tensor) -> Tensor:
        """σ [b] of rows [b, n] that are masked to a ratio r: 1 - exp(-σ) = r (Sahoo et al. 2024)."""
        ratio = (tokens == self._mask_id).double().mean(1)
        return -torch.log1p(-_FULLY_MASKED * ratio).to(torch.get_default_dtype())


def find_logits(output: Any) -> Tensor:
    """The logits of a Hugging Face output, of a tuple that begins with them, or the tensor itself."""
    found = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", None)
    if found is None:
        found = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(found, Tensor):
        raise AnyorderError(
            f"the model returns {type(output).__name__} without logits: name a model with a language-modelling head, "
            "or say with `logits` where they are"
        )
    return found


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some built-in callables have none to look at
        return set()

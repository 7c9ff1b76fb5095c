"""ModernBERT's layer with fewer passes over memory: the same sums as transformers', sooner on a CPU.

Beside the matrix products its time goes into rotary positions and the gated feed-forward, which are bound by memory:
here they are written where they are wanted, and their gradients in one piece instead of padded and added up.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu, linear
from transformers.activations import GELUActivation
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.modernbert.modeling_modernbert import eager_attention_forward


class Layer(nn.Module):
    """Shares the weights of ``layer``; ``last``: what nothing else reads is worked out at ``asked`` only."""

    def __init__(self, layer: Any, last: bool) -> None:
        super().__init__()
        self.layer, self.last = layer, last
        self.attention_type = layer.attention_type

    def forward(self, hidden: Tensor, *, asked: Tensor, **kwargs: Any) -> Tensor:
        """[b, n, H] -> [b, n, H], or with M flat indices into b·n as ``asked`` -> [M, H] by the last layer."""
        attn, normed = self.layer.attn, self.layer.attn_norm(hidden)
        fewer = self.last and not torch.is_grad_enabled() and attn.config._attn_implementation in _PLAIN
        at = _same_number(asked, *hidden.shape[:2]) if fewer and _bare(attn.Wqkv) else None
        if at is not None:
            out = attention(attn, normed, at=at, **kwargs).flatten(0, 1) + hidden.flatten(0, 1)[asked]
        else:
            out = hidden + attention(attn, normed, **kwargs)
            out = out.flatten(0, 1)[asked] if self.last else out
        return out + feed_forward(self.layer.mlp, self.layer.mlp_norm(out))


_PLAIN = ("sdpa", "eager")  # kernels that take fewer queries than keys as they come


def _bare(module: nn.Module) -> bool:
    """A weight and a bias that may be taken apart: no adapter (LoRA), no quantisation, nothing loaded on demand."""
    return type(module) is nn.Linear and "forward" not in vars(module)


def _same_number(asked: Tensor, b: int, n: int) -> Tensor | None:
    """Flat indices into b·n as positions [b, k] of each row; None where rows have different numbers of them."""
    if not len(asked) or len(asked) % b:
        return None
    asked = asked.view(b, -1)
    mine = asked // n == torch.arange(b, device=asked.device)[:, None]
    return asked % n if bool(mine.all()) else None


def attention(
    attn: Any,
    hidden: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None,
    at: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """What ``attn``, a ``ModernBertAttention``, makes of [b, n, H], or of its positions ``at`` [b, k] alone.

    The angles' cosines and sines are [1, n, d]. With ``at`` there is no gradient.
    """
    cos, sin = (x[:, :, None].to(torch.promote_types(x.dtype, torch.float32)) for x in position_embeddings)
    if at is None:
        qkv = attn.Wqkv(hidden).view(*hidden.shape[:2], 3, -1, attn.head_dim)
        dtype = qkv.dtype
        turned = _Turned.apply(qkv.to(cos.dtype), cos, sin)
    else:
        query, key, value = _projected_at(attn, hidden, at)
        dtype = query.dtype
        turned = _turn(query.to(cos.dtype), cos[0, at], sin[0, at]), _turn(key.to(cos.dtype), cos, sin), value
        attention_mask = _rows_of(attention_mask, at)
    query, key, value = (x.to(dtype).transpose(1, 2) for x in turned)
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(attn.config._attn_implementation, eager_attention_forward)
    out, _ = attend(
        attn,
        query,
        key,
        value,
        attention_mask,
        dropout=attn.attention_dropout if attn.training else 0.0,
        scaling=attn.head_dim**-0.5,
        sliding_window=attn.sliding_window,
        deterministic=attn.deterministic_flash_attn,
        **kwargs,
    )
    return attn.out_drop(attn.Wo(out.flatten(2)))


def _projected_at(attn: Any, hidden: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [b, k, heads, d] at ``at``; keys and values [b, n, heads, d]."""
    size = hidden.shape[-1]
    parts = (size, 2 * size)
    biases = (None, None) if attn.Wqkv.bias is None else attn.Wqkv.bias.split(parts)
    asking = hidden.gather(1, at[..., None].expand(-1, -1, size))
    query, both = (
        linear(x, weight, bias).unflatten(-1, (-1, attn.head_dim))
        for x, weight, bias in zip((asking, hidden), attn.Wqkv.weight.split(parts), biases, strict=True)
    )
    return query, *both.chunk(2, 2)


def _rows_of(mask: Tensor | None, at: Tensor) -> Tensor | None:
    """The rows ``at`` [b, k] of an attention mask [b or 1, 1, n, n]."""
    if mask is None:
        return None
    mask = mask.expand(len(at), -1, -1, -1)
    return mask.gather(2, at[:, None, :, None].expand(-1, 1, -1, mask.shape[-1]))


def feed_forward(mlp: Any, hidden: Tensor) -> Tensor:
    """What ``mlp``, a ``ModernBertMLP``, makes of [..., H]."""
    if not isinstance(mlp.act, GELUActivation):
        return mlp(hidden)
    if torch.is_grad_enabled() or not _bare(mlp.Wi):
        return mlp.Wo(mlp.drop(_Gated.apply(mlp.Wi(hidden))))
    # Two products with half the matrix each: their results lie in one piece, and can be overwritten.
    halves = zip(mlp.Wi.weight.chunk(2), (None, None) if mlp.Wi.bias is None else mlp.Wi.bias.chunk(2), strict=True)
    signal, gate = (linear(hidden, weight, bias) for weight, bias in halves)
    return mlp.Wo(mlp.drop(torch.ops.aten.gelu_(signal).mul_(gate)))


class _Turned(torch.autograd.Function):
    """Rotary positions (Su et al. 2021): qkv [b, n, 3, h, d] -> turned queries, turned keys, values: [b, n, h, d]."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(cos, sin)
        query, key, value = qkv.unbind(2)
        return _turn(query, cos, sin), _turn(key, cos, sin), value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        grad = query.new_empty((*query.shape[:2], 3, *query.shape[2:]))
        _turn(query, cos, -sin, out=grad[:, :, 0])
        _turn(key, cos, -sin, out=grad[:, :, 1])
        grad[:, :, 2] = value
        return grad, None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None = None) -> Tensor:
    """Each pair (x_i, x_{i + d/2}) turned by its angle."""
    half = x.shape[-1] // 2
    out = torch.mul(x, cos, out=out)
    out[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    out[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return out


class _Gated(torch.autograd.Function):
    """GELU of the first half times the second half: [..., 2 n] -> [..., n]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        signal, gate = x.chunk(2, -1)
        active = gelu(signal)
        ctx.save_for_backward(x, active)
        return active * gate

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x, active = ctx.saved_tensors
        signal, gate = x.chunk(2, -1)
        out = torch.empty_like(x)
        first, second = out.chunk(2, -1)
        torch.ops.aten.gelu_backward.grad_input(grad * gate, signal, grad_input=first)
        torch.mul(grad, active, out=second)
        return out

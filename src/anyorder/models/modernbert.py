"""ModernBERT's layer with fewer passes over memory: the same sums as transformers', sooner on a CPU.

Beside the matrix products its time goes into rotary positions and the gated feed-forward, which are bound by memory:
here they are written where they are wanted, and their gradients in one piece instead of padded and added up.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu
from transformers.activations import GELUActivation
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.modernbert.modeling_modernbert import eager_attention_forward

from anyorder.models.products import is_bare, linear
from anyorder.models.turned import ROWS


class Layer(nn.Module):
    """Shares the weights of ``layer``; ``last``: what nothing else reads is worked out at ``asked`` only."""

    def __init__(self, layer: Any, last: bool) -> None:
        super().__init__()
        self.layer, self.last = layer, last
        self.attention_type = layer.attention_type
        self.order = interleaved(layer.attn)

    def forward(self, hidden: Tensor, *, asked: Tensor, **kwargs: Any) -> Tensor:
        """[b, n, H] -> [b, n, H], or with M flat indices into b·n as ``asked`` -> [M, H] by the last layer."""
        attn, normed, order = self.layer.attn, self.layer.attn_norm(hidden), self.order.to(hidden.device)
        fewer = self.last and attn.config._attn_implementation in _PLAIN and is_bare(attn.Wqkv)
        at, real = _by_row(asked, *hidden.shape[:2]) if fewer else (None, None)
        out = attention(attn, normed, order, at=at, **kwargs)
        if at is None:
            out = hidden + out
            out = out.flatten(0, 1)[asked] if self.last else out
        else:
            out = hidden.flatten(0, 1)[asked] + (out.flatten(0, 1) if real is None else out[real])
        return out + feed_forward(self.layer.mlp, self.layer.mlp_norm(out))


_PLAIN = ("sdpa", "eager")  # kernels that take fewer queries than keys as they come
# Tokens up to which their projections are put in order, and not the matrix: as many as may meet one by columns
# (``turned.py``), whose rows are scattered.
_FEW = ROWS[-1]


def _by_row(asked: Tensor, b: int, n: int) -> tuple[Tensor | None, Tensor | None]:
    """Flat indices into b·n, row by row, as positions [b, k] of each, and which of these are real (None: all).

    Rows with fewer questions than others repeat position 0. No positions where k is over half of n: little is saved.
    """
    row = asked // n
    count = torch.bincount(row, minlength=b)
    k = int(count.max())
    if not 0 < k <= n // 2 or bool((row.diff() < 0).any()):
        return None, None
    if k * b == len(asked):
        return (asked % n).view(b, k), None
    slot = torch.arange(len(asked), device=asked.device) - (count.cumsum(0) - count)[row]
    at, real = asked.new_zeros((b, k)), torch.zeros((b, k), dtype=torch.bool, device=asked.device)
    at[row, slot], real[row, slot] = asked % n, True
    return at, real


def attention(
    attn: Any,
    hidden: Tensor,
    order: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None,
    at: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """What ``attn``, a ``ModernBertAttention``, makes of [b, n, H], or of its positions ``at`` [b, k] alone.

    The angles' cosines and sines are [1, n, d].
    """
    angle = angle_of(*position_embeddings)
    if at is None:
        rotated = rotated_projections(attn, hidden, order, angle)
    else:
        asking, others = _projected_at(attn, hidden, order, at)
        rotated = *_rotated(asking, angle[0, at], 1), *_rotated(others, angle, 1)
        attention_mask = _rows_of(attention_mask, at)
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(attn.config._attn_implementation, eager_attention_forward)
    out, _ = attend(
        attn,
        *(x.transpose(1, 2) for x in rotated),
        attention_mask,
        dropout=attn.attention_dropout if attn.training else 0.0,
        scaling=attn.head_dim**-0.5,
        sliding_window=attn.sliding_window,
        deterministic=attn.deterministic_flash_attn,
        **kwargs,
    )
    return attn.out_drop(attn.Wo(out.flatten(2)))


def angle_of(cos: Tensor, sin: Tensor) -> Tensor:
    """cos and sin [b or 1, n, d], whose halves are alike, as e^{i angle} [b or 1, n, 1, d/2], in float32 at least."""
    cos, sin = (x[:, :, None, : x.shape[-1] // 2] for x in (cos, sin))
    wide = torch.promote_types(cos.dtype, torch.float32)
    return torch.complex(cos.to(wide), sin.to(wide))


def interleaved(attn: Any) -> Tensor:
    """The rows of ``Wqkv`` with those of a pair that is rotated together, i and i + d/2 of a head, side by side.

    So a pair is one complex number and is rotated by one multiplication; queries times keys are the same sums.
    """
    rows = torch.arange(attn.Wqkv.out_features).view(3, -1, 2, attn.head_dim // 2)
    return torch.cat([rows[:2].transpose(2, 3).flatten(), rows[2].flatten()])


def rotated_projections(attn: Any, hidden: Tensor, order: Tensor, angle: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values of [b, n, H], each [b, n, heads, d], rotated by the ``angle`` of their positions."""
    return _rotated(_projected(attn, hidden, order), angle, 2)


def _rotated(x: Tensor, angle: Tensor, count: int) -> tuple[Tensor, ...]:
    """The m parts [b, n, h, d] of x [b, n, m, h, d], the first ``count`` of them rotated, in float32 at least."""
    wide = x.to(angle.dtype.to_real())
    if torch.is_grad_enabled():
        parts = _Rotated.apply(wide, angle, count)
    else:
        _rotate_(wide[:, :, :count], angle)
        parts = wide.unbind(2)
    return tuple(part.to(x.dtype) for part in parts)


def _projected(attn: Any, hidden: Tensor, order: Tensor) -> Tensor:
    """Queries, keys and values, [b, n, 3, heads, d], those to be rotated with their pairs side by side."""
    rows = hidden.flatten(0, 1)
    if is_bare(attn.Wqkv) and len(rows) > _FEW:
        qkv = linear(rows, *_in_order(attn.Wqkv, order))
    else:
        qkv = attn.Wqkv(rows).index_select(-1, order)  # over three axes: 5 to 12 times as long
    return qkv.view(*hidden.shape[:2], 3, qkv.shape[-1] // (3 * attn.head_dim), attn.head_dim)


def _projected_at(attn: Any, hidden: Tensor, order: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Queries [b, k, 1, heads, d] at ``at``; keys and values [b, n, 2, heads, d]."""
    size = hidden.shape[-1]
    parts = (size, 2 * size)
    weight, bias = _in_order(attn.Wqkv, order)
    biases = (None, None) if bias is None else bias.split(parts)
    asking = hidden.gather(1, at[..., None].expand(-1, -1, size))
    query, others = (linear(x, w, b) for x, w, b in zip((asking, hidden), weight.split(parts), biases, strict=True))
    return query.unflatten(-1, (1, -1, attn.head_dim)), others.unflatten(-1, (2, -1, attn.head_dim))


def _in_order(module: nn.Linear, order: Tensor) -> tuple[Tensor, Tensor | None]:
    """Weight and bias with their rows in another order."""
    return module.weight.index_select(0, order), None if module.bias is None else module.bias.index_select(0, order)


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
    if torch.is_grad_enabled() or not is_bare(mlp.Wi):
        return mlp.Wo(mlp.drop(_Gated.apply(mlp.Wi(hidden))))
    if hidden.numel() <= _FEW * hidden.shape[-1]:
        # One product, and GELU across the grain, by torch itself: oneDNN's, which takes only what lies in one piece,
        # needs 20 us to begin.
        signal, gate = mlp.Wi(hidden).chunk(2, -1)
        return mlp.Wo(mlp.drop(gelu(signal).mul_(gate)))
    # Two products with half the matrix each: their results lie in one piece, and can be overwritten.
    halves = zip(mlp.Wi.weight.chunk(2), (None, None) if mlp.Wi.bias is None else mlp.Wi.bias.chunk(2), strict=True)
    signal, gate = (linear(hidden, weight, bias) for weight, bias in halves)
    return mlp.Wo(mlp.drop(torch.ops.aten.gelu_(signal).mul_(gate)))


class _Rotated(torch.autograd.Function):
    """Rotary positions (Su et al. 2021): x [b, n, m, h, d] -> m times [b, n, h, d], of which the first are rotated.

    x is overwritten: the matrix product it comes from no longer needs it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, angle: Tensor, rotated: int) -> tuple[Tensor, ...]:
        ctx.save_for_backward(angle)
        ctx.rotated = rotated
        _rotate_(x[:, :, :rotated], angle)
        return x.unbind(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (angle,) = ctx.saved_tensors
        grad = torch.stack(grads, 2)
        _rotate_(grad[:, :, : ctx.rotated], angle.conj())
        return grad, None, None


def _rotate_(x: Tensor, angle: Tensor) -> None:
    """Each pair (x_2i, x_2i+1) of [b, n, m, h, d] rotated in place by its e^{i angle}, [b or 1, n, 1, d/2]."""
    torch.view_as_complex(x.unflatten(-1, (-1, 2))).mul_(angle[:, :, None])


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
        torch.mul(grad, gate, out=first)
        torch.ops.aten.gelu_backward.grad_input(first, signal, grad_input=first)
        torch.mul(grad, active, out=second)
        return out

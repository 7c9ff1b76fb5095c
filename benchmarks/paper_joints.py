"""The recipe of Torroba Hennigen & Kim (2023) as one writes it down: what ``bench_joints.py`` compares against.

Batches of 256 rows, the full head at all positions, every table and joint as a V×V matrix, 50 Arnold–Gokhale steps on
the whole joint, conditionals of each joint laid out to take their KL.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BATCH, STEPS = 256, 50


@torch.inference_mode()
def table(model: torch.nn.Module, tokens: Tensor, mask_id: int, vary: int, ask: int, vocab_size: int) -> Tensor:
    """Logits [V, V] at ``ask``, a row for each token at ``vary``."""
    out = []
    for values in torch.arange(vocab_size).split(BATCH):
        rows = tokens.repeat(len(values), 1)
        rows[:, vary], rows[:, ask] = values, mask_id
        logits = model(input_ids=rows, attention_mask=torch.ones_like(rows)).logits
        out.append(logits[:, ask].clone())
    return torch.cat(out)


@torch.inference_mode()
def evaluate(model: torch.nn.Module, tokens: Tensor, mask_id: int, a: int, b: int, vocab_size: int) -> dict[str, dict]:
    """U-NLL, P-NLL, A-KL and G-KL of the five joints for the gold tokens that stand at a and b."""
    w_a, w_b = int(tokens[a]), int(tokens[b])
    logits_a = table(model, tokens, mask_id, b, a, vocab_size)  # [b, a]
    logits_b = table(model, tokens, mask_id, a, b, vocab_size)  # [a, b]
    q_a, q_b = torch.log_softmax(logits_a, -1), torch.log_softmax(logits_b, -1)
    both = tokens.clone()
    both[[a, b]] = mask_id
    masked = torch.log_softmax(model(input_ids=both[None], attention_mask=torch.ones_like(both)[None]).logits[0], -1)
    joints = {
        "mlm": masked[a][:, None] + masked[b][None],
        "mrf-logit": normalise(logits_a.T + logits_b),
        "mrf": normalise(q_a.T + q_b),
        "hcb": normalise(q_a.T - q_a[:, masked[a].argmax()][None] + q_b[masked[a].argmax()][None]),
        "ag": arnold_gokhale(q_a, q_b),
    }
    out = {}
    for name, joint in joints.items():
        p_a = (joint - torch.logsumexp(joint, 0, keepdim=True)).T  # [b, a]
        p_b = joint - torch.logsumexp(joint, 1, keepdim=True)
        kl_a = (q_a.exp() * (q_a - p_a)).sum(-1)
        kl_b = (q_b.exp() * (q_b - p_b)).sum(-1)
        u_a, u_b = (q_a, q_b) if name == "mlm" else (p_a, p_b)
        out[name] = {
            "u_nll": -float(u_a[w_b, w_a] + u_b[w_a, w_b]),
            "p_nll": -float(joint[w_a, w_b]),
            "a_kl": float(kl_a.mean() + kl_b.mean()) / 2,
            "g_kl": float(kl_a[w_b] + kl_b[w_a]) / 2,
        }
    return out


def normalise(score: Tensor) -> Tensor:
    """A log-joint from its unnormalised form."""
    return score - torch.logsumexp(score.flatten(), 0)


def arnold_gokhale(q_a: Tensor, q_b: Tensor) -> Tensor:
    """Eq 5 on the whole joint, from the uniform one; its log."""
    c = q_a.exp().T + q_b.exp()
    joint = torch.full_like(c, math.exp(-2 * math.log(len(c))))
    for _ in range(STEPS):
        joint = c / (1 / joint.sum(1, keepdim=True) + 1 / joint.sum(0, keepdim=True))
        joint = joint / joint.sum()
    return joint.log()

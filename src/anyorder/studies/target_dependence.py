"""Why translation is easier than free text: how much target tokens still depend on each other once the source is known.

For pairs of target positions, all of the target masked: the information Î(x_i; x_j) in nats that drawing the two side
by side loses (``studies/dependence.py``), given the source and given nothing (the source masked as well, which a model
trained on whole sources has not seen: read that figure with care). And what a cheap measure of dependence is worth:
the rank correlation of attention, within the target and to the source, with the influence of tokens on each other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.conditionals.restricted import text_only
from anyorder.metrics.glue import spearman
from anyorder.models.attention import attention_influence, attention_of
from anyorder.samplers.adaptive import mutual_influence
from anyorder.stats import Estimate, mean_estimate
from anyorder.studies.dependence import choose_pairs, measure_pairs
from anyorder.tasks.given import blank_row, openings
from anyorder.text.pairs import pair_frame

if TYPE_CHECKING:
    from anyorder.studies.translation import Pairs
    from anyorder.tasks.lm import MaskedLM

_RANDOM, _BESIDE = 6, 6  # pairs of positions of each text, drawn at random and side by side
_ATTENTION = {"attention": False, "source_attention": True}  # whether it is the attention to the source


@dataclass(frozen=True)
class TargetDependence:
    """Means over texts; None where no text could be measured."""

    texts: int
    given_source: Estimate | None  # nats between two target positions
    given_nothing: Estimate | None
    attention: Estimate | None  # rank correlation with the influence of tokens; None if the model hides its attention
    source_attention: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


def target_dependence(lm: MaskedLM, pairs: Pairs, texts: int, seed: int = 0) -> TargetDependence:
    """Measure the first ``texts`` pairs whose targets have at least three tokens."""
    conditionals = text_only(lm.conditionals, lm.tokenizer)
    mask, frame = lm.conditionals.mask_id, pair_frame(lm.tokenizer)
    columns: dict[str, list[float]] = {name: [] for name in ("given_source", "given_nothing", *_ATTENTION)}
    generator = torch.Generator().manual_seed(seed)
    for source, reference in zip(pairs.sources, pairs.references, strict=True):
        length = len(lm.tokenizer(reference, add_special_tokens=False, verbose=False)["input_ids"])
        (opening,) = openings(lm, [source])
        if length < 3 or len(opening) + length + len(frame.after) > lm.max_length:
            continue
        row = blank_row(lm, opening, length)
        asked = choose_pairs(row.free, _RANDOM, _BESIDE, generator)
        hidden = row.tokens.clone()
        hidden[len(frame.before) : len(opening) - len(frame.between)] = mask
        for name, tokens in (("given_source", row.tokens), ("given_nothing", hidden)):
            columns[name].append(float(measure_pairs(conditionals, tokens, asked, generator)[0].mean()))
        noise = torch.rand((1, len(row.tokens)), generator=generator, dtype=torch.float64)
        found, _ = mutual_influence(conditionals, row.tokens[None], row.free[None], noise)
        truth = torch.maximum(found, found.transpose(1, 2))[0]
        if attention_of(lm.model, row.tokens[None]) is not None:
            for name, to_source in _ATTENTION.items():
                cheap, _ = attention_influence(lm.model, mask, None, to_source)(row.tokens[None], row.free[None])
                columns[name].append(_rank_correlation(truth, cheap[0], row.free))
        if len(columns["given_source"]) == texts:
            break
    estimates = {name: mean_estimate(values) if values else None for name, values in columns.items()}
    return TargetDependence(len(columns["given_source"]), **estimates)


def _rank_correlation(truth: Tensor, cheap: Tensor, free: Tensor) -> float:
    """Spearman's, over the pairs of free positions; 0 where one of the two does not tell them apart."""
    where = free.nonzero().squeeze(1)
    i, j = torch.triu_indices(len(where), len(where), offset=1)
    return spearman(truth[where[i], where[j]].numpy(), cheap[where[i], where[j]].numpy())

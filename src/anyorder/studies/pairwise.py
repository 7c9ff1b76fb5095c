"""Table 1 of Torroba Hennigen & Kim (2023) for any model and any text, one example at a time and never twice."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from anyorder.errors import AnyorderError
from anyorder.files.journal import Journal, Record
from anyorder.joints.many import many, many_hcb, many_mrf, many_mrf_logit, many_product, many_tables
from anyorder.joints.measures import score_many, score_pair
from anyorder.joints.methods import derive
from anyorder.joints.product import product
from anyorder.joints.support import adaptive_joint
from anyorder.joints.tables import masked_marginals, pair_tables
from anyorder.metrics.pairwise import PairScore, PairwiseRow, summarise
from anyorder.tasks.pairs import Example

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

# METHODS, for more than two positions.
MANY = {"mlm": many_product, "mrf-logit": many_mrf_logit, "mrf": many_mrf, "hcb": many_hcb, "ag": many}


def run(
    lm: MaskedLM,
    examples: Sequence[Example],
    methods: Sequence[str],
    journal: Journal,
    *,
    tail: float | None = None,
    support: int | None = None,
    report: Callable[[int], object] = lambda rows: None,
) -> list[Record]:
    """Work out the examples the journal lacks; returns the records of all, in order."""
    for index, example in enumerate(examples):
        if index < len(journal.records):
            done = journal.records[index]
            try:
                for method in methods:
                    PairScore.from_dict(done["scores"][method])
                math.fsum((done["rows"], done["seconds"]))  # numbers, to be added up in the end
                found = tuple(done[name] for name in ("line", "positions", "distance"))
            except (KeyError, TypeError) as error:
                raise AnyorderError(
                    f"example {index + 1} of {journal.path} is damaged: start over with --overwrite"
                ) from error
            if found != (example.line, list(example.positions), example.distance):
                raise AnyorderError(f"{journal.path} belongs to another data file: leave out --resume to start over")
            continue
        began = time.perf_counter()
        with torch.inference_mode():
            if len(example.positions) > 2:
                scores, rows = _many_scores(lm, example, methods, support, report)
            else:
                scores, rows = _scores(lm, example, methods, tail, report)
        journal.add(
            {
                "line": example.line,
                "positions": list(example.positions),
                "distance": example.distance,
                "gold": lm.tokenizer.convert_ids_to_tokens(list(example.gold)),
                "scores": {name: score.to_dict() for name, score in scores.items()},
                "rows": rows,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )
    return journal.records[: len(examples)]


def _scores(
    lm: MaskedLM, example: Example, methods: Sequence[str], tail: float | None, report: Callable[[int], object]
) -> tuple[dict[str, PairScore], int]:
    """The scores of every method on one example, and how many rows of the model they took."""
    where = (lm.conditionals, example.tokens, example.a, example.b)
    a, b = example.gold
    if tail is None:
        tables = pair_tables(*where, report=report)
        joints = {method: derive(tables, method) for method in methods}
        return score_pair(tables, joints, (a, b)), 2 * tables.vocab_size
    joint = adaptive_joint(*where, tail=tail, include=(a, b), report=report)
    log_q_a, log_q_b = joint.known_row(1, b), joint.known_row(0, a)  # the model's own, given the gold tokens
    scores = {}
    for method in methods:
        chosen = joint if method == "ag" else product(*masked_marginals(*where))
        log_p_a, log_p_b = chosen.conditional(1, b), chosen.conditional(0, a)
        unary = log_p_a[a] + log_p_b[b] if method == "ag" else log_q_a[a] + log_q_b[b]
        kl = sum(float((q.exp() * (q - p)).sum()) for q, p in ((log_q_a, log_p_a), (log_q_b, log_p_b)))
        # A-KL is a mean over all V conditionals, most of which were never asked for.
        scores[method] = PairScore(-float(unary), -float(chosen.log_prob(a, b)), math.nan, kl / 2)
    return scores, joint.rows_asked


def _many_scores(
    lm: MaskedLM, example: Example, methods: Sequence[str], support: int | None, report: Callable[[int], object]
) -> tuple[dict[str, PairScore], int]:
    """The same for three or four positions, over ``support`` tokens of each."""
    tables = many_tables(
        lm.conditionals, example.tokens, example.positions, support=support, include=example.gold, report=report
    )
    joints = {method: MANY[method](tables) for method in methods}
    return score_many(tables, joints, example.gold), sum(kept.numel() for kept in tables.kept)


def table(records: Sequence[Record], methods: Sequence[str], seed: int) -> list[PairwiseRow]:
    """Table 1 from the records."""
    scores = {m: [PairScore.from_dict(r["scores"][m]) for r in records] for m in methods}
    return summarise(scores, seed=seed, size=len(records[0]["positions"]))


def by_distance(records: Sequence[Record], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Appendix E: mean pairwise NLL in nats per token for every number of tokens between the two positions."""
    out = []
    for distance in sorted({int(r["distance"]) for r in records}):
        here = [r for r in records if r["distance"] == distance]
        tokens = sum(len(r["positions"]) for r in here)
        nll = {m: sum(r["scores"][m]["p_nll"] for r in here) / tokens for m in methods}
        out.append({"distance": distance, "examples": len(here), "nll": nll})
    return out

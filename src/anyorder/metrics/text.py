"""How good a generated text is: stutter, repetition and variety."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence

Row = Sequence[Hashable]  # the tokens of one text


def adjacent_repeats(rows: Sequence[Row]) -> float:
    """Share of neighbouring tokens that are equal, over all texts together: #{t : x_t = x_t+1} / #{t}.

    Beyond that of real text ("had had") it is stutter, the failure Li et al. 2024 (remark 1) explain: a parallel step
    that fills neighbours independently writes "the the" where either place alone deserved a "the".
    """
    pairs = sum(max(0, len(row) - 1) for row in rows)
    equal = sum(a == b for row in rows for a, b in itertools.pairwise(row))
    return equal / pairs if pairs else 0.0


def ngrams(row: Row, n: int) -> list[tuple[Hashable, ...]]:
    """The n-grams of one text, in order."""
    return [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]


def distinct_n(rows: Sequence[Row], n: int) -> float:
    """Distinct n-grams as a share of all n-grams, over all texts together (Li et al. 2016): variety *between* texts."""
    grams = [gram for row in rows for gram in ngrams(row, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def repetition_n(rows: Sequence[Row], n: int) -> float:
    """Mean over texts of 1 - distinct n-grams / n-grams (seq-rep-n, Welleck et al. 2020): repetition *within* one."""
    shares = [1 - len(set(grams)) / len(grams) for grams in (ngrams(row, n) for row in rows) if grams]
    return sum(shares) / len(shares) if shares else 0.0


def unigram_entropy(rows: Sequence[Row]) -> float:
    """Mean over texts of the entropy, in nats, of the text's own token frequencies.

    Generative perplexity rewards a text that says one probable word over and over; its entropy gives it away.
    """
    entropies = []
    for row in rows:
        counts = Counter(row)
        entropies.append(-sum(c / len(row) * math.log(c / len(row)) for c in counts.values()))
    return sum(entropies) / len(entropies) if entropies else 0.0

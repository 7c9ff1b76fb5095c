"""SQuAD 2.0's exact match and F1 (Rajpurkar et al. 2018), by the definitions of its official script.

Answers are compared after normalisation: lower case, no punctuation, no articles, single spaces. A question that has no
answer is answered by the empty text, and nothing but the empty text is right there.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str) -> str:
    """The text that is compared."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact(predicted: str, gold: str) -> float:
    """1 if the normalised answers are equal, else 0."""
    return float(normalise(predicted) == normalise(gold))


def token_f1(predicted: str, gold: str) -> float:
    """F1 of the answers' words as bags; where one of them is empty, whether both are."""
    a, b = normalise(predicted).split(), normalise(gold).split()
    if not a or not b:
        return float(a == b)
    common = sum((Counter(a) & Counter(b)).values())
    return 2 * common / (len(a) + len(b))


def judge(predicted: str, golds: Sequence[str]) -> tuple[float, float]:
    """(exact match, F1): the best over the right answers; without any, the empty one is right.

    As in the official script, right answers of which nothing is left by normalisation do not count.
    """
    right = [gold for gold in golds if normalise(gold)] or [""]
    return max(exact(predicted, gold) for gold in right), max(token_f1(predicted, gold) for gold in right)


def best_threshold(
    margins: NDArray[np.float64], with_answer: NDArray[np.float64], without: NDArray[np.float64]
) -> float:
    """The threshold of the no-answer margin that gives the best mean score.

    A question is left unanswered where its margin (score of no answer minus that of the best span) exceeds the
    threshold. Only the order of the margins matters, so trying each of them tries everything.

    Args:
        margins: [n].
        with_answer: [n] score of each question if its span is given.
        without: [n] score if nothing is.

    Returns:
        A number halfway between two margins, so that a rounding error decides nothing; -inf answers no question, inf
        every one.
    """
    order = np.argsort(margins, kind="stable")
    margin = margins[order]
    # after k: the k smallest margins are answered
    gains = np.concatenate([[0.0], np.cumsum((with_answer - without)[order])])
    possible = np.concatenate([[True], margin[1:] > margin[:-1], [True]])  # equal margins stay together
    k = int(np.argmax(np.where(possible, gains, -np.inf)))
    if k == 0:
        return -np.inf
    return np.inf if k == len(margin) else float(margin[k - 1] + margin[k]) / 2

"""Whether a model's conditionals in a text, or in the texts of a file, are those of any joint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError
from anyorder.files.reading import is_file_name
from anyorder.joints.compatibility import compatibility
from anyorder.tasks.joint import read_pair
from anyorder.tasks.pairs import Example, draw_examples, text_pairs
from anyorder.text.vocabulary import vocabulary

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

MEANS = ("mean", "median", "residual", "expected_residual")  # of Compatibility, averaged over pairs in a summary


def chosen_pairs(lm: MaskedLM, source: str, scheme: str, examples: int, seed: int) -> list[Example]:
    """The pairs of ``source``: of a text its two blanks, or every adjacent pair; of a file one pair per line."""
    if is_file_name(source):
        return draw_examples(lm, source, scheme, examples, seed).examples
    if "___" in source or str(lm.tokenizer.mask_token) in source:
        tokens, a, b = read_pair(lm, source)
        return [Example(1, tokens, (a, b))]
    pairs = list(text_pairs(lm, source))
    if not pairs:
        raise AnyorderError("the text has no two adjacent tokens: give a longer one, or a file with one text per line")
    return pairs


def compatibilities(
    lm: MaskedLM, pairs: Sequence[Example], top: int | None, *, special_tokens: bool = False
) -> Iterator[dict[str, Any]]:
    """:func:`anyorder.joints.compatibility.compatibility` of each pair, with tokens in place of their ids.

    ``special_tokens``: they count among the tokens of a position, as in the paper.
    """
    allowed = None if special_tokens else ~vocabulary(lm.tokenizer, lm.conditionals.vocab_size).special
    strings = lm.tokenizer.convert_ids_to_tokens
    for example in pairs:
        result = compatibility(lm.conditionals, example.tokens, example.a, example.b, top=top, allowed=allowed)
        row = result.to_dict() | {"worst": strings(list(result.worst))}
        yield {"line": example.line, "gold": strings(list(example.gold)), **row}


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Means over pairs, and the largest cross-ratio of all."""
    means = {name: sum(row[name] for row in rows) / len(rows) for name in MEANS}
    return means | {"max": max(row["max"] for row in rows)}

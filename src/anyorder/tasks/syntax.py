"""Syntactic distance between two tokens of a text (appendix E of Torroba Hennigen & Kim 2023), by any spaCy pipeline.

A model's tokens are pieces of words: each belongs to the word that holds its first character. The distance is the
number of arcs between the two words in the dependency tree, so 0 within one word and 1 between a word and its head.
Sentences of one text hang from one root above their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token
    from transformers import PreTrainedTokenizerBase

Parse = Callable[[str], "Doc"]


def load_parser(name: str) -> Parse:
    """The spaCy pipeline ``name``, a package or a folder, as a function from a text to its parse."""
    try:
        import spacy
    except ImportError:
        raise AnyorderError("a syntactic distance needs spaCy: pip install 'anyorder[syntax]'") from None
    try:
        parse = spacy.load(name)
    except OSError:
        raise AnyorderError(
            f"there is no spaCy pipeline {name!r}: install it (python -m spacy download {name}), or name the folder "
            "of one that was trained"
        ) from None
    if not parse("A word.").has_annotation("DEP"):
        raise AnyorderError(f"the spaCy pipeline {name!r} does not parse: choose one with a dependency parser")
    return parse


def tree_distance(first: Token, second: Token) -> int:
    """Arcs between two words of one parse."""
    above = _upwards(first)  # both paths end at the root above all sentences
    return next(steps + above.index(word) for steps, word in enumerate(_upwards(second)) if word in above)


def _upwards(word: Token) -> list[int]:
    """The word, its head, the head's head and so on, and at last -1, the root above all sentences."""
    return [word.i, *(above.i for above in word.ancestors), -1]


def word_at(parse: Doc, character: int) -> Token:
    """The word that holds a character; the one before it, if that is a space."""
    found = [word for word in parse if word.idx <= character]
    return found[-1] if found else parse[0]


def syntactic(
    records: Sequence[Mapping[str, Any]], lines: Sequence[str], tokenizer: PreTrainedTokenizerBase, parse: Parse
) -> list[dict[str, Any]]:
    """The records of a pairwise study, with the syntactic distance of their two tokens as ``distance``.

    Args:
        records: With ``line``, from 1, and ``positions`` of the masked tokens, special ones counted.
        lines: The texts of the study's file.
        tokenizer: The model's.
        parse: From :func:`load_parser`.
    """
    if not tokenizer.is_fast:
        raise AnyorderError("this tokenizer does not say where its pieces stand: choose a model with a fast one")
    parses: dict[int, Doc] = {}
    out = []
    for record in records:
        number, places = record["line"], record["positions"]
        text = lines[number - 1].strip()
        if number not in parses:
            parses[number] = parse(text)
        starts = tokenizer(text, truncation=False, verbose=False, return_offsets_mapping=True)["offset_mapping"]
        first, last = (word_at(parses[number], _start(text, *starts[p])) for p in (places[0], places[-1]))
        out.append({**record, "distance": tree_distance(first, last)})
    return out


def _start(text: str, first: int, end: int) -> int:
    """The first character of a piece that is no space: byte-level pieces begin with the space before their word."""
    return first + len(text[first:end]) - len(text[first:end].lstrip())

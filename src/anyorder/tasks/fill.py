"""Fill every blank of a text jointly: the logic behind ``lm.fill`` and ``anyorder fill``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.orders import parse as parse_order
from anyorder.samplers.seeds import Seeds
from anyorder.tasks.html import Shown
from anyorder.tasks.lengths import length_posteriors
from anyorder.tasks.options import FillOptions
from anyorder.tasks.rows import named
from anyorder.tasks.searches import Cut, Found, by_beam, by_joint, by_sample
from anyorder.text.template import Layout, Template, check_length, finish_layout, kinds, parse, tokenise
from anyorder.text.vocabulary import Vocabulary, vocabulary

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Completion:
    """One way to fill all blanks.

    Attributes:
        text: the user's text, verbatim, with its blanks filled.
        log_prob: joint log-probability of the fills, given the text (and, where a length was open, of that length).
        fills: what stands in each blank.
        tokens: the whole row of token ids.
        length_log_prob: log p(lengths | text), a part of ``log_prob``; None if no length was open.
    """

    text: str
    log_prob: float
    fills: tuple[str, ...]
    tokens: tuple[int, ...]
    length_log_prob: float | None = None

    @property
    def prob(self) -> float:
        """The joint probability itself."""
        return math.exp(self.log_prob)

    def __repr__(self) -> str:
        return f"Completion({self.text!r}, prob={self.prob:.4g}, fills={self.fills!r})"

    def cells(self) -> dict[str, str]:
        """A row of a table."""
        length = {} if self.length_log_prob is None else {"p(length)": f"{100 * math.exp(self.length_log_prob):.1f}%"}
        return {"log_prob": f"{self.log_prob:.3f}", "prob": f"{100 * self.prob:.2f}%", **length, "text": self.text}

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON; that of the lengths only where some were open."""
        out: dict[str, Any] = {"text": self.text, "log_prob": self.log_prob, "fills": list(self.fills)}
        if self.length_log_prob is not None:
            out["length_log_prob"] = self.length_log_prob
        return out


@overload
def fill(  # type: ignore[overload-overlap]  # a str is a sequence of str
    lm: MaskedLM, text: str, options: FillOptions = ..., *, progress: Progress | None = ..., first: int = ...
) -> list[Completion]: ...
@overload
def fill(
    lm: MaskedLM, text: Sequence[str], options: FillOptions = ..., *, progress: Progress | None = ..., first: int = ...
) -> list[list[Completion]]: ...
def fill(
    lm: MaskedLM,
    text: str | Sequence[str],
    options: FillOptions = FillOptions(),
    *,
    progress: Progress | None = None,
    first: int = 1,
) -> list[Completion] | list[list[Completion]]:
    """Every blank filled jointly, completions ranked by their joint log-probability.

    Several texts are searched together (``beam``; the other methods take them one after the other): their rows share
    the model's batches, and each gets what it gets alone.

    Blanks are written ``___`` (or the model's own mask token) for one token, ``___{3}`` for three, ``___{1-4}`` for
    one to four. log_prob is the model's own, Σ_t log q(x_σ(t) | x_σ(<t), text), not normalised over the allowed
    tokens: with one blank it is exactly what transformers' fill-mask reports.

    **Open lengths.** Completions of different length are texts of different length: log q(x | c, L) alone compares what
    does not compare, since more tokens make it lower whatever they are. What is missing is the probability of the
    length itself. By Bayes' rule with a uniform prior, p(L | c) ∝ p(c | L): how well a blank of L masks explains the
    *observed* tokens c around it. The same tokens are scored for every L, so no length pays for its own. Then
    log_prob = log p(L | c) + log q(x | c, L) is one distribution over all completions of all lengths, and completions
    are ranked by it: a length the text calls for wins however long it is, and where the text does not care the
    likelier words do. See :mod:`anyorder.tasks.lengths`.

    Args:
        lm: The model.
        text: The text with its blanks, or several.
        options: What to search for, and how.
        progress: Called with (what, done, of how many).
        first: The number of the first of several texts, by which an error names one.

    Returns:
        Completions, best first; of several texts, a list of such lists, empty for an empty text.
    """
    top, method, beam = options.top, options.method, options.beam
    alone = isinstance(text, str)
    texts = [text] if isinstance(text, str) else list(text)
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    fits = vocab.fits if options.special_tokens else vocab.fits & ~vocab.special
    templates = [
        named(None if alone else n, read_template, lm, one, vocab) if alone or one.strip() else Template((one,), ())
        for n, one in enumerate(texts, first)
    ]
    layouts = _layouts(lm, templates, vocab, options.allow_unknown, None if alone else first)
    log_length = length_posteriors(lm.conditionals, layouts, templates, vocab)
    # A text's seed is its own: neither its neighbours nor its place among them change what it gets.
    generators = [torch.Generator().manual_seed(options.seed) for _ in texts]
    cuts = [
        Cut(
            number,
            n,
            layout,
            kinds(layout, vocab, options.whole_words),
            _order(options.order, layout, generators[number] if method == "beam" else None),
            float(log_length[number][n]) if len(several) > 1 else None,
        )
        for number, several in enumerate(layouts)
        for n, layout in enumerate(several)
    ]
    if not all(bool(fits.any(-1)[cut.kind].all()) for cut in cuts):
        raise AnyorderError("no token of the vocabulary fits a blank: allow word pieces (--any-pieces)")

    def tell(done: int, of: int, before: int = 0, parts: int = 1) -> None:
        if progress is not None:
            progress("filling", before * of + done, parts * of)

    found = []
    if method == "beam":
        found = by_beam(lm.conditionals, cuts, fits, width=max(beam, top), keep=top, tell=tell)
    for number, cut in enumerate(cuts if method != "beam" else ()):
        told = partial(tell, before=number, parts=len(cuts))
        if method == "joint":
            found.append(by_joint(lm.conditionals, cut, fits, top, options.tail, told))
        else:
            noise = Seeds(options.seed, ((cut.number, i) for i in range(options.samples)))
            found.append(by_sample(lm.conditionals, cut, fits, options.samples, noise, told))
    ranked = _ranked(cuts, found, vocab, top, len(texts))
    # Different pieces may spell one text, which leaves fewer than the search was asked for: look further there.
    short = {cut.text for cut, f in zip(cuts, found, strict=True) if len(ranked[cut.text]) < top == len(f.log_prob)}
    if method == "beam" and short:
        more = [cut for cut in cuts if cut.text in short]
        found = by_beam(lm.conditionals, more, fits, width=max(beam, top), keep=max(beam, top), tell=lambda *_: None)
        again = _ranked(more, found, vocab, top, len(texts))
        ranked = [again[n] if n in short else best for n, best in enumerate(ranked)]
    return ranked[0] if alone else ranked


def _layouts(
    lm: MaskedLM, templates: Sequence[Template], vocab: Vocabulary, allow_unknown: bool, first: int | None
) -> list[list[Layout]]:
    """Every text at every choice of its lengths; ``first`` numbers the texts, if there are several."""
    blanked = [(number, template) for number, template in enumerate(templates) if template.blanks]
    parts = [(number, template, n) for number, template in blanked for n in template.lengths()]
    ids = tokenise([(template.texts, n) for _, template, n in parts], vocab)
    layouts: list[list[Layout]] = [[] for _ in templates]
    for (number, template, n), row in zip(parts, ids, strict=True):
        name = None if first is None else first + number
        layout = named(name, finish_layout, template.texts, n, row, vocab, lm.max_length, allow_unknown)
        layouts[number].append(layout)
    return layouts


def _order(order: str | Sequence[int], layout: Layout, generator: torch.Generator | None) -> str | Tensor:
    """The order as a sampler takes it; with a ``generator`` a random one is drawn here, once for all hypotheses."""
    sigma = numbered(order, layout)
    if generator is None or not isinstance(sigma, str) or sigma != "random":
        return sigma
    places = layout.free.nonzero().squeeze(1)
    return places[torch.randperm(len(places), generator=generator)]


def _ranked(
    cuts: Sequence[Cut], found: Sequence[Found], vocab: Vocabulary, top: int, texts: int
) -> list[list[Completion]]:
    """The ``top`` distinct completions of every text, of all its lengths, best first."""
    rows: list[list[tuple[float, Cut, Tensor]]] = [[] for _ in range(texts)]
    for cut, (tokens, log_prob) in zip(cuts, found, strict=True):
        values = (log_prob + (cut.log_length or 0.0)).tolist()
        rows[cut.text] += [(value, cut, row) for value, row in zip(values, tokens, strict=True)]
    return [_distinct(sorted(several, key=lambda row: -row[0]), vocab, top) for several in rows]


def _distinct(rows: Sequence[tuple[float, Cut, Tensor]], vocab: Vocabulary, top: int) -> list[Completion]:
    """Different pieces may spell one text; it is listed once, under its best reading. No more are spelt than needed."""
    distinct: dict[str, Completion] = {}
    for value, cut, row in rows:
        if len(distinct) == top:
            break
        spelt, fills = cut.layout.render(row, vocab)
        distinct.setdefault(spelt, Completion(spelt, value, fills, tuple(row.tolist()), cut.log_length))
    return Shown(distinct.values())


def read_template(lm: MaskedLM, text: str, vocab: Vocabulary) -> Template:
    """The template of a text that must have a blank."""
    if not text.strip():
        raise AnyorderError("the text is empty: write a sentence with a blank, such as 'The ___ fox'")
    template = parse(text, str(lm.tokenizer.mask_token), lm.max_length)
    check_length(" ".join(template.texts), vocab, lm.max_length)
    if not template.blanks:
        raise AnyorderError(f"the text has no blank: write ___ or {lm.tokenizer.mask_token} where a word is missing")
    return template


def numbered(order: str | Sequence[int], layout: Layout) -> str | Tensor:
    """An order whose ``given:`` numbers count the unknown tokens from 1 -> one of positions in the row."""
    sigma = parse_order(order)
    if isinstance(sigma, str):
        return sigma
    places = torch.tensor([p for run_ in layout.slots for p in run_])
    numbers = sigma.tolist()
    if sorted(numbers) != list(range(1, len(places) + 1)):
        shown = ",".join(map(str, numbers[:8])) + (",…" if len(numbers) > 8 else "")
        raise AnyorderError(
            f"the order {shown} repeats or omits blanks: list each of the numbers 1 to {len(places)} exactly once"
        )
    return places[sigma - 1]

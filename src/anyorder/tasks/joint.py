"""A text with two blanks, and the joints over them with their tokens readable: ``lm.joint`` and ``anyorder joint``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.conditionals.restricted import Restricted
from anyorder.errors import AnyorderError, choose
from anyorder.joints.among import Among
from anyorder.joints.arnold_gokhale import ArnoldGokhale
from anyorder.joints.hcb import Hcb
from anyorder.joints.measures import divergences
from anyorder.joints.methods import METHODS, derive
from anyorder.joints.pair import PairJoint
from anyorder.joints.product import product
from anyorder.joints.support import adaptive_joint
from anyorder.joints.support_joint import SupportJoint
from anyorder.joints.tables import masked_marginals, pair_tables
from anyorder.tasks.html import heat_map
from anyorder.tasks.options import JointOptions, JointsOptions
from anyorder.text.template import check_length, layout, parse
from anyorder.text.vocabulary import Vocabulary, vocabulary
from anyorder.types import Conditionals

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM


# What the constructions say about themselves, each its own part.
_FACTS = ("iterations", "change", "converged", "pivot", "orientation", "rows_asked", "outside", "outside_error")


@dataclass(frozen=True, eq=False)
class TextJoint:
    """A joint over the two blanks of a text; a :class:`anyorder.types.Joint` that also speaks in tokens.

    Attributes:
        joint: the distribution itself, over token ids.
        method: the construction that made it.
        vocabulary: the token strings.
        disagreement: how far its conditionals are from the model's: ``a_kl``, the mean KL over all conditioning tokens,
            and ``expected_kl``, the mean under the joint's own marginals. None with an adaptive support, where most
            of the model's conditionals were never asked for.
    """

    joint: PairJoint
    method: str
    vocabulary: Vocabulary
    disagreement: dict[str, float] | None = None

    def __repr__(self) -> str:
        ((a, b, p),) = self.pairs(1)
        return f"TextJoint({self.method}, {self.vocab_size:,} x {self.vocab_size:,}, best {a!r} {b!r} at {p:.4g})"

    def _repr_html_(self, tokens: int = 8) -> str:
        """A heat map over the tokens of the most probable pairs, so that none of the best is left out."""
        best = self.top(tokens * tokens)
        rows, columns = list(dict.fromkeys(a for a, _, _ in best)), list(dict.fromkeys(b for _, b, _ in best))
        rows, columns = rows[:tokens], columns[:tokens]
        p = self.log_prob(torch.tensor(rows)[:, None], torch.tensor(columns)).exp()
        shown = f"{float(p.sum()):.0%} of the mass shown"
        title = f"<div>{escape(self.method)}: first blank down, second across, per cent; {shown}</div>"
        return title + heat_map([self.token(t) for t in rows], [self.token(t) for t in columns], p.tolist())

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.joint.vocab_size

    def log_prob(self, a: Tensor | int | str, b: Tensor | int | str) -> Tensor:
        """log p(a, b) for token ids, or for token strings."""
        return self.joint.log_prob(self._id(a), self._id(b))

    def marginal(self, axis: int) -> Tensor:
        """Log marginal [V] of a blank (0 = the first)."""
        return self.joint.marginal(axis)

    def conditional(self, axis: int, token: int | str) -> Tensor:
        """Log conditional [V] of the *other* blank, given that blank ``axis`` holds ``token``."""
        chosen = self._id(token)
        assert isinstance(chosen, int)
        return self.joint.conditional(axis, chosen)

    def top(self, k: int) -> list[tuple[int, int, float]]:
        """The k most probable pairs of ids as (a, b, probability), best first."""
        return self.joint.top(k)

    def pairs(self, k: int = 10) -> list[tuple[str, str, float]]:
        """The k most probable pairs as strings."""
        return [(self.token(a), self.token(b), p) for a, b, p in self.top(k)]

    def token(self, token: int) -> str:
        """A token as one reads it; pieces that continue a word keep their ``##``."""
        return self.vocabulary.pieces[token] if self.vocabulary.style == "wordpiece" else self.vocabulary.surface(token)

    def to_dict(self, top: int = 10) -> dict[str, Any]:
        """What ``anyorder joint --json`` prints of one method."""
        out: dict[str, Any] = {"pairs": [{"a": a, "b": b, "prob": p} for a, b, p in self.pairs(top)]}
        out["marginals"] = {name: self._best(axis, top) for axis, name in enumerate("ab")}
        if self.disagreement is not None:
            out["disagreement"] = self.disagreement
        return out | {name: getattr(self.joint, name) for name in _FACTS if hasattr(self.joint, name)}

    @property
    def heading(self) -> str:
        """The method and how far to trust its numbers, in one line."""
        said = []
        if self.disagreement is not None:
            a_kl, expected = self.disagreement["a_kl"], self.disagreement["expected_kl"]
            said.append(f"KL from the model's conditionals {a_kl:.3f} (mean), {expected:.3f} (expected)")
        joint = self.joint.inner if isinstance(self.joint, Among) else self.joint  # who made it
        if isinstance(joint, Hcb):
            said.append("the first blank given the second is the model's own, not the reverse")
        if isinstance(joint, SupportJoint):
            said.append(
                f"{joint.rows_asked} rows asked, {joint.outside:.2g} ± {joint.outside_error:.1g} of the mass on pairs "
                "neither of whose tokens was examined (95 %)"
            )
        if isinstance(joint, ArnoldGokhale | SupportJoint) and not joint.converged:
            said.append(
                f"not converged: after {joint.iterations} iterations the marginals still move by {joint.change:.1g}"
            )
        return f"{self.method}: {'; '.join(said)}" if said else self.method

    def _best(self, axis: int, k: int) -> list[dict[str, Any]]:
        best = self.marginal(axis).exp().topk(min(k, self.vocab_size))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [{"token": self.token(t), "prob": p} for t, p in pairs]

    def _id(self, token: Tensor | int | str) -> Tensor | int:
        if not isinstance(token, str):
            return token
        for spelling in (token, "Ġ" + token, "▁" + token):
            if spelling in self.vocabulary.pieces:
                return self.vocabulary.pieces.index(spelling)
        raise AnyorderError(f"{token!r} is not one token of this model: give a single token, or its id")


def text_joints(
    lm: MaskedLM,
    text: str,
    methods: Sequence[str] = ("ag",),
    options: JointOptions = JointOptions(),
    *,
    report: Callable[[int], object] = lambda rows: None,
) -> dict[str, TextJoint]:
    """The joints of several methods over the two blanks of ``text``, from one set of passes.

    Args:
        lm: the model.
        text: with two blanks of one token, ``___`` or the model's mask token.
        methods: of :data:`anyorder.joints.METHODS`.
        options: ``tail``, None for the whole vocabulary; else ask only for the rows that carry mass, until the mass of
            the pairs not examined is known to within this much (:func:`anyorder.joints.adaptive_joint`; ``mlm`` and
            ``ag`` only). ``special_tokens``: a blank may hold them, as in the paper; else the joint is over the tokens
            that can be text, and from the model's conditionals given that both blanks hold such a token.
        report: called with the number of rows of the model just finished.
    """
    for method in methods:
        choose(method, METHODS, "method")
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    tokens, a, b = read_pair(lm, text, allow_unknown=options.allow_unknown)
    tail = options.tail
    if tail is not None:
        q: Conditionals = lm.conditionals if options.special_tokens else Restricted(lm.conditionals, ~vocab.special)
        adaptive: dict[str, Callable[[], PairJoint]] = {
            "ag": lambda: adaptive_joint(q, tokens, a, b, tail=tail, report=report),
            "mlm": lambda: product(*masked_marginals(q, tokens, a, b)),
        }
        others = [method for method in methods if method not in adaptive]
        if others:
            raise AnyorderError(
                f"an adaptive support is for ag and mlm, not {others[0]}: leave out --tail for the others"
            )
        return {method: TextJoint(adaptive[method](), method, vocab) for method in methods}
    values = None if options.special_tokens else (~vocab.special).nonzero().squeeze(1)
    with torch.inference_mode():
        tables = pair_tables(lm.conditionals, tokens, a, b, values=values, report=report)
        joints = {method: derive(tables, method) for method in methods}
        out = {}
        for method, (given_b, given_a) in divergences(tables, joints).items():
            expected = joints[method].marginal(1).exp() @ given_b + joints[method].marginal(0).exp() @ given_a
            disagreement = {"a_kl": float(given_b.mean() + given_a.mean()) / 2, "expected_kl": float(expected) / 2}
            joint = joints[method] if values is None else Among(joints[method], values, len(vocab.pieces))
            out[method] = TextJoint(joint, method, vocab, disagreement)
    return out


def described(lm: MaskedLM, text: str, joints: dict[str, TextJoint], options: JointsOptions) -> dict[str, Any]:
    """What ``anyorder joint --json`` prints."""
    about = {"text": text, "model": lm.name, "vocab_size": lm.conditionals.vocab_size}
    about |= {"special_tokens": options.special_tokens, "seed": options.seed}
    return {**about, "methods": {name: found.to_dict(options.top) for name, found in joints.items()}}


def read_pair(lm: MaskedLM, text: str, *, allow_unknown: bool = False) -> tuple[Tensor, int, int]:
    """Tokens [N] of a text with exactly two blanks, and where they are."""
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    check_length(text, vocab, lm.max_length)
    template = parse(text, str(lm.tokenizer.mask_token), lm.max_length)
    lengths = [blank.low for blank in template.blanks]
    if any(blank.low != blank.high for blank in template.blanks):
        raise AnyorderError("a joint needs blanks of a fixed length: write ___, or use anyorder fill for open lengths")
    if sum(lengths) < 2:
        found = "no blank" if not lengths else "one blank"
        raise AnyorderError(f"a joint is over two blanks and the text has {found}: add one, or use anyorder fill")
    if sum(lengths) > 2:
        raise AnyorderError(
            f"a joint is over two blanks and the text has {sum(lengths)}: use anyorder fill, or for three or four "
            "anyorder.joints.many in Python"
        )
    if not any(part.strip() for part in template.texts):
        raise AnyorderError("the text has no word besides its blanks: give the model something to go by")
    placed = layout(template.texts, lengths, vocab, lm.max_length, allow_unknown)
    a, b = (position for run in placed.slots for position in run)
    return placed.tokens, a, b

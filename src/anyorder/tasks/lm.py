"""The facade: a masked language model, used as a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from anyorder.tasks.html import Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from anyorder.tasks.fill import Completion
    from anyorder.tasks.generate import Generation, Step
    from anyorder.tasks.joint import TextJoint
    from anyorder.tasks.score import Score
    from anyorder.types import Conditionals


@dataclass(frozen=True)
class MaskedLM:
    """A model, its tokenizer and its conditionals. Each method is documented where its algorithm lives."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    conditionals: Conditionals
    name: str
    max_length: int  # tokens of one row, special ones included

    def __repr__(self) -> str:
        """One line, where the model's own would be a hundred."""
        kind, words = type(self.model).__name__, self.conditionals.vocab_size
        return f"MaskedLM({self.name!r}, {kind}, {words:,} tokens, texts of up to {self.max_length})"

    @overload
    def score(self, texts: str, method: str = ..., **options: Any) -> Score: ...
    @overload
    def score(self, texts: Sequence[str], method: str = ..., **options: Any) -> list[Score]: ...
    def score(self, texts: str | Sequence[str], method: str = "pll", **options: Any) -> Score | list[Score]:
        """How probable texts are; see :func:`anyorder.tasks.score.score`.

        Args:
            texts: One text, or several.
            method: ``pll``, ``pll-word``, ``chain`` (exact along an order) or ``bound`` (any-order, estimated).
            options: ``order``, ``samples``, ``seed`` and ``reading`` of :class:`anyorder.tasks.score.Method`;
                ``per_token``, ``stride``, ``strict`` and ``progress`` of :func:`anyorder.tasks.score.score`.

        Returns:
            A score, or for several texts a list of them.
        """
        from anyorder.tasks.score import Method, score

        names = ("order", "samples", "seed", "reading")
        chosen = {name: options.pop(name) for name in names if name in options}
        several = [texts] if isinstance(texts, str) else list(texts)
        scores = score(self, several, Method(method, **chosen), **options)
        return scores[0] if isinstance(texts, str) else Shown(scores)

    @overload
    def fill(self, text: str, **options: Any) -> list[Completion]: ...
    @overload
    def fill(self, text: Sequence[str], **options: Any) -> list[list[Completion]]: ...
    def fill(  # type: ignore[misc]  # as in tasks.fill
        self,
        text: str | Sequence[str],
        *,
        top: int = 5,
        method: str = "beam",
        order: str | Sequence[int] = "confidence",
        beam: int = 16,
        samples: int = 64,
        tail: float | None = None,
        seed: int = 0,
        whole_words: bool = True,
        special_tokens: bool = False,
        allow_unknown: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[Completion] | list[list[Completion]]:
        """Fill every blank of ``text`` jointly; the best completions first. See :func:`anyorder.tasks.fill.fill`.

        Several texts share the model's batches, which is several times faster than one after the other.

        >>> lm.fill("The ___ sat on the ___{1-3}.", top=3)[0].text
        >>> [best.text for best, *_ in lm.fill(["The ___ sat.", "She ___ the ___."])]
        """
        from anyorder.tasks.fill import fill

        return fill(
            self,
            text,
            top=top,
            method=method,
            order=order,
            beam=beam,
            samples=samples,
            tail=tail,
            seed=seed,
            whole_words=whole_words,
            special_tokens=special_tokens,
            allow_unknown=allow_unknown,
            progress=progress,
        )

    def generate(
        self,
        prompt: str | None = None,
        *,
        length: int | None = None,
        begin: str | None = None,
        end: str | None = None,
        scatter: str | None = None,
        acrostic: str | None = None,
        order: str | Sequence[int] | None = None,
        steps: int | None = None,
        sampler: str | None = None,
        block: int | None = None,
        mode: str | None = None,
        influence: str | None = None,
        pairs: bool = False,
        schedule: str | None = None,
        epsilon: float | None = None,
        start: str | None = None,
        draft: str | None = None,
        reading: str = "auto",
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical: float | None = None,
        samples: int = 1,
        seed: int = 0,
        allow_unknown: bool = False,
    ) -> list[Generation]:
        """Generate texts of ``length`` tokens around what is given, in any word order.

        >>> lm.generate(begin="Tom is a cat.", end="They become friends.", length=60, order="left-to-right")[0].text

        Args:
            prompt: Words to keep; ``...`` marks where text is generated (after the prompt if there is none), ``___``
                a blank of one token.
            length: Tokens of the text, the prompt included (64, or just the blanks of a prompt that has some).
            begin: The first words of the text.
            end: The last words of the text.
            scatter: Words spread over the text in their order.
            acrostic: A word whose letters begin the lines.
            order: ``left-to-right``, ``right-to-left``, ``random`` (any-order's default), ``confidence`` (parallel's),
                ``entropy``, or ``given:3,7,1``, which counts the tokens to generate from 1.
            steps: Of parallel and refine, at most one per blank; of the chains, as many as wanted.
            sampler: ``any-order``, ``parallel`` (the default where ``steps`` is given), ``gibbs``, ``refine``,
                ``metropolis`` or ``adaptive``; see :mod:`anyorder.samplers`.
            block: Tokens resampled together by gibbs and adaptive.
            mode: Of gibbs inside a block, ``parallel`` or ``sequential``.
            influence: What adaptive measures dependence by: ``tokens`` (how a token changes the answer elsewhere, a
                pass a blank) or ``attention`` (one pass, and rougher).
            pairs: Let parallel draw neighbours that it commits together from their Arnold–Gokhale joint, not as if they
                were independent: 32 further rows a pair.
            schedule: How many tokens parallel commits by step t: ``linear``, or ``cosine``, few first.
            epsilon: parallel commits tokens while their entropies sum to less than this many nats.
            start: What refine starts from: ``masks``, ``random`` tokens, or ``given``, the draft.
            draft: A text to start from in place of masks, all of which may change (refine and the chains).
            reading: Of any-order. ``ordered`` reads each token once and is much faster, with a model trained for it;
                ``full`` reads the whole text for every token; ``auto``: ordered if it was. They are two models for what
                they say. ``ordered-untrained`` insists with any model.
            temperature: Divides the log-probabilities.
            top_k: Keep the k most probable tokens; 1 is greedy.
            top_p: Keep the fewest tokens that hold this much probability.
            min_p: Keep tokens at least this fraction as probable as the best.
            typical: Keep the tokens nearest to the entropy that hold this much probability.
            samples: How many texts.
            seed: Of every random choice: the same seed, the same texts.
            allow_unknown: Let words the tokenizer cannot represent stand as unknown tokens.
        """
        from anyorder.tasks.generate import generations, plan

        asked = {k: v for k, v in locals().items() if k not in ("self", "generations", "plan")}
        return Shown(generations(plan(self, **asked)))

    def stream(self, prompt: str | None = None, **options: Any) -> Iterator[Step]:
        """Yield a step of a generation after the other, all ``samples`` as one batch.

        ``step.text`` (``step.texts`` of several samples) is the text so far. A step unpacks as ``state, info``:
        ``state.tokens`` [B, N] are its tokens; ``info`` says which positions were drawn and how likely they were
        (:class:`anyorder.types.Info`). Options as :meth:`generate`.

        >>> for step in lm.stream("The ___ sat on the ___."):
        ...     print(step.text)
        """
        from anyorder.tasks.generate import Step, plan

        task = plan(self, prompt, **options)
        return (Step(state, info, task) for state, info in task.rows(range(task.samples)))

    def joint(self, text: str, method: str = "ag", *, tail: float | None = None, **options: Any) -> TextJoint:
        """The joint distribution over the two blanks of ``text``; see :func:`anyorder.tasks.joint.text_joints`.

        >>> lm.joint("The ___ ___ at the casino").pairs(3)

        Args:
            text: With two blanks, ``___`` or the model's mask token.
            method: ``mlm`` (the product, eq 1), ``mrf``, ``mrf-logit``, ``hcb`` or ``ag`` (Arnold–Gokhale).
            tail: None for the whole vocabulary; else ask only for the rows that carry mass (``ag``, ``mlm``).
            options: ``special_tokens``, ``allow_unknown`` and ``report`` of :func:`anyorder.tasks.joint.text_joints`.
        """
        from anyorder.tasks.joint import text_joints

        return text_joints(self, text, (method,), tail=tail, **options)[method]

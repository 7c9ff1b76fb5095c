"""The facade: a masked language model, used as a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyorder.options import takes, takes_many, takes_prompts, takes_prompts_together
from anyorder.tasks.html import Shown
from anyorder.tasks.options import FillOptions, GenerateOptions, JointOptions, ScoreOptions, TranslateOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from anyorder.metrics.curve import Curve
    from anyorder.models.pairs import LengthHead
    from anyorder.tasks.fill import Completion
    from anyorder.tasks.joint import TextJoint
    from anyorder.tasks.score import Score
    from anyorder.tasks.together import Generation, Step
    from anyorder.tasks.translate import Translation
    from anyorder.types import Conditionals


@dataclass(frozen=True)
class MaskedLM:
    """A model, its tokenizer and its conditionals. Each method is documented where its algorithm lives."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    conditionals: Conditionals
    name: str
    max_length: int  # tokens of one row, special ones included
    curve: Curve | None = None  # its loss against the share of visible tokens, if it was measured
    length_head: LengthHead | None = None  # p(length | source) of a model trained on pairs

    def __repr__(self) -> str:
        """One line, where the model's own would be a hundred."""
        kind, words = type(self.model).__name__, self.conditionals.vocab_size
        return f"MaskedLM({self.name!r}, {kind}, {words:,} tokens, texts of up to {self.max_length})"

    @takes_many(ScoreOptions)
    def score(self, texts: str | list[str], options: ScoreOptions) -> list[Score]:
        """How probable a text is, or each of several; see :func:`anyorder.tasks.score.score`.

        >>> lm.score("The cat sat on the mat.").log_prob
        """
        from anyorder.tasks.score import score

        return Shown(score(self, [texts] if isinstance(texts, str) else texts, options))

    @takes_many(FillOptions)
    def fill(self, texts: str | list[str], options: FillOptions) -> list[list[Completion]]:
        """Fill every blank of a text jointly; the best completions first. See :func:`anyorder.tasks.fill.fill`.

        Several texts share the model's batches, which is several times faster than one after the other.

        >>> lm.fill("The ___ sat on the ___{1-3}.", top=3)[0].text
        >>> [best.text for best, *_ in lm.fill(["The ___ sat.", "She ___ the ___."])]
        """
        from anyorder.tasks.fill import fill

        # A text alone must have a blank; among several, an empty one has no completions.
        return [fill(self, texts, options)] if isinstance(texts, str) else fill(self, texts, options)

    @takes_prompts(GenerateOptions)
    def generate(self, prompts: list[str | None], options: GenerateOptions) -> list[list[Generation]]:
        """Generate texts of ``length`` tokens around what is given, in any word order.

        Several prompts share the model's batches; each gets the texts it gets alone.

        >>> lm.generate(begin="Tom is a cat.", end="They become friends.", length=60, order="left-to-right")[0].text
        >>> [texts[0].text for texts in lm.generate(["The ___ sat.", "She ___ the ___."])]
        """
        from anyorder.tasks.generate import generate

        return [Shown(several) for several in generate(self, prompts, options)]

    @takes_prompts_together(GenerateOptions)
    def stream(self, prompts: list[str | None], options: GenerateOptions) -> Iterator[Step]:
        """Yield a step of a generation after the other, all texts as one batch.

        ``step.text`` (``step.texts`` of several) is the text so far. A step unpacks as ``state, info``:
        ``state.tokens`` [B, N] are its tokens; ``info`` says which positions were drawn and how likely they were
        (:class:`anyorder.types.Info`); ``step.rows`` which text and sample each row is. Texts whose sampler makes
        different numbers of steps follow each other. Options as :meth:`generate`.

        >>> for step in lm.stream("The ___ sat on the ___."):
        ...     print(step.text)
        """
        from anyorder.tasks.generate import plans_of
        from anyorder.tasks.together import together

        plans = plans_of(self, prompts, options)
        return (step for several in together(plans, len(prompts) * options.samples) for step in several.steps())

    @takes_many(TranslateOptions)
    def translate(self, texts: str | list[str], options: TranslateOptions) -> list[Translation]:
        """Write the target of a source, or of each of several; see :func:`anyorder.tasks.translate.translate`.

        For models trained on pairs (``data.columns`` in a recipe).

        >>> lm.translate("Im Fußball geht alles sehr schnell.", steps=4).text
        """
        from anyorder.tasks.translate import translate

        return Shown(translate(self, texts, options))

    @takes(JointOptions)
    def joint(self, text: str, options: JointOptions) -> TextJoint:
        """The joint distribution over the two blanks of ``text``; see :func:`anyorder.tasks.joint.text_joints`.

        >>> lm.joint("The ___ ___ at the casino").pairs(3)
        """
        from anyorder.tasks.joint import text_joints

        return text_joints(self, text, (options.method,), options)[options.method]

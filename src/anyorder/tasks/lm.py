"""The facade: a masked language model, used as a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyorder.options import takes, takes_many, takes_only
from anyorder.tasks.options import FillOptions, GenerateOptions, JointOptions, ScoreOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from anyorder.tasks.fill import Completion
    from anyorder.tasks.generate import Generation
    from anyorder.tasks.joint import TextJoint
    from anyorder.tasks.score import Score
    from anyorder.types import Conditionals, Info


@dataclass(frozen=True)
class MaskedLM:
    """A model, its tokenizer and its conditionals. Each method is documented where its algorithm lives."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    conditionals: Conditionals
    name: str
    max_length: int  # tokens of one row, special ones included

    @takes_many(ScoreOptions)
    def score(self, texts: list[str], options: ScoreOptions) -> list[Score]:
        """How probable a text is, or each of several; see :func:`anyorder.tasks.score.score`.

        >>> lm.score("The cat sat on the mat.").log_prob
        """
        from anyorder.tasks.score import score

        return score(self, texts, options)

    @takes(FillOptions)
    def fill(self, text: str, options: FillOptions) -> list[Completion]:
        """Fill every blank of ``text`` jointly; the best completions first. See :func:`anyorder.tasks.fill.fill`.

        >>> lm.fill("The ___ sat on the ___{1-3}.", top=3)[0].text
        """
        from anyorder.tasks.fill import fill

        return fill(self, text, options)

    @takes_only(GenerateOptions)
    def generate(self, options: GenerateOptions) -> list[Generation]:
        """Generate texts of ``length`` tokens around what is given, in any word order.

        >>> lm.generate(begin="Tom is a cat.", end="They become friends.", length=60, order="left-to-right")[0].text
        """
        from anyorder.tasks.generate import generations, plan

        return list(generations(plan(self, **vars(options))))

    @takes_only(GenerateOptions)
    def stream(self, options: GenerateOptions) -> Iterator[tuple[Any, Info]]:
        """Yield (state, info) after every step of a generation, all ``samples`` as one batch.

        ``state.tokens`` [B, N] is the text so far; ``info`` says which positions were drawn and how likely they were
        (:class:`anyorder.types.Info`).

        >>> for state, info in lm.stream("The ___ sat on the ___."):
        ...     print(lm.tokenizer.decode(state.tokens[0]))
        """
        from anyorder.tasks.generate import plan

        task = plan(self, **vars(options))
        return task.rows(range(task.samples))

    @takes(JointOptions)
    def joint(self, text: str, options: JointOptions) -> TextJoint:
        """The joint distribution over the two blanks of ``text``; see :func:`anyorder.tasks.joint.text_joints`.

        >>> lm.joint("The ___ ___ at the casino").pairs(3)
        """
        from anyorder.tasks.joint import text_joints

        return text_joints(self, text, (options.method,), options)[options.method]

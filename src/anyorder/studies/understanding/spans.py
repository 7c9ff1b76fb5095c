"""SQuAD 2.0 (Devlin et al. 2019, section 4.3): windows over a passage, the best span, and no answer.

The score of a span is S·T_i + E·T_j, i ≤ j; that of no answer is the span at the first token, [CLS]. A question is left
unanswered where the latter exceeds the former by more than a threshold, chosen on articles that are neither learnt from
nor measured on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.metrics.squad import best_threshold, judge
from anyorder.models.task_heads import WithHead, read_answerer
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.outcome import Outcome
from anyorder.studies.understanding.reading import some
from anyorder.studies.understanding.squad_files import Question, Questions
from anyorder.studies.understanding.tasks import SQUAD
from anyorder.studies.understanding.training import Row, answers

LENGTH, QUESTION, ANSWER = 384, 64, 30  # tokens of a window, of a question, of an answer: Devlin et al.'s


class Window(NamedTuple):
    """A question and a part of its passage."""

    question: int
    row: Row
    offsets: list[tuple[int, int]]  # characters of each token in the passage; (0, 0) for tokens of no passage
    inside: list[bool]  # which tokens are the passage's
    null: int  # where the span of no answer is


class Answer(NamedTuple):
    """The best span of a passage, and by how much no answer is better than it."""

    text: str
    margin: float


class Spans:
    """SQuAD 2.0's data, and what a model makes of it."""

    def __init__(self, data: Questions, options: LearningOptions) -> None:
        self.options = options
        self.note = data.note
        self.train = some(data.train, options.train_limit)
        self.held_out = some(data.held_out, options.test_limit)
        self.test = some(data.test, options.test_limit)

    def load(self, model: str | None) -> WithHead:
        """A checkpoint with a head for spans."""
        return read_answerer(model)

    def training_rows(self, ready: WithHead) -> list[Row]:
        """Every window of the training set, with the span of the first answer, or of no answer where it is not."""
        windows, _ = self.windows(self.train, ready)
        rows = []
        for window in windows:
            start, end = _target(window, self.train[window.question])
            rows.append({**window.row, "start_positions": start, "end_positions": end})
        return rows

    def outcomes(self, ready: WithHead) -> tuple[list[Outcome], list[dict[str, Any]]]:
        """What the model answers on the test set with the best threshold of the held-out articles."""
        held, _ = self.answer(self.held_out, ready)
        scores = np.array([judge(a.text, _texts(q)) for a, q in zip(held, self.held_out, strict=True)])
        nothing = np.array([judge("", _texts(q)) for q in self.held_out])
        margins = np.array([answer.margin for answer in held])
        threshold = best_threshold(margins, scores[:, 1], nothing[:, 1])
        found, cut = self.answer(self.test, ready)
        said = [answer.text if answer.margin <= threshold else "" for answer in found]
        judged = [judge(text, _texts(q)) for text, q in zip(said, self.test, strict=True)]
        unanswerable = 100 * float(np.mean([not q.answers for q in self.test]))
        details: dict[str, Any] = {"threshold": threshold, "unanswered": sum(not text for text in said)}
        details |= {"split": self.note} if self.note else {}
        outcome = Outcome(
            SQUAD, ("exact", "f1"), {"exact": [a for a, _ in judged], "f1": [b for _, b in judged]},
            {"exact": unanswerable, "f1": unanswerable}, len(self.train), cut, details,
        )  # fmt: skip
        records = [
            {"set": SQUAD, "id": q.id, "answer": text, "span": a.text, "margin": a.margin, "exact": em, "f1": f1}
            for q, text, a, (em, f1) in zip(self.test, said, found, judged, strict=True)
        ]
        return [outcome], records

    def answer(self, questions: Sequence[Question], ready: WithHead) -> tuple[list[Answer], int]:
        """The best span of each question over all its windows, and how many questions were cut."""
        windows, cut = self.windows(questions, ready)
        names = ["start_logits", "end_logits"]
        logits = answers(ready.model, ready.tokenizer, [window.row for window in windows], names, per_token=True)
        best = [(-np.inf, "")] * len(questions)
        null = [np.inf] * len(questions)
        for window, (start, end) in zip(windows, logits, strict=True):
            i = window.question
            # A passage has no answer if no window has one: the window that is least sure of that decides.
            null[i] = min(null[i], float(start[window.null] + end[window.null]))
            score, first, last = best_span(start, end, torch.tensor(window.inside))
            if score > best[i][0]:
                text = questions[i].context[window.offsets[first][0] : window.offsets[last][1]]
                best[i] = (score, text)
        return [Answer(text, null[i] - score) for i, (score, text) in enumerate(best)], cut

    def windows(self, questions: Sequence[Question], ready: WithHead) -> tuple[list[Window], int]:
        """All windows of all questions, and how many questions (not passages) were cut."""
        tokenizer = ready.tokenizer
        length = min(self.options.max_length or LENGTH, ready.max_length)
        if not tokenizer.is_fast:
            raise AnyorderError("spans need the characters of each token, which this tokenizer does not tell: choose "
                                "a model with a fast one")  # fmt: skip
        longest = min(QUESTION, length // 2)
        windows, cut = [], 0
        for i, question in enumerate(questions):
            ids = tokenizer(question.text, add_special_tokens=False, return_offsets_mapping=True)
            text = question.text.lstrip()  # a leading blank is no word
            if len(ids["input_ids"]) > longest:
                cut += 1
                text = question.text[: ids["offset_mapping"][longest - 1][1]].lstrip()
            room = length - tokenizer.num_special_tokens_to_add(pair=True) - min(longest, len(ids["input_ids"]))
            if room < 2:
                raise AnyorderError(f"a window of {length} tokens has no room for a passage: raise --max-length")
            step = min(self.options.stride or length // 3, room)
            encoded = tokenizer(
                text, question.context, truncation="only_second", max_length=length, stride=room - step,
                return_overflowing_tokens=True, return_offsets_mapping=True,
            )  # fmt: skip
            windows += [_window(i, encoded, w, tokenizer) for w in range(len(encoded["input_ids"]))]
        return windows, cut


def _window(question: int, encoded: Any, w: int, tokenizer: Any) -> Window:
    ids = encoded["input_ids"][w]
    row = {key: encoded[key][w] for key in tokenizer.model_input_names}
    inside = [part == 1 for part in encoded.sequence_ids(w)]
    null = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
    return Window(question, row, encoded["offset_mapping"][w], inside, null)


def _target(window: Window, question: Question) -> tuple[int, int]:
    """First and last token of the first answer, if all of it is in the window; else the place of no answer."""
    if question.answers:
        text, begin = question.answers[0]
        end = begin + len(text)
        touched = [i for i, (a, b) in enumerate(window.offsets) if window.inside[i] and a < end and b > begin]
        if touched and window.offsets[touched[0]][0] <= begin and window.offsets[touched[-1]][1] >= end:
            return touched[0], touched[-1]
    return window.null, window.null


def best_span(start: Tensor, end: Tensor, inside: Tensor, longest: int = ANSWER) -> tuple[float, int, int]:
    """max over i ≤ j < i + ``longest``, both inside, of start[i] + end[j]: (score, i, j)."""
    n = len(start)
    allowed = torch.ones(n, n, dtype=torch.bool).triu().tril(longest - 1) & inside[:, None] & inside[None, :]
    scores = (start[:, None] + end[None, :]).masked_fill(~allowed, -torch.inf)
    place = int(scores.argmax())
    return float(scores.flatten()[place]), place // n, place % n


def _texts(question: Question) -> list[str]:
    return [text for text, _ in question.answers]

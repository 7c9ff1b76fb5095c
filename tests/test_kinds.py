"""Options of another type are refused in a sentence, before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyorder.errors import AnyorderError
from anyorder.tasks.options import FillOptions, GenerateOptions, TranslateOptions


@pytest.mark.parametrize(
    ("options", "given", "says"),
    [
        (FillOptions, {"top": float("inf")}, "top must be a whole number, not inf"),  # which searched for ever
        (FillOptions, {"top": None}, "top must be a whole number, not None"),
        (FillOptions, {"top": True}, "top must be a whole number, not True"),
        (FillOptions, {"seed": 1.5}, "seed must be a whole number, not 1.5"),
        (FillOptions, {"order": 3}, "order must be a text, not 3"),
        (FillOptions, {"method": 2}, "method must be a text, not 2"),
        (FillOptions, {"special_tokens": -1}, "special tokens must be true or false, not -1"),
        (FillOptions, {"tail": "0.5"}, "tail must be a number, not '0.5'"),
        (GenerateOptions, {"given": 2}, "given must be a text, not 2"),
        (GenerateOptions, {"temperature": float("inf")}, "temperature must be a finite number, not inf"),
        (GenerateOptions, {"temperature": float("nan")}, "temperature must be a finite number, not nan"),
        (TranslateOptions, {"must": 1}, "must must be a list, not 1"),
    ],
)
def test_another_type_is_refused(options: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(AnyorderError) as refusal:
        options(**given)
    assert str(refusal.value) == says


def test_what_stands_for_the_type_is_taken() -> None:
    assert FillOptions(top=np.int64(3), order=[2, 1], tail=None).top == 3
    assert GenerateOptions(temperature=1, top_p=np.float32(0.5), order=(1, 2)).temperature == 1
    assert TranslateOptions(steps="1,2", must=("a",)).steps == "1,2"


def test_texts_of_another_type_are_refused(tiny_lm: Any) -> None:
    for given in (3, None, b"the ___"):
        for ask in (tiny_lm.fill, tiny_lm.score):
            with pytest.raises(AnyorderError, match="give a text or a list of texts, not"):
                ask(given)
        with pytest.raises(AnyorderError, match="a text is a string, not"):
            tiny_lm.joint(given)
    for ask in (tiny_lm.fill, tiny_lm.score, tiny_lm.generate):
        with pytest.raises(AnyorderError, match="a text is a string, not float: convert it"):
            ask(["the ___", float("nan")])  # as a missing cell of a table is


def test_a_tuple_is_a_list_of_prompts(tiny_lm: Any) -> None:
    prompts = ("the ___ sat", "a ___")
    assert tiny_lm.generate(prompts) == tiny_lm.generate(list(prompts))

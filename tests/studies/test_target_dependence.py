"""How target tokens depend on each other, with the source and without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing

import anyorder
from anyorder.studies import target_dependence as study
from anyorder.studies.translation import Pairs
from tiny import tiny_translator


def test_without_the_source_only_the_source_is_hidden(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As RoBERTa joins two texts, two special tokens stand between them; both stay."""
    lm = anyorder.load(tiny_translator(tmp_path / "bert"))
    cls, sep = (lm.tokenizer.convert_tokens_to_ids(token) for token in ("[CLS]", "[SEP]"))
    lm.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    seen: list[torch.Tensor] = []
    inner = study.measure_pairs

    def measure(q: Any, tokens: torch.Tensor, *rest: Any) -> Any:
        seen.append(tokens)
        return inner(q, tokens, *rest)

    monkeypatch.setattr(study, "measure_pairs", measure)
    assert study.target_dependence(lm, Pairs(("der hund",), ("the old dog is",)), 1).texts == 1
    given, nothing = seen
    source = len(lm.tokenizer("der hund", add_special_tokens=False)["input_ids"])
    changed = (given != nothing).nonzero().squeeze(1).tolist()
    assert changed == list(range(1, 1 + source))
    assert given[1 + source : 3 + source].tolist() == [sep, sep]

"""Masked-diffusion checkpoints that bring their own code, and models that are already in memory."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import anyorder
from anyorder.cli import app
from anyorder.errors import AnyorderError
from remote_code import remote_checkpoint
from tiny import VOCAB, tiny_model, tiny_tokenizer

MASK = VOCAB.index("[MASK]")
KINDS: dict[str, dict[str, Any]] = {
    "llada": {},
    "dream": {"name": "DreamModel", "auto": "AutoModel", "mask_token": True},
    "mdlm": {"name": "MDLM", "auto": "AutoModelForMaskedLM", "time_conditioning": True},
}


def plain(lm: Any, row: list[int], kind: str) -> Tensor:
    """log q [n, V] by the checkpoint's own code, called as its authors call it."""
    tokens = torch.tensor([row])
    with torch.inference_mode():
        if kind == "mdlm":
            ratio = row.count(MASK) / len(row)
            logits = lm.model.inner(input_ids=tokens, timesteps=torch.tensor([-math.log(1 - (1 - 1e-3) * ratio)]))
        else:
            logits = lm.model.inner(input_ids=tokens).logits
        if kind == "dream":
            logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)
        return logits[0].log_softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_with_their_own_code(kind: str, tmp_path: Path) -> None:
    path = remote_checkpoint(tmp_path / kind, **KINDS[kind])
    with pytest.raises(AnyorderError, match=r"modeling_tiny.py.*trust_remote_code=True \(--trust-remote-code\)"):
        anyorder.load(path)
    lm = anyorder.load(path, trust_remote_code=True)
    assert (lm.conditionals.mask_id, lm.conditionals.vocab_size, lm.max_length) == (MASK, len(VOCAB), 32)
    assert lm.tokenizer.mask_token == "[MASK]"
    rows = [[2, 11, MASK, 14, MASK, 3], [2, MASK, 30, 3], [2, MASK, MASK, MASK, 12, 3]]
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, 0)
    log_q = lm.conditionals(tokens, torch.tensor([[2, 4], [1, -1], [3, 1]]))
    asked = ((0, 0, 2), (0, 1, 4), (1, 0, 1), (2, 0, 3), (2, 1, 1))
    for row, column, position in asked:
        torch.testing.assert_close(log_q[row, column], plain(lm, rows[row], kind)[position], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_works_on_them(kind: str, tmp_path: Path) -> None:
    lm = anyorder.load(remote_checkpoint(tmp_path / kind, **KINDS[kind]), trust_remote_code=True)
    best = lm.fill("the old ___ sat on the ___ .", top=2)
    assert len(best) == 2
    assert "[MASK]" not in best[0].text
    assert len(lm.generate(length=6, seed=1)[0].text.split()) >= 1
    texts = ["the cat sat .", "the old man opened the door ."]
    for method in ("pll", "chain", "bound"):
        assert all(math.isfinite(score.log_prob) and score.log_prob < 0 for score in lm.score(texts, method))
    # The chain rule by hand, left to right, from the checkpoint's own code.
    ids = lm.tokenizer(texts[0])["input_ids"]
    free = range(1, len(ids) - 1)
    total = sum(
        float(plain(lm, [MASK if i >= t and i in free else x for i, x in enumerate(ids)], kind)[t, ids[t]])
        for t in free
    )
    assert lm.score(texts[0], "chain", order="left-to-right").log_prob == pytest.approx(total, abs=1e-4)
    joint = lm.joint("the ___ ___ .", method="ag")
    assert float(joint.marginal(0).exp().sum()) == pytest.approx(1, abs=1e-4)


def test_the_command_takes_it(tmp_path: Path) -> None:
    path = str(remote_checkpoint(tmp_path / "llada"))
    refused = CliRunner().invoke(app, ["fill", "the ___ .", "--model", path])
    assert refused.exit_code != 0
    done = CliRunner().invoke(app, ["fill", "the ___ .", "--model", path, "--trust-remote-code", "--json"])
    assert done.exit_code == 0
    assert "log_prob" in done.stdout


def test_code_that_reads_from_left_to_right_is_refused(tmp_path: Path) -> None:
    path = remote_checkpoint(tmp_path / "causal", causal=True)
    with pytest.raises(AnyorderError, match="reads from left to right"):
        anyorder.load(path, trust_remote_code=True)


def test_a_model_in_memory_is_the_loaded_one(tiny_lm: Any) -> None:
    lm = anyorder.wrap(tiny_lm.model, tiny_tokenizer())
    assert lm.model is tiny_lm.model  # with all shortcuts of its family
    assert lm.max_length == 64
    text = "the old ___ sat on the ___ ."
    assert [c.to_dict() for c in lm.fill(text)] == [c.to_dict() for c in tiny_lm.fill(text)]


@pytest.mark.parametrize("shift", [0, 1])
def test_a_function_of_tokens(tiny_lm: Any, shift: int) -> None:
    """A function whose logits hide in a dictionary and, shifted, stand one to the left of their tokens."""

    def model(tokens: Tensor) -> dict[str, Tensor]:
        logits = tiny_lm.model(input_ids=tokens).logits
        return {"scores": torch.cat([logits[:, shift:], logits[:, :shift]], 1)}

    tokenizer = tiny_tokenizer()
    tokenizer.mask_token = None
    options = {"logits": lambda out: out["scores"], "shift": shift, "max_length": 20}
    lm = anyorder.wrap(model, tokenizer, mask_id=MASK, **options)
    assert lm.max_length == 20
    assert tokenizer.mask_token is None  # the caller's own is left as it is
    tokens = torch.tensor([[2, 11, MASK, 14, MASK, 3], [2, MASK, 30, 3, 0, 0]])
    asked = torch.tensor([[2, 4], [1, -1]])
    torch.testing.assert_close(lm.conditionals(tokens, asked), tiny_lm.conditionals(tokens, asked), atol=1e-5, rtol=0)
    scores = [x.score(["the cat sat .", "the dog ran on the mat ."], "pll") for x in (lm, tiny_lm)]
    for mine, theirs in zip(*scores, strict=True):
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)
    with pytest.raises(AnyorderError, match=r"no mask token.*mask_id"):
        anyorder.wrap(model, tokenizer, **options)
    with pytest.raises(AnyorderError, match=r"without logits.*`logits`"):
        anyorder.wrap(model, tokenizer, mask_id=MASK)


def test_what_is_no_model() -> None:
    with pytest.raises(AnyorderError, match=r"str is no model.*anyorder\.load"):
        anyorder.wrap("bert-base-cased", tiny_tokenizer())  # type: ignore[arg-type]  # the mistake
    with pytest.raises(AnyorderError, match="shift is 0, or 1"):
        anyorder.wrap(tiny_model("bert"), tiny_tokenizer(), shift=-1)


@pytest.mark.parametrize("size", [len(VOCAB) - 1, 3 * len(VOCAB)])
def test_a_tokenizer_of_another_model(size: int) -> None:
    with pytest.raises(AnyorderError, match=f"tokenizer has {len(VOCAB)} tokens and the model {size}"):
        anyorder.wrap(tiny_model("bert", vocab_size=size), tiny_tokenizer())


def test_shifted_answers_follow_their_tokens() -> None:
    """Against a model whose answer is known: logits at t say which token stands at t + 1."""
    v = len(VOCAB)

    def model(tokens: Tensor) -> Tensor:
        following = tokens.roll(-1, 1)
        return 5.0 * torch.nn.functional.one_hot(following, v).float()

    lm = anyorder.wrap(model, tiny_tokenizer(), shift=1, max_length=12)
    for a, b in itertools.product((11, 14), repeat=2):
        log_q = lm.conditionals(torch.tensor([[2, a, b, 3]]), torch.tensor([[1, 2]]))
        assert log_q.argmax(-1).tolist() == [[a, b]]

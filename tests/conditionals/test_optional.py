"""What conditionals may offer beyond the one question: used where it is there, and the same answer where it is not."""

from __future__ import annotations

import torch

from anyorder.conditionals import Table
from anyorder.joints.passes import conditional_rows
from anyorder.scoring.ask import log_q_of
from anyorder.types import LogitRows, TokenScores


class Plain:
    """Conditionals that answer the contract's one question, and count how often."""

    def __init__(self, inner):
        self.inner, self.calls = inner, 0
        self.vocab_size, self.mask_id, self.pad_id = inner.vocab_size, inner.mask_id, inner.pad_id

    def __call__(self, tokens, positions):
        self.calls += 1
        return self.inner(tokens, positions)


class Offering(Plain):
    """The same with all that is optional."""

    token_budget = 40

    def of_tokens(self, tokens, positions, wanted):
        return self.inner.of_tokens(tokens, positions, wanted)

    def logit_rows(self, rows, position):
        return self.inner.logit_rows(rows, position)


def test_who_offers_what(tiny_lm):
    for protocol in (TokenScores, LogitRows):
        assert isinstance(tiny_lm.conditionals, protocol)
        assert isinstance(Offering(tiny_lm.conditionals), protocol)
        assert not isinstance(Plain(tiny_lm.conditionals), protocol)
        assert not isinstance(Table(torch.zeros(2, 2)), protocol)


def test_scores_of_tokens_are_the_same_without(tiny_lm):
    tokens = torch.tensor(tiny_lm.tokenizer(["the cat sat on the mat ."] * 2)["input_ids"])
    positions, wanted = torch.tensor([[1, 3], [2, 5]]), tokens[:, [1, 3]]
    plain, offering = Plain(tiny_lm.conditionals), Offering(tiny_lm.conditionals)
    torch.testing.assert_close(
        log_q_of(plain, tokens, positions, wanted), log_q_of(offering, tokens, positions, wanted)
    )
    assert (plain.calls, offering.calls) == (1, 0)


def test_rows_of_a_table_are_the_same_without(tiny_lm):
    tokens = torch.tensor(tiny_lm.tokenizer("the cat sat on the mat .")["input_ids"])
    values = torch.arange(5, 25)
    plain, offering = Plain(tiny_lm.conditionals), Offering(tiny_lm.conditionals)
    few, many = (list(conditional_rows(c, tokens, 2, 4, values)) for c in (plain, offering))
    assert len(few) == 1
    assert len(many) == 5  # forty tokens are four rows of nine
    torch.testing.assert_close(torch.cat([a.log_q for a in few]), torch.cat([a.log_q for a in many]))
    assert all(a.log_z is None for a in few)
    row = tokens.clone()
    row[4] = plain.mask_id
    logits = tiny_lm.model(input_ids=row.repeat(20, 1).index_copy(1, torch.tensor([2]), values[:, None])).logits[:, 4]
    torch.testing.assert_close(torch.cat([a.log_q + a.log_z[:, None] for a in many]), logits, atol=1e-4, rtol=1e-4)
    assert offering.calls == 0

"""A language pair given by tables: every target's probability, and that of its length, is known."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import torch
from transformers import BertTokenizer

from anyorder.conditionals import Table
from anyorder.tasks.lm import MaskedLM

SOURCES, TARGETS = ("haus", "hund"), ("the", "a", "dog", "house", "##s")
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *SOURCES, *TARGETS, "[MASK]"]
IDS = {token: i for i, token in enumerate(VOCAB)}
FIRST = IDS["the"]  # of the targets
LENGTHS = {"haus": {1: 0.2, 2: 0.5, 3: 0.3}, "hund": {1: 0.1, 2: 0.3, 3: 0.6}}


def tables() -> dict[tuple[int, int], Table]:
    """p(target | source, length) at random, sharp enough that its mode is far from the product of its marginals."""
    generator = torch.Generator().manual_seed(3)
    shapes = itertools.product((IDS[s] for s in SOURCES), (1, 2, 3))
    return {
        key: Table(2.5 * torch.randn([len(TARGETS)] * key[1], generator=generator, dtype=torch.float64))
        for key in shapes
    }


class Language:
    """Conditionals of ``[CLS] source [SEP] target [SEP]``; it fails if the source is anything but given."""

    vocab_size, mask_id = len(VOCAB), IDS["[MASK]"]
    pad_id = None

    def __init__(self) -> None:
        self.tables = tables()

    def __call__(self, tokens, positions):
        assert bool((tokens[:, 0] == IDS["[CLS]"]).all())
        assert bool((tokens[:, 2] == IDS["[SEP]"]).all())
        assert bool((tokens[:, -1] == IDS["[SEP]"]).all())
        assert not bool((positions >= tokens.shape[1] - 1).any())
        assert bool(((positions >= 3) | (positions == -1)).all())
        rows, inverse = torch.unique(tokens, dim=0, return_inverse=True)  # few are different
        answer = torch.full((len(rows), tokens.shape[1], self.vocab_size), -torch.inf, dtype=torch.float64)
        for row, ids in enumerate(rows):
            table = self.tables[int(ids[1]), tokens.shape[1] - 4]
            target = torch.where(ids[3:-1] == self.mask_id, table.mask_id, ids[3:-1] - FIRST)
            places = torch.arange(table.length)
            answer[row, 3:-1, FIRST : FIRST + len(TARGETS)] = table(target[None], places[None])[0]
        uniform = -torch.tensor(float(self.vocab_size)).log().double()
        return torch.where((positions < 0)[..., None], uniform, answer[inverse[:, None], positions.clamp(min=0)])


def toy_lm() -> MaskedLM:
    """The language pair as a model, with the exact law of lengths in place of a head."""
    tokenizer = BertTokenizer(vocab=IDS, do_lower_case=True, model_max_length=12)
    law = torch.full((len(VOCAB), 4), -torch.inf)
    for source, lengths in LENGTHS.items():
        for length, p in lengths.items():
            law[IDS[source], length] = torch.tensor(p).log()
    model = SimpleNamespace(
        config=SimpleNamespace(anyorder_pairs=IDS["[SEP]"]),
        device=torch.device("cpu"),
        base_model=lambda input_ids, **_: (input_ids[:, 1].float()[:, None, None],),
    )
    head = lambda states, _: law[states[:, 0].long()]  # noqa: E731 - a head in one line
    return MaskedLM(model, tokenizer, Language(), "toy", 12, length_head=head)

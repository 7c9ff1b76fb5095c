"""Training on pairs: only the target is masked, the source is given, lengths are learned, and 50 pairs are recalled."""

import json
import lzma
import random

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

import anyorder
from anyorder.errors import AnyorderError
from anyorder.files.columns import rows
from anyorder.masking import Masker, UniformCount
from anyorder.models.layers import first_position
from anyorder.models.pairs import FILE, PAIRS, LengthHead, token_types
from anyorder.training.batches import Batches
from anyorder.training.blocks import Blocks
from anyorder.training.objective import FIELDS, TokenLosses
from anyorder.training.pairs import in_rows, pair_blocks, pairs
from anyorder.training.recipe import from_dict, load_recipe
from anyorder.training.trainer import train
from small_runs import same, weights
from tiny import tiny_model, tiny_tokenizer

CLS, SEP, MASK = 2, 3, 4
NOUNS = {"haus": "house", "hund": "dog", "tür": "door", "see": "sea", "mann": "man"}
ADJECTIVES = {"alte": "old", "neue": "new", "rote": "red", "gute": "good", "kalte": "cold"}


def some_pairs():
    """50 pairs of different lengths."""
    short = [(f"{a} {n}", f"{b} {m}") for a, b in ADJECTIVES.items() for n, m in NOUNS.items()]
    return short + [(f"der {a} und {n}", f"the {b} and the {m}") for (a, b), (n, m) in
                    zip(sorted(ADJECTIVES.items()) * 5, sorted(NOUNS.items()) * 5, strict=True)][:25]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs")
    lines = [f"{a}\t{b}" for a, b in some_pairs()]
    random.Random(0).shuffle(lines)
    (path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recipe(tmp_path, **changes):
    values = {
        "output": str(tmp_path / "run"),
        "data": {"files": ["pairs.tsv"], "columns": [1, 2], "length": 32, "holdout": 0, "pack": True},
        "tokenizer": {"vocab_size": 120},
        "model": {"kind": "bert", "hidden_size": 32, "layers": 2, "heads": 2, "intermediate": 64, "dropout": 0.0},
        "objective": {"prior": "uniform-count", "ordered": 0.25, "label_smoothing": 0.05, "length": 0.5},
        "optim": {"steps": 6, "batch": 4, "micro_batch": 2, "warmup": 2},
        "run": {"checkpoint_every": 3, "evaluate_every": 100, "threads": 1},
    }
    for key, value in changes.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    return from_dict(values)


def test_pairs_are_read_from_any_table(tmp_path):
    table = "de\ten\nHaus\thouse\n\nHund\tdog\n"
    (tmp_path / "a.tsv").write_text(table)
    (tmp_path / "b.tsv.xz").write_bytes(lzma.compress(table.encode()))
    (tmp_path / "c.jsonl").write_text('{"de": "Haus", "en": "house"}\n{"de": "Hund", "en": "dog"}\n')
    for name in ("a.tsv", "b.tsv.xz", "c.jsonl"):
        assert list(rows(str(tmp_path / name), ["de", "en"])) == [("Haus", "house"), ("Hund", "dog")]
    assert next(iter(rows(str(tmp_path / "a.tsv"), ["2", "1"]))) == ("en", "de")
    assert sorted(pairs(tmp_path / "a.tsv", ["de", "en"])) == [["Haus", "house"], ["Hund", "dog"]]


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("Haus\n", ["1", "2"], "has 1 column, no column 2: put a tab"),
        ("Haus\thouse\nHund\n", ["1", "2"], "line 2 of .* has 1 column"),
        ("de\tfr\nHaus\tmaison\n", ["de", "en"], "names no column 'en'"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text, columns, said):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(AnyorderError, match=said):
        list(rows(str(tmp_path / "a.tsv"), columns))


def test_a_pair_is_a_block_and_too_long_ones_are_left_out():
    tokenizer = tiny_tokenizer()
    docs = [["the old man", "a dog [SEP] sat"], ["the " * 30, "a"], ["", "a"]]
    (block,) = pair_blocks(docs, tokenizer, 16)
    ids = tokenizer.convert_tokens_to_ids
    assert block == [CLS, *ids(["the", "old", "man"]), SEP, *ids(["a", "dog", "sat"]), SEP]


def test_only_the_target_is_ever_masked():
    masker = Masker(UniformCount(), MASK, 80, frozenset(range(5)), after=SEP, corruption="80-10-10")
    text = np.array([CLS, 10, 11, 12, SEP, 20, 21, 22, 23, SEP])
    counts = []
    for i in range(200):
        corrupted, masked = masker(i, text)
        assert (corrupted[:5] == text[:5]).all()
        assert not masked[:5].any()
        assert not masked[-1]
        counts.append(int(masked.sum()))
    assert sorted(set(counts)) == [1, 2, 3, 4]  # the whole target too
    assert not masker(0, text[:5])[1].any()  # a source alone has nothing to mask
    assert masker.maskable(text).nonzero()[0].tolist() == [5, 6, 7, 8]


def test_token_types_are_the_tokenizers():
    tokenizer = tiny_tokenizer()
    encoded = tokenizer("the old man", "a dog sat", return_tensors="pt")
    assert torch.equal(token_types(encoded["input_ids"], SEP), encoded["token_type_ids"])


def test_rows_for_sources():
    assert in_rows([5, 5, 5, 30, 2], 12, 4) == [4, 4, 5, 6, 7]


def blocks_of(texts):
    offsets = np.cumsum([0, *map(len, texts)])
    return Blocks(np.concatenate(texts), offsets, (len(texts),))


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_batch_of_pairs_reads_as_each_pair_alone(tmp_path, family, pack):
    """Packed or not, masked or in order, with token types where the family has them; lengths from the source alone."""
    options = {"layer_types": ["full_attention"] * 2} if family == "modernbert" else {}
    model = tiny_model(family, **options, **{PAIRS: SEP}).double()
    torch.manual_seed(0)
    head = LengthHead(32, 16).double()
    torch.nn.init.normal_(head.table.weight)
    run = recipe(tmp_path, data={"pack": pack}, objective={"label_smoothing": 0.0, "length": 1.0, "ordered": 0.5})
    rng = np.random.default_rng(0)
    texts = [np.array([CLS, *rng.integers(5, 80, n), SEP, *rng.integers(5, 80, m), SEP]) for n, m in
             ((3, 4), (5, 2), (2, 6), (4, 4))]  # fmt: skip
    packed = [np.concatenate(texts[:2]), np.concatenate(texts[2:])] if pack else texts
    blocks = blocks_of(packed)
    batches = Batches(run, tiny_tokenizer(), (blocks, blocks), first_position(model), family == "bert")
    batch = batches.training(range(len(packed)), 0.5)
    if pack:
        batch["attention_mask"] = batch["attention_mask"].double()
    together = TokenLosses(model, mask_id=MASK, length_head=head)(**{k: batch[k] for k in FIELDS if k in batch})
    count = int(batch["predicted"].sum())
    assert len(together) == count + len(texts)
    # Each pair alone, by the model itself.
    wanted, lengths = [], []
    order = [batches.mixture[i] for i in range(len(packed))]
    alone = [text for i in order for text in (texts[2 * i : 2 * i + 2] if pack else [texts[i]])]
    for t, text in enumerate(alone):
        row = batch["predicted"][t, : len(text)]
        in_order = bool(batch["in_order"][t]) if "in_order" in batch else False
        ids = torch.from_numpy(text)
        source = int((ids == SEP).nonzero()[0]) + 1
        if not in_order:
            inputs = torch.where(row, MASK, ids)[None]
            more = {"token_type_ids": token_types(ids[None], SEP)} if family == "bert" else {}
            log_q = model(input_ids=inputs, **more).logits[0].log_softmax(-1)
            wanted.append(-log_q[row].gather(1, ids[row][:, None])[:, 0])
        else:
            wanted.append(torch.full((int(row.sum()),), torch.nan))
        more = {"token_type_ids": torch.zeros((1, source), dtype=torch.long)} if family == "bert" else {}
        state = model.base_model(input_ids=ids[None, :source], **more)[0][0, :1]
        logits = head(state, torch.tensor([source - 2]))
        lengths.append(torch.nn.functional.cross_entropy(logits, torch.tensor([len(ids) - source - 1])))
    full = torch.cat(wanted)
    checked = ~full.isnan()
    assert 0 < int(checked.sum()) < count
    torch.testing.assert_close(together[:count][checked], full[checked], atol=1e-5, rtol=0)  # rotary angles are float32
    torch.testing.assert_close(together[count:], torch.stack(lengths).detach(), atol=1e-5, rtol=0)


def test_left_to_right_is_an_order(tmp_path):
    run = recipe(tmp_path, data={"pack": False}, objective={"ordered": 1.0, "order": "left-to-right", "length": 0.0})
    text = np.array([CLS, 10, 11, SEP, 20, 21, 22, SEP])
    blocks = blocks_of([text])
    batch = Batches(run, tiny_tokenizer(), (blocks, blocks), 0).training(range(1), 1.0)
    assert batch["turn"][0].tolist() == [0, 0, 0, 0, 1, 2, 3, 0]
    assert batch["in_order"].tolist() == [True]


def test_a_killed_run_resumes_to_the_same_weights(tmp_path, folder):
    whole = train(recipe(tmp_path / "a"), data_dir=folder, quiet=True)
    train(recipe(tmp_path / "b", optim={"steps": 3, "schedule": "constant"}), data_dir=folder, quiet=True)
    again = recipe(tmp_path / "b", optim={"schedule": "constant"})
    resumed = train(again, resume=True, data_dir=folder, quiet=True)
    straight = train(recipe(tmp_path / "c", optim={"schedule": "constant"}), data_dir=folder, quiet=True)
    assert same(weights(resumed), weights(straight))
    assert (resumed / FILE).read_bytes() == (straight / FILE).read_bytes() != (whole / FILE).read_bytes()


def test_fifty_pairs_are_recalled(tmp_path, folder):
    """And the folder stays an ordinary masked LM's, with the head beside it."""
    run = recipe(
        tmp_path,
        model={"kind": "modernbert", "hidden_size": 48, "intermediate": 96},
        objective={"label_smoothing": 0.0, "length": 0.25},
        optim={"name": "muon", "lr": 5e-3, "muon_lr": 2e-2, "steps": 250, "batch": 8, "micro_batch": 8},
        run={"checkpoint_every": 1000},
    )
    final = train(run, data_dir=folder, quiet=True)
    model, info = AutoModelForMaskedLM.from_pretrained(final, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert getattr(model.config, PAIRS) == SEP
    lm = anyorder.load(final)
    sources, targets = zip(*some_pairs(), strict=True)
    right = {}
    for name, options in {
        "refine": {"steps": 4},
        "left to right": {"sampler": "any-order", "order": "left-to-right"},
        "in full": {"sampler": "any-order", "reading": "full", "order": "confidence"},
    }.items():
        found = lm.translate(list(sources), **options)
        right[name] = sum(one.text == target for one, target in zip(found, targets, strict=True))
    assert min(right.values()) >= 48, right
    logged = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]
    assert logged[-1]["length"]["value"] < 0.2 < logged[0]["length"]["value"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"columns": [1]}}, "are two"),
        ({"data": {"columns": []}}, "name both with data.columns"),
        ({"objective": {"name": "causal", "ordered": 0}}, "masked LMs"),
        ({"objective": {"label_smoothing": 1.0}}, "must be less than 1, not 1.0"),
        ({"objective": {"length": 2}}, "must be at most 1, not 2.0"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(tmp_path, changes, said):
    with pytest.raises(AnyorderError, match=said):
        recipe(tmp_path, **changes)


def test_the_recipe_in_the_repository_is_one():
    from pathlib import Path

    found = load_recipe(Path(__file__).parents[2] / "recipes" / "translate.yaml")
    assert found.data.columns == ("1", "2")

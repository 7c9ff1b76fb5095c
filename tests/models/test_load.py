"""What the loader takes, and what it refuses with a sentence that says what to do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import anyorder
from anyorder.errors import AnyorderError
from anyorder.models.load import BUNDLED
from tiny import FAMILIES, VOCAB, tiny_checkpoint_of, tiny_model, tiny_tokenizer

bundled = pytest.mark.skipif(not (BUNDLED / "config.json").exists(), reason="built without the bundled model")


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint that a test may spoil."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "model"))


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def refused(path: Any, message: str, **options: Any) -> None:
    """The error names the remedy, in one line."""
    with pytest.raises(AnyorderError, match=message) as error:
        anyorder.load(path, **options)
    assert "\n" not in str(error.value)


# -- what it takes -----------------------------------------------------------------------------------------------------


def test_the_facade(tiny_lm: Any, tiny_checkpoint: Path) -> None:
    assert tiny_lm.name == str(tiny_checkpoint)
    assert tiny_lm.max_length == 64
    assert not tiny_lm.model.training
    assert tiny_lm.conditionals.vocab_size == len(VOCAB)
    assert tiny_lm.conditionals.mask_id == tiny_lm.tokenizer.mask_token_id
    assert tiny_lm.conditionals.pad_id == tiny_lm.tokenizer.pad_token_id
    assert tiny_lm.tokenizer.tokenize("The old man opened the door.") == [
        "the",
        "old",
        "man",
        "opened",
        "the",
        "door",
        ".",
    ]
    assert next(tiny_lm.model.parameters()).dtype == torch.float32


def test_loading_is_quiet(tiny_checkpoint: Path, capfd: pytest.CaptureFixture[str]) -> None:
    anyorder.load(tiny_checkpoint)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_loads_and_has_the_right_maximum(family: str, tmp_path: Path) -> None:
    lm = anyorder.load(tiny_checkpoint_of(family, tmp_path))
    # 64 rows in the position table; RoBERTa's relatives lose pad_id + 1 of them, MPNet one more for its padding_idx.
    relative = "roberta" in family or family in ("camembert", "data2vec-text")
    offset = 2 if family == "mpnet" else int(relative)
    assert lm.max_length == 64 - offset
    longest = torch.full((1, lm.max_length), 4)
    longest[0, 0] = 2
    assert torch.isfinite(lm.conditionals(longest, torch.tensor([[lm.max_length - 1]]))).all()


def test_the_tokenizers_maximum_counts_if_it_is_tighter(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.model_max_length = 20
    tokenizer.save_pretrained(folder)
    lm = anyorder.load(folder)
    assert lm.max_length == 20
    with pytest.raises(AnyorderError, match="21 tokens is longer than the model's maximum of 20"):
        lm.conditionals(torch.full((1, 21), 4), torch.tensor([[0]]))


def test_half_precision_on_disk_is_float32_in_memory(folder: Path) -> None:
    weights = folder / "model.safetensors"
    save_file({k: v.half() for k, v in load_file(weights).items()}, weights, metadata={"format": "pt"})
    change_config(folder, dtype="float16")
    assert {p.dtype for p in anyorder.load(folder).model.parameters()} == {torch.float32}
    lm = anyorder.load(folder, dtype=torch.float64, token_budget=7)
    assert {p.dtype for p in lm.model.parameters()} == {torch.float64}
    assert lm.conditionals.token_budget == 7


def test_a_pickle_needs_to_be_allowed(folder: Path, tiny_lm: Any) -> None:
    torch.save(tiny_model("bert").state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    refused(folder, "pickle.*allow_pickle=True")
    lm = anyorder.load(folder, allow_pickle=True)
    assert torch.equal(lm.model.bert.embeddings.word_embeddings.weight,
                       tiny_lm.model.bert.embeddings.word_embeddings.weight)  # fmt: skip


def test_a_checkpoint_of_bert_for_pretraining_has_a_head(tmp_path: Path) -> None:
    from transformers import BertForPreTraining

    BertForPreTraining(tiny_model("bert").config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert anyorder.load(tmp_path).max_length == 64


# -- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", 3])
def test_what_names_no_model(name: Any) -> None:
    with pytest.raises(AnyorderError, match=f"{name!r} names no model"):
        anyorder.load(name)


def test_no_such_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "there is no folder .*nowhere")
    refused("./nowhere", "there is no folder")


def test_a_name_that_cannot_be_found() -> None:
    """Offline, a hub name that is not in the cache is a sentence too."""
    refused("anyorder-tests/no-such-model", "there is no folder anyorder-tests/no-such-model, .* not in the cache")


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    refused(folder / "model.safetensors", "is a file: name the folder")


def test_a_folder_without_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    refused(folder, "no config.json: name a folder written by save_pretrained")


def test_a_config_that_is_not_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    refused(folder, "cannot read the configuration")


def test_an_unknown_architecture(folder: Path) -> None:
    change_config(folder, model_type="perceptron")
    refused(folder, "cannot read the configuration.*perceptron")


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, "no weights: it needs a model.safetensors")


@pytest.mark.parametrize("spoil", ["empty", "cut", "header"])
def test_damaged_weights(folder: Path, spoil: str) -> None:
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "header": b"\xff" * 16 + data[16:]}[spoil])
    refused(folder, "are damaged.*again")


def test_weights_of_another_size(folder: Path) -> None:
    change_config(folder, hidden_size=16)
    refused(folder, "cannot read the weights|do not fit")


def test_no_head(folder: Path) -> None:
    BertModel(BertConfig.from_pretrained(folder)).save_pretrained(folder)
    refused(folder, "no masked-LM head .*cls.predictions.*choose a checkpoint saved from AutoModelForMaskedLM")


def test_half_the_backbone(folder: Path) -> None:
    weights = folder / "model.safetensors"
    kept = {k: v for k, v in load_file(weights).items() if "encoder.layer.1" not in k}
    save_file(kept, weights, metadata={"format": "pt"})
    refused(folder, "lack bert.encoder.layer.1")


def test_not_a_number(folder: Path) -> None:
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    tensors["bert.encoder.layer.0.output.dense.weight"][3, 3] = torch.nan
    save_file(tensors, weights, metadata={"format": "pt"})
    refused(folder, "NaN or infinity.*earlier checkpoint")


def test_no_tokenizer(folder: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (folder / file).unlink(missing_ok=True)
    refused(folder, "no tokenizer: save it beside the model")


def test_no_mask_token(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)
    refused(folder, "no mask token: choose a masked-LM checkpoint")


def test_a_mask_token_the_model_does_not_know(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"mask_token": "[NEW]"})
    tokenizer.save_pretrained(folder)
    refused(folder, f"mask token has id {len(VOCAB)}, but the model knows only {len(VOCAB)} tokens")


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
def test_relative_keys_that_transformers_would_ignore(folder: Path, kind: str) -> None:
    change_config(folder, position_embedding_type=kind)
    refused(folder, f'position_embedding_type="{kind}".*silently ignores.*choose')


def test_causal_models(folder: Path, tmp_path: Path) -> None:
    change_config(folder, is_decoder=True)
    refused(folder, "not a masked LM .*choose an encoder")
    GPT2LMHeadModel(GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=2)).save_pretrained(tmp_path / "gpt")
    refused(tmp_path / "gpt", r"not a masked LM \(gpt2\)")


@pytest.mark.skipif(BUNDLED.exists(), reason="the bundled model is there")
def test_no_bundled_model() -> None:
    refused(None, "bundled model is missing")


def test_refusals_come_before_the_weights_are_read(folder: Path) -> None:
    """A wrong kind of model is refused before its weights, which may be gigabytes: here they cannot be read."""
    change_config(folder, is_decoder=True)
    (folder / "model.safetensors").write_bytes(b"")
    refused(folder, "not a masked LM")


# -- what a checkpoint might try ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard", ["../other/model.safetensors", "/dev/zero", "..", "evil.bin", "", 3])
def test_shards_are_files_of_its_own(folder: Path, tiny_checkpoint: Path, shard: Any) -> None:
    shutil.copytree(tiny_checkpoint, folder.parent / "other")
    names = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, shard)}))
    refused(folder, "file beside it")
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, "part.safetensors")}))
    assert anyorder.load(folder).max_length == 64
    index.write_text("[]")
    refused(folder, "cannot read .*index.json")


def test_one_flipped_bit(folder: Path) -> None:
    """The highest bit of an exponent: a weight of some 10^37, with which some texts would have no score."""
    weights = load_file(folder / "model.safetensors")
    one = weights["bert.embeddings.word_embeddings.weight"]
    one[7, 3] = 0.1
    one.view(torch.int32)[7, 3] ^= 1 << 30
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, r"damaged \(one is 3.4e\+37\)")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"is_decoder": 97}, "configuration.*is_decoder"),
        ({"num_attention_heads": 0}, "cannot read|is not"),
        ({"attn_implementation": "some/kernel"}, r"asks for code from the hub \(some/kernel\)"),
        ({"transformers_weights": "part/model.safetensors.index.json"}, "must be files beside"),
        ({"hidden_act": "nothing"}, "cannot read the weights"),
        ({"mask_token_id": "x"}, "its configuration says x"),
    ],
)
def test_settings_that_make_no_model(folder: Path, changes: dict[str, Any], says: str) -> None:
    change_config(folder, **changes)
    refused(folder, says)


def test_a_pipe_is_no_file(folder: Path) -> None:
    """Reading it would wait for ever."""
    os.mkfifo(folder / "extra.safetensors")
    refused(folder, "no ordinary file")


def test_a_damaged_length_head(tmp_path: Path) -> None:
    from tiny import tiny_translator

    path = tiny_translator(tmp_path / "pairs")
    head = path / "length_head.safetensors"
    head.write_bytes(head.read_bytes()[:-100])
    refused(path, "cannot read .*length_head.safetensors")


def test_an_unknown_token_that_is_itself_unknown(folder: Path) -> None:
    """transformers looks such a token up for ever. Found by the campaign."""
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "unk_token": ""}))
    refused(folder, "unk_token '' is not in its vocabulary")


@pytest.mark.parametrize("closing", ["2", [3], True])
def test_the_token_between_a_pair_is_an_id(folder: Path, closing: object) -> None:
    """Found by the campaign: compared with anything else, no token is equal to it and torch answers with a bool."""
    change_config(folder, anyorder_pairs=closing)
    refused(folder, "not the id of a token")


def test_a_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    refused(folder, "cannot read the tokenizer")

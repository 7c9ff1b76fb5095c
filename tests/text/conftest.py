"""One small tokenizer of each kind, all over the same few words."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

TEXT = ["The quick brown fox jumps over the lazy dog . A fox is jumping , quickly (the dog) !"] * 3
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
ROBERTA = ["<pad>", "<unk>", "<s>", "</s>"]


def _wrap(core: Tokenizer) -> PreTrainedTokenizerFast:
    core.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)])
    # As RoBERTa and XLM-R have it: the mask takes the space before it.
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>", mask_token=mask
    )


def wordpiece() -> PreTrainedTokenizerBase:
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jump",
        "over",
        "lazy",
        "dog",
        "a",
        "is",
        "run",
        ".",
        ",",
        "(",
        ")",
        "!",
        "-",
        "##s",
        "##ing",
        "##ly",
        "t",
        "##he",
    ]
    return BertTokenizer(vocab={t: i for i, t in enumerate([*BERT, *words])}, do_lower_case=True)


def byte_level() -> PreTrainedTokenizerBase:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=150, special_tokens=ROBERTA, show_progress=False))
    return _wrap(core)


def sentencepiece() -> PreTrainedTokenizerBase:
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=150, special_tokens=ROBERTA, show_progress=False))
    return _wrap(core)


def character() -> PreTrainedTokenizerBase:
    vocab = {t: i for i, t in enumerate([*ROBERTA, *"ACDEFGHIKLMNPQRSTVWY"])}
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    core.decoder = decoders.Fuse()
    return _wrap(core)


def word() -> PreTrainedTokenizerBase:
    vocab = {
        t: i
        for i, t in enumerate([*ROBERTA, *["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "."]])
    }
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return _wrap(core)


KINDS = {f.__name__: f for f in (wordpiece, byte_level, sentencepiece, character, word)}


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, PreTrainedTokenizerBase]:
    return {name: make() for name, make in KINDS.items()}

"""A WordPiece tokenizer, cased, trained from the recipe's own text."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from anyorder.files.disk import atomically
from anyorder.models.fit import read_tokenizer
from anyorder.models.hub import check_available
from anyorder.training import data
from anyorder.training.recipe import DataRecipe

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_NOTE = "learned.json"  # in the folder of a tokenizer: what it was learned from


def learned_tokenizer(folder: Path, files: Sequence[Path], recipe: DataRecipe, vocab_size: int) -> None:
    """Learn the tokenizer of a run into ``folder``, unless the one that is there was learned from the same."""
    said = {"vocab_size": vocab_size, "checksums": data.checksums(files), **dataclasses.asdict(recipe)}
    note = json.dumps(said, indent=1)
    before = folder / _NOTE
    if folder.exists() and (not before.is_file() or before.read_bytes() == note.encode()):  # older ones have no note
        return
    parts = data.split_files(files, recipe.unit, recipe.holdout, recipe.column, recipe.columns)
    texts = [[paragraph for document in part for paragraph in document] for part, _ in parts]
    learned = train_tokenizer(data.in_shares(texts, recipe.weights), vocab_size, recipe.length)

    def write(building: Path) -> None:
        learned.save_pretrained(building)
        (building / _NOTE).write_text(note, encoding="utf-8")

    atomically(folder, write)


def train_tokenizer(texts: Iterable[str], vocab_size: int, max_length: int) -> PreTrainedTokenizerFast:
    """Learn ``vocab_size`` word pieces. The five special tokens come first, so [PAD] is 0 and [MASK] is 4."""
    paragraphs = list(texts)
    letters = _alphabet(paragraphs, vocab_size)
    # The library numbers inner letters ("##e") in the random order of a hash table, and ties between merges go by
    # number: two trainings on one text would differ. Named beforehand, they have fixed numbers.
    inner = [f"##{letter}" for letter in letters]
    learner = _pipeline(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL + inner,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    learner.train_from_iterator(paragraphs, trainer)
    tokenizer = _pipeline(models.WordPiece(learner.get_vocab(), unk_token="[UNK]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _pipeline(model: models.Model) -> Tokenizer:
    """BERT's way from text to words, cased, around ``model``."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _alphabet(texts: list[str], vocab_size: int) -> list[str]:
    """The commonest letters, sorted. Without a limit rare scripts would take a good part of the vocabulary."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    letters = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    return sorted(letters[: max(32, min(256, vocab_size // 8))])


def load_tokenizer(path: str | Path, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint folder or a Hugging Face name."""
    check_available(path)
    return read_tokenizer(str(path), str(path), trust_remote_code)

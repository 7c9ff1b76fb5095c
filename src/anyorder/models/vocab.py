"""A tokenizer for a checkpoint that ships nothing but vocab.txt, one token a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# What each role is called in the vocabularies of BERT, RoBERTa and ESM.
_ROLES = {
    "mask_token": ("[MASK]", "<mask>"),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>", "<cls>"),
    "sep_token": ("[SEP]", "</s>", "<eos>", "<sep>"),
}
_SPECIAL = re.compile(r"<.+>|\[.+\]")


def tokenizer_from_vocab(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that ``vocab.txt`` at ``path`` implies.

    A vocabulary of single characters (proteins, antibodies, DNA) is split into characters; any other is taken as BERT's
    WordPiece, lower-cased only if no entry has an upper-case letter. transformers itself would guess by model
    type, and for RoBERTa silently answer with an empty vocabulary.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import BertTokenizer, PreTrainedTokenizerFast

    entries = path.read_text(encoding="utf-8").splitlines()
    vocab = {token: i for i, token in enumerate(entries)}
    if len(vocab) != len(entries):
        raise AnyorderError(f"{path} lists a token twice: one token a line, each once")
    special: dict[str, Any] = {role: name for role, names in _ROLES.items() for name in names if name in vocab}
    missing = [role for role in _ROLES if role not in special]
    if missing:
        raise AnyorderError(
            f"{path} has no {missing[0].replace('_', ' ')}: save the checkpoint's own tokenizer beside its weights"
        )
    ordinary = [token for token in entries if not _SPECIAL.fullmatch(token)]
    if any(len(token) > 1 for token in ordinary):
        cased = any(token != token.lower() for token in ordinary)
        return BertTokenizer(vocab=vocab, do_lower_case=not cased, **special)

    core = Tokenizer(models.WordLevel(vocab, unk_token=special["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    core.decoder = decoders.Fuse()
    cls, sep = special["cls_token"], special["sep_token"]
    core.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}", special_tokens=[(cls, vocab[cls]), (sep, vocab[sep])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, **special)

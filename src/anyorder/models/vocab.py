"""A tokenizer for a checkpoint that ships nothing but vocab.txt, one token per line."""

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
_NEVER = re.compile(r"\[unused\d+\]|<unused\d+>")
# Atoms, bonds, branches and rings of SMILES and of reactions, as Schwaller et al. (2018) cut them.
_SMILES = r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"
_BONDS = {"C", "c", "(", ")", "="}  # no vocabulary of molecules is without them


def entries_of(path: Path) -> list[str]:
    """The tokens of a vocabulary by id."""
    return path.read_text(encoding="utf-8").splitlines()


def is_smiles(entries: list[str]) -> bool:
    """Whether these are the tokens of molecules."""
    named = {name for names in _ROLES.values() for name in names}
    ordinary = [token for token in entries if token not in named and not _NEVER.fullmatch(token)]
    return set(ordinary) >= _BONDS and all(re.fullmatch(_SMILES, token) for token in ordinary)


def tokenizer_from_vocab(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that ``vocab.txt`` at ``path`` implies.

    A vocabulary of single characters (proteins, antibodies, DNA) is split into characters, one of molecules into the
    tokens of SMILES; any other is taken as BERT's WordPiece, lower-cased only if no entry has an upper-case letter.
    transformers itself would guess by model type, and for RoBERTa or ALBERT silently answer with an empty vocabulary.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import BertTokenizer, PreTrainedTokenizerFast

    entries = entries_of(path)
    vocab = {token: i for i, token in enumerate(entries)}
    if len(vocab) != len(entries):
        raise AnyorderError(f"{path} lists a token twice: one token per line, each once")
    special: dict[str, Any] = {role: name for role, names in _ROLES.items() for name in names if name in vocab}
    missing = [role for role in _ROLES if role not in special]
    if missing:
        raise AnyorderError(
            f"{path} has no {missing[0].replace('_', ' ')}: save the checkpoint's own tokenizer beside its weights"
        )
    ordinary = [token for token in entries if not _SPECIAL.fullmatch(token)]
    smiles = is_smiles(entries)
    if not smiles and any(len(token) > 1 for token in ordinary):
        cased = any(token != token.lower() for token in ordinary)
        return BertTokenizer(vocab=vocab, do_lower_case=not cased, **special)

    core = Tokenizer(models.WordLevel(vocab, unk_token=special["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_SMILES if smiles else "."), "isolated")]
    )
    core.decoder = decoders.Fuse()
    cls, sep = special["cls_token"], special["sep_token"]
    core.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}", special_tokens=[(cls, vocab[cls]), (sep, vocab[sep])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, **special)

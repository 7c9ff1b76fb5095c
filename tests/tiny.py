"""Tiny random masked LMs of every family, with a vocabulary of real words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_TEXT = """
the a an old young man woman cat dog fox bird house door garden river tree book red blue green small
big sat ran walked opened closed saw took gave read went came is was are were on in into over under
by to from of and but or not he she it they his her its their one two three good bad quick brown
lazy day night sun moon water bread table mat hat school road window city king queen child
"""
WORDS = _TEXT.split()
VOCAB = [*SPECIAL, *".,!?'", *WORDS, "##s", "##ed", "##ing", "##er", "##ly"]

_SIZE = {"vocab_size": len(VOCAB), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_COMMON = {**_SIZE, "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "initializer_range": 0.5}
# What each family's config calls for beyond, or instead of, the common sizes.
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {},
    "anyorder-relative-bert": {"max_relative_position": 7},
    "roberta": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1},
    "camembert": {"type_vocab_size": 1},
    "xlm-roberta-xl": {"type_vocab_size": 1},
    "data2vec-text": {"type_vocab_size": 1},
    "roberta-prelayernorm": {"type_vocab_size": 1},
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "albert": {"embedding_size": 16},
    "electra": {"embedding_size": 16},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 8, "initializer_range": 0.5},
    "esm": {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4},
    "mpnet": {},  # a family without a known head: the fallback
}


def tiny_config(family: str, **changes: Any) -> Any:
    """The configuration of a tiny random model of ``family``."""
    from transformers import AutoConfig

    import anyorder  # noqa: F401  (makes AutoConfig know our own families)

    special = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    return AutoConfig.for_model(family, **{**_COMMON, **special, **FAMILIES[family], **changes})


def tiny_model(family: str, seed: int = 0, **changes: Any) -> Any:
    """A tiny random masked LM of ``family`` whose conditionals are far from uniform, in eval mode."""
    import torch
    from transformers import AutoModelForMaskedLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)  # transformers draws initial weights from the global generator
        model = AutoModelForMaskedLM.from_config(tiny_config(family, **changes)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                # Biases start at zero in most families; noise makes a forgotten one visible.
                if parameter.ndim == 1:
                    parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def tiny_tokenizer() -> Any:
    """A WordPiece tokenizer over VOCAB."""
    from transformers import BertTokenizer

    vocab = {token: i for i, token in enumerate(VOCAB)}
    return BertTokenizer(vocab=vocab, do_lower_case=True, model_max_length=64)


def tiny_checkpoint_of(family: str, path: Path, seed: int = 0, **changes: Any) -> Path:
    """Save a tiny random masked LM of ``family`` and its tokenizer to ``path``; ``changes`` go into its config."""
    tiny_model(family, seed, **changes).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def tiny_translator(path: Path, family: str = "bert") -> Path:
    """A random model as if trained on pairs, ordered mode and length head included; it spells any German or English."""
    import torch
    from transformers import BertTokenizer

    from anyorder.models.ordered import TRAINED
    from anyorder.models.pairs import PAIRS, LengthHead

    letters = "abcdefghijklmnopqrstuvwxyzäöüß"
    vocab = [*SPECIAL, *".,!?'", *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    config = {PAIRS: SPECIAL.index("[SEP]"), TRAINED: True, "vocab_size": len(vocab), "max_position_embeddings": 128}
    tiny_model(family, **config).save_pretrained(path)
    ids = {token: i for i, token in enumerate(vocab)}
    BertTokenizer(vocab=ids, do_lower_case=True, strip_accents=False, model_max_length=128).save_pretrained(path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LengthHead(32, 12).save(path)
    return path

"""What families of masked LMs do with padding and length, and how wide their answers are."""

from __future__ import annotations

from typing import Any

from anyorder.errors import AnyorderError
from anyorder.models.fit import rows_of
from anyorder.models.heads import is_known_code

# Families whose answers are the same with padding beside them (``tests/conditionals/test_families.py``). All others,
# and code that is not transformers' own, get rows of one length: ConvBERT's and Nystromformer's convolutions, FNet's
# Fourier transform, YOSO's hashes and BigBird's blocks reach across the padding.
_PADDED = {
    *("albert", "anyorder-relative-bert", "bert", "camembert", "data2vec-text", "deberta", "deberta-v2", "distilbert"),
    *("electra", "ernie", "esm", "esmc", "eurobert", "gte", "ibert", "jina_embeddings_v3", "layoutlm", "longformer"),
    *("luke", "megatron-bert", "mobilebert", "modernbert", "mpnet", "nomic_bert", "perceiver", "rembert", "roberta"),
    *("roberta-prelayernorm", "roc_bert", "roformer", "squeezebert", "tapas", "xlm-roberta", "xlm-roberta-xl", "xmod"),
}


def takes_padding(model: Any) -> bool:
    """Whether rows of mixed length may be padded and run together."""
    return is_known_code(model) and model.config.model_type in _PADDED


def width_of(model: Any) -> int:
    """Entries of the model's answers, without running it: one token is a row that some families cannot read."""
    known = getattr(model, "vocab_size", None) or rows_of(model)  # the first is a wrapped model's
    if not isinstance(known, int):
        raise AnyorderError(
            f"{type(model).__name__} does not say how many tokens it knows: set vocab_size in its config"
        )
    return known


def make_deterministic(model: Any) -> None:
    """Reformer hashes at random in every forward unless it is given a seed: without one, two answers to one question
    would differ."""
    if model.config.model_type == "reformer" and model.config.hash_seed is None:
        for module in (model, *model.modules()):
            if getattr(module, "hash_seed", 0) is None:
                module.hash_seed = 0
        model.config.hash_seed = 0


def make_ready(model: Any) -> None:
    """Undo what a forward leaves behind: BigBird reads on in full, for good, once it was given a short text."""
    if model.config.model_type == "big_bird":
        model.base_model.set_attention_type(model.config.attention_type)

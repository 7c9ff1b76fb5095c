"""Every family of masked LMs that transformers can build: mixed lengths against the plain forward of each row."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from anyorder.conditionals import ModelConditionals
from anyorder.joints.passes import conditional_rows
from tiny import FAMILIES as TINY
from tiny import VOCAB

MASK, PAD, V = 4, 0, len(VOCAB)
_COMMON = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    "pad_token_id": PAD,
    "cls_token_id": 2,
    "bos_token_id": 2,
    "sep_token_id": 3,
    "eos_token_id": 3,
    "mask_token_id": MASK,
}
_XLM: dict[str, Any] = {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "n_words": V, "mask_index": MASK, "pad_index": PAD}
# What each family's configuration calls for beyond the common sizes; None leaves out a common one.
FAMILIES: dict[str, dict[str, Any]] = {
    **TINY,
    "big_bird": {"block_size": 2, "num_random_blocks": 1},  # sparse beyond 14 tokens, full up to there
    "convbert": {"embedding_size": 32, "head_ratio": 2},
    "deberta-v2": TINY["deberta-v2"] | {"conv_kernel_size": 3},
    "ernie": {},
    "esmc": {},
    "eurobert": {"num_key_value_heads": 2, "head_dim": 8},
    "flaubert": _XLM,
    "fnet": {},
    "funnel": {
        "num_hidden_layers": None,
        "block_sizes": [1, 1],
        "d_model": 32,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 48,
        "num_decoder_layers": 1,
    },
    "gte": {},
    "ibert": {},
    "jina_embeddings_v3": {},
    "layoutlm": {},
    "longformer": {"attention_window": 4},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 8},
    "megatron-bert": {},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 1},
    "neomme": {},
    "nomic_bert": {},
    "nystromformer": {"segment_means_seq_len": 64, "num_landmarks": 64, "conv_kernel_size": 5},
    "perceiver": {
        "d_model": 16,
        "d_latents": 24,
        "num_latents": 8,
        "num_self_attends_per_block": 1,
        "num_self_attention_heads": 2,
        "num_cross_attention_heads": 2,
        "qk_channels": 16,
        "v_channels": 24,
    },
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh"],
        "feed_forward_size": 48,
        "attention_head_size": 8,
        "is_decoder": False,
        "lsh_attn_chunk_length": 8,
        "local_attn_chunk_length": 8,
        "num_buckets": 2,  # and no hash_seed: the hashes of two forwards differ unless they are given one
    },
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "roc_bert": {"enable_shape": False, "enable_pronunciation": False},
    "roformer": {"embedding_size": 32},
    "squeezebert": {"embedding_size": 32, "q_groups": 2, "k_groups": 2, "v_groups": 2, "intermediate_groups": 2},
    "tapas": {},
    "ultrabert": {},
    "xlm": _XLM,
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "yoso": {"use_expectation": True},
}
LEFT_OUT = {
    "bart": "encoder and decoder: the loader refuses it",
    "mbart": "encoder and decoder: the loader refuses it",
    "mvp": "encoder and decoder: the loader refuses it",
    "modernvbert": "reads images: its smallest vision tower is too large for a test",
    "ultravbert": "reads images: its smallest vision tower is too large for a test",
    "mra": "needs a CUDA kernel that is downloaded",
}


def build(family: str) -> Any:
    """A tiny random model of ``family`` in float64."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    import anyorder  # noqa: F401  (makes AutoConfig know our own families)

    said = {k: v for k, v in {**_COMMON, **FAMILIES[family]}.items() if v is not None}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(family, **said)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:  # biases start at zero in most families; noise makes a forgotten one visible
                    parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double()


@torch.inference_mode()
def fresh_forward(model: Any, row: Tensor) -> Tensor:
    """log q [n, V] of a row alone, by a model that has read nothing before it."""
    return copy.deepcopy(model)(input_ids=row[None]).logits[0, : len(row)].log_softmax(-1)


def test_every_family_is_here_or_left_out_for_a_reason() -> None:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    known = {config.model_type for config in MODEL_FOR_MASKED_LM_MAPPING}
    assert known - set(LEFT_OUT) <= set(FAMILIES)
    assert not set(LEFT_OUT) & set(FAMILIES)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_mixed_lengths_equal_the_plain_forward(family: str) -> None:
    model = build(family)
    generator = torch.Generator().manual_seed(0)
    lengths = (5, 24, 9, 24, 13)
    tokens = torch.randint(5, V, (len(lengths), max(lengths)), generator=generator)
    tokens[torch.rand(tokens.shape, generator=generator) < 0.3] = MASK
    tokens[torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]] = PAD
    conditionals = ModelConditionals(model, mask_id=MASK, pad_id=PAD, max_length=60)
    asked = torch.tensor([[n - 1, 1] for n in lengths])
    log_q = conditionals(tokens, asked)
    for row, n in enumerate(lengths):
        expected = fresh_forward(model, tokens[row, :n])[asked[row]]
        torch.testing.assert_close(log_q[row], expected.float(), atol=2e-5, rtol=1e-6)
    # The rows of a joint go another way to the same answers; padding is a value like any other there.
    values = torch.tensor([7, PAD])
    rows = tokens[2, :9].repeat(2, 1)
    rows[:, 3], rows[:, 5] = values, MASK
    answers = torch.cat([answer.log_q for answer in conditional_rows(conditionals, rows[0], 3, 5, values)])
    expected = torch.stack([fresh_forward(model, row)[5] for row in rows])
    torch.testing.assert_close(answers, expected.float(), atol=2e-5, rtol=1e-6)

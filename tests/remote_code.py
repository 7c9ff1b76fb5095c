"""Tiny masked-diffusion checkpoints with code of their own: LLaDA's kind, Dream's and MDLM's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiny import VOCAB, tiny_tokenizer

# A module that leaves a trace if it is ever imported.
CODE_THAT_RUNS = """
open({trace!r}, "w").close()
from transformers import PretrainedConfig, PreTrainedModel

class Config(PretrainedConfig):
    model_type = "evil"

class Model(PreTrainedModel):
    config_class = Config
"""
_CONFIG = """
from transformers import PretrainedConfig

class TinyConfig(PretrainedConfig):
    model_type = "tiny-diffusion"

    def __init__(self, vocab_size=10, d_model=16, causal=False, time_conditioning=False, **kwargs):
        self.vocab_size, self.d_model, self.causal = vocab_size, d_model, causal
        self.time_conditioning = time_conditioning
        super().__init__(**kwargs)
"""
# Written as such code is: for transformers 4, without post_init, tying weights without arguments.
_MODEL = """
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from .configuration_tiny import TinyConfig

class NAME(PreTrainedModel):
    config_class = TinyConfig
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.places = nn.Embedding(32, config.d_model)
        self.layer = nn.TransformerEncoderLayer(config.d_model, 2, 24, batch_first=True)
        self.out = nn.Linear(config.d_model, config.vocab_size)

    def get_input_embeddings(self):
        return self.embed

    def tie_weights(self):
        pass

    def _init_weights(self, module):
        pass

    def forward(self, input_ids, attention_mask=None, TIMEuse_cache=None):
        assert attention_mask is None, "released code ignores it"
        n = input_ids.shape[1]
        x = self.embed(input_ids) + self.places(torch.arange(n, device=input_ids.device))
        if self.config.time_conditioning:
            x = x + timesteps[:, None, None]
        mask = nn.Transformer.generate_square_subsequent_mask(n).to(x) if self.config.causal else None
        return RETURN
"""


def remote_checkpoint(
    path: Path, name: str = "LLaDAModelLM", auto: str = "AutoModelForCausalLM", mask_token: bool = False, **config: Any
) -> Path:
    """Write a random checkpoint with its own code to ``path``.

    Args:
        path: a folder, its name a valid Python name.
        name: of the model's class; Dream's logits are shifted.
        auto: the Auto class it hangs behind.
        mask_token: whether the tokenizer has a mask token of its own.
        config: beyond the common; ``time_conditioning`` for MDLM's kind.
    """
    import torch
    from safetensors.torch import save_file
    from torch import nn

    time = bool(config.get("time_conditioning"))
    path.mkdir()
    logits = "self.out(self.layer(x, mask))"
    code = _MODEL.replace("NAME", name).replace("TIME", "timesteps=None, " if time else "")
    (path / "modeling_tiny.py").write_text(
        code.replace("RETURN", logits if time else f"CausalLMOutput(logits={logits})")
    )
    (path / "configuration_tiny.py").write_text(_CONFIG)
    said = {
        "model_type": "tiny-diffusion",
        "architectures": [name],
        "auto_map": {"AutoConfig": "configuration_tiny.TinyConfig", auto: f"modeling_tiny.{name}"},
        "vocab_size": len(VOCAB),
        "mask_token_id": VOCAB.index("[MASK]"),
        "pad_token_id": 0,
        "max_sequence_length": 32,
        **config,
    }
    (path / "config.json").write_text(json.dumps(said))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = {
            "embed": nn.Embedding(len(VOCAB), 16),
            "places": nn.Embedding(32, 16),
            "layer": nn.TransformerEncoderLayer(16, 2, 24, batch_first=True),
            "out": nn.Linear(16, len(VOCAB)),
        }
    weights = {f"{part}.{key}": value for part, m in parts.items() for key, value in m.state_dict().items()}
    save_file({key: value.contiguous() for key, value in weights.items()}, path / "model.safetensors", {"format": "pt"})
    tokenizer = tiny_tokenizer()
    if not mask_token:
        tokenizer.mask_token = None
    tokenizer.save_pretrained(path)
    return path

"""A start from which absolute positions find their neighbours.

BERT learns every position on its own, and where attention begins at random it has to discover that words depend on
those nearby before anything but word frequencies can be learned: millions of tokens while the loss stands still. Here
the positions begin as sinusoids (Vaswani et al. 2017), alike where they are near, and every key matrix as its query
matrix, so that alike means attended to (mimetic initialisation, Trockman & Kolter 2023). Both are then learned as ever.
"""

from __future__ import annotations

import math
from typing import Any

import torch

_SLOWEST = 100  # wavelengths from 2π to 2π·100 positions
_ABOVE_WORDS = 6.0  # the positions' root mean square, in that of the words: at first the place counts, not the word
_SHARPNESS = 5.0  # the logit of a position attending to itself


@torch.no_grad()
def attend_to_neighbours(model: Any) -> None:
    """Set the positions, and the queries and keys of every layer, of a new BERT."""
    positions = model.bert.embeddings.position_embeddings.weight
    length, width = positions.shape
    frequencies = torch.exp(-math.log(_SLOWEST) * torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] * frequencies
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]
    positions.copy_(_ABOVE_WORDS * model.config.initializer_range * math.sqrt(2) * waves)
    for layer in model.bert.encoder.layer:
        attention = layer.attention.self
        # x'W'Wx / √d is about √d σ² |x|² for a normalised x of |x|² = width, in heads of d
        spread = math.sqrt(_SHARPNESS / (math.sqrt(attention.attention_head_size) * width))
        attention.query.weight.normal_(0, spread)
        attention.key.weight.copy_(attention.query.weight)

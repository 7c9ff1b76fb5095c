"""Randomness that belongs to a text, not to its place in a file, a batch or a run."""

from __future__ import annotations

import hashlib

import torch


def generator_for(seed: int, *content: object) -> torch.Generator:
    """A generator seeded by ``seed`` and by what is scored; equal content gets equal randomness, anywhere."""
    digest = hashlib.blake2b(repr((seed, *content)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)

"""The processes of one run, as torchrun or accelerate starts them: each does its share of every step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class Processes:
    """This process's place among all."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes what all of them read."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self.world > 1:
            distributed.barrier()

    def total(self, values: Tensor, device: torch.device) -> Tensor:
        """The sum of the processes' ``values``, which are sent by way of ``device``."""
        if self.world > 1:
            values = values.to(device)
            distributed.all_reduce(values)
        return values.cpu()


@contextmanager
def processes() -> Iterator[Processes]:
    """The processes that the environment names, joined for the while."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Processes(int(os.environ.get("RANK", "0")), world)
    finally:
        if world > 1:
            distributed.destroy_process_group()

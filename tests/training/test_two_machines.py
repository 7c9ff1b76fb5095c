"""The two-node command of docs/scale.md, on two machines as far as the network can tell: two network namespaces.

Where none can be made, both nodes are on this machine: torchrun is tested nowhere else.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from anyorder.training.recipe import load_recipe
from anyorder.training.trainer import train
from small_runs import ONE_THREAD, weights

_ADDRESSES = ("10.201.77.1", "10.201.77.2")


@dataclass
class Machine:
    """How a command is started on it, its network's interface, and where the first of the two is found."""

    before: list[str]
    interface: str
    address: str = _ADDRESSES[0]
    port: int = 29500


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    """Two namespaces joined by a cable, neither of which sees the other's processes' sockets or this machine's."""
    if os.geteuid() or shutil.which("ip") is None:
        yield _both_here()
        return
    names = [f"ao{os.getpid()}{side}" for side in "ab"]
    links = [f"v{name}"[-15:] for name in names]
    made = []
    try:
        for name in names:
            made.append(name)
            _ip("netns", "add", name)
        _ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for name, link, address in zip(names, links, _ADDRESSES, strict=True):
            _ip("link", "set", link, "netns", name)
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            for device in (link, "lo"):
                _ip("-n", name, "link", "set", device, "up")
    except subprocess.CalledProcessError:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        yield _both_here()
        return
    yield [Machine(["ip", "netns", "exec", name], link) for name, link in zip(names, links, strict=True)]
    for name in names:
        _ip("netns", "del", name)


def _both_here() -> list[Machine]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return [Machine([], "lo", "127.0.0.1", free.getsockname()[1])] * 2


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def test_two_machines_take_the_step_of_one(
    machines: list[Machine], recipe_file: Any, corpus: Path, tmp_path: Path
) -> None:
    # With eps this large Adam's update is proportional to the gradient: weights after a step compare gradients.
    optim = {"steps": 1, "batch": 8, "micro_batch": 2, "eps": 1.0, "lr": 1.0, "warmup": 0, "clip": 0.0}
    path = recipe_file(model={"dropout": 0.0}, optim={**optim, "name": "adamw"})
    nodes = []
    for rank, machine in enumerate(machines):
        meet = f"--master-addr={machine.address} --master-port={machine.port}"
        torchrun = f"--nnodes=2 --nproc-per-node=1 --node-rank={rank} {meet}"
        run = f"train {path} --data-dir {corpus} --quiet --set output={tmp_path / 'two'}"
        command = [sys.executable, "-m", "torch.distributed.run", *torchrun.split(), "-m", "anyorder", *run.split()]
        env = {**ONE_THREAD, "GLOO_SOCKET_IFNAME": machine.interface}
        nodes.append(subprocess.Popen([*machine.before, *command], env=env, stderr=subprocess.PIPE))
    try:
        for node in nodes:
            _, said = node.communicate(timeout=600)
            assert node.returncode == 0, said.decode()[-3000:]
    finally:
        for node in nodes:
            node.kill()
    train(load_recipe(path, [f"output={tmp_path / 'one'}"]), data_dir=corpus, quiet=True)
    one, two = weights(tmp_path / "one" / "final"), weights(tmp_path / "two" / "final")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-6)

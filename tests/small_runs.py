"""What tests of the trainer share: looking at weights and gradients of a small run."""

import os
import socket

import torch
from safetensors.torch import load_file

from anyorder.training.trainer import _Run
from warm import ended, started

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(a, b):
    assert a.keys() == b.keys()
    return all(torch.equal(a[k], b[k]) for k in a)


def gradients(recipe, corpus):
    """Gradients of the first step, before any optimiser touches them."""
    run = _Run(recipe, corpus)
    run.model.double()  # so that only a wrong weight, not rounding, can tell the two apart
    found = {}

    class Catch:
        param_groups = ()

        def step(self):
            found.update({n: p.grad.clone() for n, p in run.model.named_parameters() if p.grad is not None})

        def zero_grad(self, set_to_none):
            pass

    run.optimizers = [Catch()]
    loss, tokens, _ = run._step(0)
    return loss, tokens, found


def in_two_processes(recipe, corpus, output):
    """``anyorder train`` as torchrun starts it for two processes; torchrun itself is in test_two_machines.py."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    said = [output.with_name(f"{output.name}-{rank}.txt") for rank in range(2)]
    command = ["train", recipe, "--data-dir", corpus, "--quiet", "--set", f"output={output}"]
    both = [started(*command, said=said[r], **address, RANK=str(r), LOCAL_RANK=str(r)) for r in range(2)]
    try:
        for process, file in zip(both, said, strict=True):
            assert ended(process) == 0, file.read_text()
    finally:
        for process in both:
            process.kill()

"""What tests of the trainer share: looking at weights and gradients of a small run."""

import os

import torch
from safetensors.torch import load_file

from anyorder.training.trainer import _Run

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(a, b):
    assert a.keys() == b.keys()
    return all(torch.equal(a[k], b[k]) for k in a)


def gradients(recipe, corpus):
    """Gradients of the first step, before any optimiser touches them."""
    run = _Run(recipe, False, corpus, rank=0, world=1, quiet=True)
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

"""A quick start: what is left out is left out, what is answered is the same, and what was left out can still be had."""

import json
import os
import subprocess
import sys

SCRIPT = """
import json, sys
import anyorder
from anyorder.models.lean import lean

with lean():
    lm = anyorder.load(sys.argv[1])
answers = [c.to_dict() for c in lm.fill("The ___ sat on the ___.")]
absent = ("torch._dynamo", "torch.distributed.tensor", "scipy.optimize", "accelerate", "sympy")
heavy = [name for name in absent if name in sys.modules]

import torch, transformers
from transformers import masking_utils
with masking_utils.TransformGetItemToIndex():
    pass
real = torch._dynamo.config is not None and transformers.utils.is_scipy_available()
found = transformers.utils.import_utils.define_import_structure(transformers.models.__file__)
named = {name for modules in found.values() for names in modules.values() for name in names}
unknown = named - set(dir(transformers.models))
print(json.dumps([answers, heavy, real, sorted(unknown)]))
"""


def test_nothing_heavy_is_imported_and_nothing_else_changes(tiny_checkpoint, tiny_lm):
    environment = {k: v for k, v in os.environ.items() if k != "WORLD_SIZE"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tiny_checkpoint)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    answers, heavy, real, unknown = json.loads(run.stdout.splitlines()[-1])
    assert heavy == []
    assert answers == [c.to_dict() for c in tiny_lm.fill("The ___ sat on the ___.")]
    assert real
    assert unknown == [], "found by looking through the files, and not in the names taken over"

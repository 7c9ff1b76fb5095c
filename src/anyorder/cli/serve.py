"""`anyorder serve`: the model behind HTTP, and a page to play with it."""

from __future__ import annotations

import os
from importlib.util import find_spec

from anyorder.cli.common import ModelOptions, command, load_model
from anyorder.errors import AnyorderError
from anyorder.memory import keep_steady
from anyorder.serve.options import ServeOptions


@command("anyorder serve --port 8765   then open http://127.0.0.1:8765")
def serve(options: ServeOptions, model: ModelOptions) -> None:
    """Serve one model over HTTP, with a page to play with it at /.

    Speaks the library's own options (/fill, /generate, /score, /joint, /translate), OpenAI's completions with
    suffix (/v1/completions), llama.cpp's /infill and Hugging Face's fill-mask; /docs lists them. See docs/serving.md.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise AnyorderError("serving needs the extra web: pip install 'anyorder[web]'")
    keep_steady()
    # Each thread that asks the model has helpers of its own, which sleep between operations when together they are more
    # than the cores: on two cores one thread answers as soon as two, with three quarters of the CPU (docs/serving.md).
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))
    lm = load_model(model, quick=True)
    from anyorder.serve.run import serve as run

    run(lm, options)

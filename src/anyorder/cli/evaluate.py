"""`anyorder evaluate ...`: one file per measurement, `cli/evaluate_*.py`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import typer

from anyorder.cli.common import app
from anyorder.errors import AnyorderError

evaluate_app = typer.Typer(
    name="evaluate",
    help="Measure a model: characters, learning curves, pairwise joints, perplexity, latency, generation, schedules, "
    "translation, understanding.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(evaluate_app)


def named_models(given: list[str]) -> dict[str, Path]:
    """``name=folder`` arguments; a bare folder is named after itself, and no argument is the bundled model."""
    if not given:
        from anyorder.models.load import BUNDLED, BUNDLED_NAME

        return {BUNDLED_NAME: BUNDLED}
    models = {}
    for value in given:
        name, equals, path = value.partition("=")
        models[name if equals else Path(value).name] = Path(path if equals else value)
    if len(models) < len(given):
        raise AnyorderError(
            "each model needs a name of its own: write --models bert=runs/bert/final gpt=runs/gpt/final"
        )
    return models


# Each adds itself to the group as it is imported.
for _name in (
    "characters", "curves", "generation", "latency", "pairwise", "perplexity", "schedule", "translation",
    "understanding",
):  # fmt: skip
    import_module(f"anyorder.cli.evaluate_{_name}")

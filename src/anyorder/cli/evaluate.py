"""`anyorder evaluate ...`: one file per measurement, `cli/evaluate_*.py`, each with its own `register`."""

from __future__ import annotations

from importlib import import_module

import typer

evaluate_app = typer.Typer(
    name="evaluate",
    help="Measure a model: characters, learning curves, pairwise joints, perplexity, latency, generation, schedules, "
    "translation, understanding.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def register(app: typer.Typer) -> None:
    """Add the group with its subcommands to the command line."""
    app.add_typer(evaluate_app)
    for name in (
        "characters", "curves", "generation", "latency", "pairwise", "perplexity", "schedule", "translation",
        "understanding",
    ):  # fmt: skip
        import_module(f"anyorder.cli.evaluate_{name}").register(evaluate_app)

"""`anyorder evaluate ...`: one file per measurement, `cli/evaluate_*.py`, each with its own `register`."""

from __future__ import annotations

import typer

from anyorder.cli import (
    evaluate_characters,
    evaluate_generation,
    evaluate_latency,
    evaluate_pairwise,
    evaluate_perplexity,
    evaluate_schedule,
    evaluate_translation,
    evaluate_understanding,
)

evaluate_app = typer.Typer(
    name="evaluate",
    help="Measure a model: characters, pairwise joints, perplexity, latency, generation, schedules, translation, "
    "understanding.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def register(app: typer.Typer) -> None:
    """Add the group to the command line; its subcommands are added below, one line each."""
    app.add_typer(evaluate_app)
    evaluate_characters.register(evaluate_app)
    evaluate_generation.register(evaluate_app)
    evaluate_latency.register(evaluate_app)
    evaluate_pairwise.register(evaluate_app)
    evaluate_perplexity.register(evaluate_app)
    evaluate_schedule.register(evaluate_app)
    evaluate_translation.register(evaluate_app)
    evaluate_understanding.register(evaluate_app)

"""`anyorder evaluate characters`: the any-order bound in nats per character, comparable across tokenizers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyorder.cli.common import JsonOption, ModelOptions, command, load_model, print_json, progress, show
from anyorder.cli.evaluate import evaluate_app
from anyorder.show.printable import table as new_table
from anyorder.studies.options.likelihood import CharactersOptions


@command("anyorder evaluate characters --data texts.txt --limit 200 --json", evaluate_app)
def characters(options: CharactersOptions, model: ModelOptions, json: JsonOption = False) -> None:
    """The any-order bound on held-out texts in nats per character, with 95 % intervals over texts."""
    from anyorder.studies.characters import paragraphs, per_character

    files = [(path, None) for path in options.data] + [(path, options.share) for path in options.held_out]
    sets = {str(path): paragraphs(path, part, options.limit) for path, part in files}
    lm = load_model(model)
    rows = []
    with progress(json) as bar:
        for name, texts in sets.items():
            task = bar.add_task(Path(name).name, total=len(texts))

            def report(done: int, task: Any = task) -> None:
                bar.update(task, completed=done)

            rows.append(per_character(lm, name, texts, options.samples, options.seed, report))
    if json:
        print_json({"rows": [row.to_dict() for row in rows], "settings": {"model": lm.name, **asdict(options)}})
        return
    shown = new_table(("texts of",), ("texts", "nats per character", "95 %", "per token"))
    for row in rows:
        interval = f"{row.low:.3f} to {row.high:.3f}"
        cells = (str(row.texts), f"{row.nats_per_character:.3f}", interval, f"{row.nats_per_token:.3f}")
        shown.add_row(Path(row.name).name, *cells)
    show(shown)

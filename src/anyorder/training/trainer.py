"""The training loop.

Everything random is a function of (seed, number of the text or step), never of a generator's history: which text comes
when, which of its tokens are masked, what dropout drops. So a run that was killed and resumed, or spread over several
processes, does the same arithmetic as one that was not.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers.utils.logging import disable_progress_bar

from anyorder.errors import AnyorderError
from anyorder.files.disk import atomically, only_writer
from anyorder.models.heads import head_of
from anyorder.models.layers import first_position
from anyorder.models.load import usable_device
from anyorder.models.ordered import TRAINED
from anyorder.models.pairs import typed_by
from anyorder.models.products import faster
from anyorder.stats import Estimate, mean_estimate, sums_estimate, weighted_estimate
from anyorder.training import checkpoint as checkpoints
from anyorder.training.batches import Batch, Batches
from anyorder.training.objective import FIELDS, TokenLosses, normaliser, row_means, weighted_sum
from anyorder.training.optim import build_optimizers, rate
from anyorder.training.packing import check_family
from anyorder.training.processes import Processes, processes
from anyorder.training.progress import Meter
from anyorder.training.recipe import Recipe
from anyorder.training.resuming import differences
from anyorder.training.start import Start

_DIVERGED = "lower optim.lr, or lengthen optim.warmup; earlier checkpoints are sound"


def train(recipe: Recipe, *, resume: bool = False, data_dir: Path | None = None, quiet: bool = False) -> Path:
    """Run ``recipe`` to its end and return the folder of the final model. Safe to kill; ``resume`` continues it."""
    # oneDNN keeps what it compiled for each shape of a matrix product, and every step has new shapes: with its usual
    # 1,024 entries a run of 14M parameters grew by 20 MB per step, to several gigabytes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    disable_progress_bar()  # transformers' own, one for every save and load
    # The run's folder is written by its first process, and by no other run.
    with processes() as joined, only_writer(Path(recipe.output)) if joined.first else nullcontext():
        return _Run(recipe, data_dir, resume, quiet, joined).loop()


class _Run:
    """The pieces of one run, put together from its recipe."""

    def __init__(
        self,
        recipe: Recipe,
        data_dir: Path | None,
        resume: bool = False,
        quiet: bool = True,
        processes: Processes = Processes(),
    ) -> None:
        self.recipe, self.processes = recipe, processes
        world = processes.world
        self.folder = Path(recipe.output)
        self.checkpoints = self.folder / "checkpoints"
        if recipe.run.threads:
            torch.set_num_threads(recipe.run.threads)
        self.share, left = divmod(recipe.optim.batch, world)
        self.micro = min(recipe.optim.micro_batch, self.share)
        if left or self.share % self.micro:
            raise AnyorderError(
                f"optim.batch {recipe.optim.batch} does not divide into micro-batches of "
                f"{recipe.optim.micro_batch} for {world} process{'es' * (world > 1)}: change one of the two"
            )
        self.objective = recipe.objective
        found = self._checkpoint(resume)
        self.first_step = found.step if found else 0
        start = Start(recipe, found, data_dir, processes, quiet)
        self.tokenizer, blocks, self.corpus = start.tokenizer, start.blocks, start.corpus.name
        if found and found.corpus not in (None, self.corpus):
            raise AnyorderError(
                f"cannot resume {self.folder}: the files of data.files are others than it was trained on; restore "
                f"them, or start a new run from its weights with --set init={found.path} --set output=…"
            )
        default = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
        self.device = usable_device(recipe.run.device or default)
        self.model = faster(start.model())
        self.batches = Batches(
            recipe, self.tokenizer, blocks, first_position(self.model), typed_by(self.model) is not None
        )
        self.length_head = start.length_head(self.model)
        if self.length_head is not None and head_of(self.model) is None:
            raise AnyorderError(
                f"objective.length does not know the states of {self.model.config.model_type}: set it to 0"
            )
        if recipe.data.pack:
            check_family(self.model)
        self.model.to(self.device)  # type: ignore[arg-type]  # transformers wraps `to` in a way mypy misreads
        self.trained: nn.Module = self.model
        if self.length_head is not None:
            self.trained = nn.ModuleDict({"model": self.model, "length_head": self.length_head.to(self.device)})
        self.optimizers = build_optimizers(self.trained, recipe.optim)
        if found:
            checkpoints.restore(found, self.optimizers)
        for group in self._groups():
            group.setdefault("initial_lr", group["lr"])
        self.losses: Any = self._losses_of_tokens(self.objective.label_smoothing)
        if recipe.run.compile:
            self.losses = torch.compile(self.losses)
        if world > 1:
            # A part of a batch may ask for no length: then that head has no gradient.
            self.losses = DistributedDataParallel(self.losses, find_unused_parameters=self.length_head is not None)
        self.meter = Meter(self.folder / "metrics.jsonl", recipe, self.first_step, processes.first, quiet)

    def _checkpoint(self, resume: bool) -> checkpoints.Checkpoint | None:
        found = checkpoints.latest(self.checkpoints) if self.processes.first or self.checkpoints.exists() else None
        if found and not resume:
            raise AnyorderError(
                f"{self.folder} already holds a run (step {found.step}): continue it with --resume, "
                f"or choose another place with --set output=…"
            )
        if found and (changed := differences(found.recipe, self.recipe, found.step)):
            raise AnyorderError(
                f"cannot resume {self.folder} with a different recipe ({'; '.join(changed)}): restore these settings, "
                f"or start a new run from its weights with --set init={found.path} --set output=…"
            )
        return found

    def _losses_of_tokens(self, label_smoothing: float = 0.0) -> TokenLosses:
        mask_id = cast(int, self.tokenizer.mask_token_id) if self.objective.ordered > 0 else None
        return TokenLosses(self.model, self.objective.name == "causal", mask_id, self.length_head, label_smoothing)

    def _groups(self) -> Iterator[dict[str, Any]]:
        return (group for optimizer in self.optimizers for group in optimizer.param_groups)

    @property
    def permuted(self) -> bool:
        """Whether every text is read along a random order (XLNet)."""
        return self.objective.name == "permutation"

    def loop(self) -> Path:
        """From the first step, or the last checkpoint, to the final model."""
        recipe, run = self.recipe, self.recipe.run
        with self.meter:
            for step in range(self.first_step, recipe.optim.steps):
                loss, tokens, readings = self._step(step)
                if not math.isfinite(loss):
                    raise AnyorderError(f"the loss is {loss} at step {step + 1}: {_DIVERGED}")
                self.meter.step(step + 1, loss, tokens, rate(recipe.optim, step), readings)
                last = step + 1 == recipe.optim.steps
                if len(self.batches.valid) and ((step + 1) % run.evaluate_every == 0 or last):
                    in_order = self.evaluate(in_order=True) if self.objective.ordered_at(step) else None
                    self.meter.validation(step + 1, self.evaluate(self.permuted), in_order)
                if (step + 1) % run.checkpoint_every == 0 or last:
                    self._save(step + 1)
        final = self.folder / "final"
        if self.processes.first:
            atomically(final, self._export)
        self.processes.wait()
        return final

    def _step(self, step: int) -> tuple[float, int, dict[str, Estimate]]:
        """One optimiser step, over all processes.

        Returns:
            The objective's value, the tokens read, and the mean loss of the texts of each reading if there are two.
        """
        rank, world = self.processes.rank, self.processes.world
        torch.manual_seed(self.recipe.seed * 1_000_003 + step * world + rank)  # dropout
        factor = rate(self.recipe.optim, step)
        for group in self._groups():
            group["lr"] = group["initial_lr"] * factor
        first = step * self.recipe.optim.batch + rank * self.share
        ordered = self.objective.ordered_at(step)
        parts = range(first, first + self.share, self.micro)
        batches = [self.batches.training(range(i, i + self.micro), 1.0 if self.permuted else ordered) for i in parts]
        # Z, weighted losses, tokens, and three sums for either reading and for lengths
        totals = torch.zeros(12, dtype=torch.float64)
        for batch in batches:
            totals[0] += normaliser(batch["predicted"], batch["maskable"], self.objective.normalise)
            totals[2] += (batch["tokens"] != self.batches.pad).sum()
        z = self.processes.total(totals[:1].clone(), self.device)[0].clamp(min=1.0)
        for i, batch in enumerate(batches):
            part = i + 1 < len(batches) and world > 1
            with self.losses.no_sync() if part else nullcontext():
                loss, sums = self._loss(batch)
                totals[1] += loss.detach().double().cpu()
                totals[3:] += sums
                # data-parallel averages gradients over processes, but ours are parts of one sum
                (loss * (world / z.item())).backward()
        if self.recipe.optim.clip:
            nn.utils.clip_grad_norm_(self.trained.parameters(), self.recipe.optim.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        totals = self.processes.total(totals, self.device)
        readings = {"full": totals[3:6].tolist(), "ordered": totals[6:9].tolist()} if ordered else {}
        readings["length"] = totals[9:].tolist()
        found = {name: sums_estimate(*sums) for name, sums in readings.items() if sums[0] > 1}
        return float(totals[1] / z), int(totals[2]), found

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The weighted sum of losses; number, sum and squares of texts' means, in full and in order, and of lengths."""
        predicted = batch["predicted"].to(self.device)
        count = int(batch["predicted"].sum())
        losses, lengths = self._token_losses(self.losses, batch).tensor_split([count])
        # A question for a length is one more text.
        loss = weighted_sum(losses, predicted, batch["weight"].to(self.device)) + lengths.sum()
        if "in_order" not in batch and not len(lengths):
            return loss, torch.zeros(9, dtype=torch.float64)
        each = row_means(losses.detach().cpu(), batch["predicted"]).double()
        in_order = batch.get("in_order", torch.zeros(len(predicted), dtype=torch.bool))[batch["predicted"].any(1)]
        readings = (each[~in_order], each[in_order], lengths.detach().cpu().double())
        return loss, torch.stack([(part**power).sum() for part in readings for power in range(3)])

    def _token_losses(self, module: Any, batch: Batch) -> Tensor:
        fields = {name: batch[name].to(self.device) for name in FIELDS if name in batch}
        bf16 = self.recipe.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
            return module(**fields)

    @torch.no_grad()
    def evaluate(self, in_order: bool = False) -> tuple[Estimate, dict[str, Estimate]]:
        """Mean any-order loss (eq 6, uniform count) on held-out texts with fixed masks: over all, and of each file.

        With ``data.weights`` the mean over all gives each file its weight; without, there are no figures by file.
        ``in_order``: the mean over all tokens of a text along one random order with nothing given, read in order. It is
        the same quantity (eq 8) of that reading's law, so that the two can be compared.
        """
        self.model.eval()
        module = self._losses_of_tokens()
        found: dict[str, Estimate] = {}
        for file, chosen in self.batches.validation_blocks().items():
            batches = self.batches.validation(chosen, self.micro, in_order)
            means = [row_means(self._token_losses(module, part).cpu(), part["predicted"]) for part in batches]
            found[file] = mean_estimate(torch.cat(means))
        self.model.train()
        weights = self.recipe.data.weights
        if not weights:
            return found["all"], {}
        share = {file: weights[self.recipe.data.files.index(file)] for file in found}
        return weighted_estimate([(share[file], found[file]) for file in found]), found

    def _save(self, step: int) -> None:
        if not all(bool(torch.isfinite(p).all()) for p in self.trained.parameters()):
            raise AnyorderError(f"the weights hold NaN or infinity at step {step}: {_DIVERGED}")
        # Whoever loads the model must know whether reading it in order means anything.
        ordered = self.objective.ordered_at(step - 1) > 0
        if ordered or hasattr(self.model.config, TRAINED):
            setattr(self.model.config, TRAINED, ordered)
        if self.processes.first:
            made = (self.model, self.tokenizer, self.length_head)
            checkpoints.save(self.checkpoints, step, *made, self.optimizers, self.recipe, self.corpus)
        self.processes.wait()

    def _export(self, folder: Path) -> None:
        checkpoints.save_model(folder, self.model, self.tokenizer, self.length_head)
        (folder / "recipe.json").write_text(json.dumps(self.recipe.to_dict(), indent=2))

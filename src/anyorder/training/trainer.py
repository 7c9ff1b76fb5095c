"""The training loop.

Everything random is a function of (seed, number of the text or step), never of a generator's history: which text comes
when, which of its tokens are masked, what dropout drops. So a run that was killed and resumed, or spread over several
processes, does the same arithmetic as one that was not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from anyorder.errors import AnyorderError
from anyorder.masking import Masker, UniformCount, collate, parse_prior
from anyorder.models.build import build
from anyorder.models.load import read_checkpoint
from anyorder.stats import Estimate
from anyorder.training import checkpoint as checkpoints
from anyorder.training import data
from anyorder.training.objective import TokenLosses, normaliser, row_means, weighted_sum
from anyorder.training.optim import build_optimizers, rate
from anyorder.training.progress import Meter
from anyorder.training.recipe import Recipe, differences
from anyorder.training.tokenizer import load_tokenizer, train_tokenizer


def train(recipe: Recipe, *, resume: bool = False, data_dir: Path | None = None, quiet: bool = False) -> Path:
    """Run ``recipe`` to its end and return the folder of the final model. Safe to kill; ``resume`` continues it."""
    disable_progress_bar()  # transformers' own, one for every save and load
    with _processes() as (rank, world):
        return _Run(recipe, resume, data_dir, rank, world, quiet).loop()


class _processes:
    """This process's place among those torchrun or accelerate started: (rank, how many)."""

    def __enter__(self) -> tuple[int, int]:
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        if self.world > 1:
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return int(os.environ.get("RANK", "0")), self.world

    def __exit__(self, *_: object) -> None:
        if self.world > 1:
            distributed.destroy_process_group()


class _Run:
    """The pieces of one run, put together from its recipe."""

    def __init__(self, recipe: Recipe, resume: bool, data_dir: Path | None, rank: int, world: int, quiet: bool) -> None:
        self.recipe, self.rank, self.world = recipe, rank, world
        self.folder = Path(recipe.output)
        self.checkpoints = self.folder / "checkpoints"
        if recipe.run.threads:
            torch.set_num_threads(recipe.run.threads)
        share, left = divmod(recipe.optim.batch, world)
        if left or share % min(recipe.optim.micro_batch, share):
            raise AnyorderError(
                f"optim.batch {recipe.optim.batch} does not divide into {world} process(es) of micro-batches of "
                f"{recipe.optim.micro_batch}: change optim.batch or optim.micro_batch"
            )
        self.share, self.micro = share, min(recipe.optim.micro_batch, share)
        self.start = self._starting_point(resume)
        self.causal = recipe.objective.name == "causal"
        given = str(self.start.path) if self.start else recipe.init
        # the loader refuses what is damaged, incomplete or no masked LM
        self.given = read_checkpoint(given) if given and not self.causal else None
        self.tokenizer = self._tokenizer(data_dir)
        self.train_blocks, self.valid_blocks = self._blocks(data_dir)
        self.device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(recipe.seed)  # initial weights
        self.model = self._model()
        self.model.to(self.device)  # type: ignore[arg-type]  # transformers wraps `to` in a way mypy misreads
        self.optimizers = build_optimizers(self.model, recipe.optim)
        if self.start:
            checkpoints.restore(self.start, self.optimizers)
        for group in self._groups():
            group.setdefault("initial_lr", group["lr"])
        self.losses: Any = TokenLosses(self.model, self.causal)
        if recipe.run.compile:
            self.losses = torch.compile(self.losses)
        if world > 1:
            self.losses = DistributedDataParallel(self.losses)
        pad = cast(int, self.tokenizer.pad_token_id)
        special = set(self.tokenizer.all_special_ids) - ({pad} if recipe.data.pad_to_length else set())
        self.special = torch.tensor(sorted(special))
        self.masker = Masker(
            parse_prior(recipe.objective.prior),
            mask_id=cast(int, self.tokenizer.mask_token_id),
            vocab_size=len(self.tokenizer),
            special_ids=frozenset(special),
            corruption=recipe.objective.corruption,
            stratified=recipe.objective.stratified,
            seed=recipe.seed,
        )
        self.meter = Meter(self.folder / "metrics.jsonl", recipe, self.start.step if self.start else 0, rank, quiet)

    # -- setting up ---------------------------------------------------------------------------------------------------

    def _starting_point(self, resume: bool) -> checkpoints.Checkpoint | None:
        found = checkpoints.latest(self.checkpoints) if self.rank == 0 or self.checkpoints.exists() else None
        if found and not resume:
            raise AnyorderError(
                f"{self.folder} already holds a run (step {found.step}): continue it with --resume, "
                f"or choose another place with --set output=…"
            )
        if found and (changed := differences(found.recipe, self.recipe)):
            raise AnyorderError(
                f"cannot resume {self.folder} with a different recipe ({'; '.join(changed)}): restore these settings, "
                f"or start a new run from its weights with --set init={found.path} --set output=…"
            )
        return found

    def _files(self, data_dir: Path | None) -> list[Path]:
        if not self.recipe.data.files:
            raise AnyorderError("the recipe names no data: list text files under data.files")
        return [(data_dir / f) if data_dir else Path(f) for f in self.recipe.data.files]

    def _tokenizer(self, data_dir: Path | None) -> PreTrainedTokenizerBase:
        if self.given and not self.recipe.tokenizer.path:
            return self.given.tokenizer
        given = self.start.path if self.start else self.recipe.tokenizer.path or self.recipe.init
        if given:
            return load_tokenizer(given)
        folder = self.folder / "tokenizer"
        if self.rank == 0 and not folder.exists():
            recipe = self.recipe.data
            parts = (data.split(f, recipe.unit, recipe.holdout, recipe.column)[0] for f in self._files(data_dir))
            texts = (paragraph for part in parts for document in part for paragraph in document)
            learned = train_tokenizer(texts, self.recipe.tokenizer.vocab_size, recipe.length)
            checkpoints.atomically(folder, learned.save_pretrained)
        self._wait()
        return load_tokenizer(folder)

    def _blocks(self, data_dir: Path | None) -> tuple[data.Blocks, data.Blocks]:
        recipe = self.recipe.data
        keys: dict[str, Any] = {k: getattr(recipe, k) for k in ("length", "unit", "column", "holdout", "min_tokens")}
        if self.rank == 0:
            data.cache(self._files(data_dir), self.tokenizer, root=self.folder / "cache", **keys)
        self._wait()
        folder = data.cache(self._files(data_dir), self.tokenizer, root=self.folder / "cache", **keys)
        return data.Blocks.load(folder, "train"), data.Blocks.load(folder, "valid")

    def _model(self) -> PreTrainedModel:
        if self.given:
            if self.recipe.data.length > self.given.max_length:
                raise AnyorderError(
                    f"data.length {self.recipe.data.length} is more than {self.given.name} can read "
                    f"({self.given.max_length} tokens): lower data.length"
                )
            return self.given.model.train()
        given = self.start.path if self.start else self.recipe.init
        if given:
            return AutoModelForCausalLM.from_pretrained(given, dtype=torch.float32).train()
        shape = self.recipe.model
        return build(
            shape.kind,
            vocab_size=len(self.tokenizer),
            hidden_size=shape.hidden_size,
            layers=shape.layers,
            heads=shape.heads,
            intermediate=shape.intermediate,
            dropout=shape.dropout,
            max_length=self.recipe.data.length,
            pad_id=cast(int, self.tokenizer.pad_token_id),
            cls_id=cast(int, self.tokenizer.cls_token_id),
            sep_id=cast(int, self.tokenizer.sep_token_id),
        ).train()

    def _wait(self) -> None:
        if self.world > 1:
            distributed.barrier()

    def _groups(self) -> Iterator[dict[str, Any]]:
        return (group for optimizer in self.optimizers for group in optimizer.param_groups)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def loop(self) -> Path:
        """From the first step, or the last checkpoint, to the final model."""
        recipe, run = self.recipe, self.recipe.run
        first = self.start.step if self.start else 0
        with self.meter:
            for step in range(first, recipe.optim.steps):
                loss, tokens = self._step(step)
                self.meter.step(step + 1, loss, tokens, rate(recipe.optim, step))
                last = step + 1 == recipe.optim.steps
                if len(self.valid_blocks) and ((step + 1) % run.evaluate_every == 0 or last):
                    self.meter.validation(step + 1, self.evaluate())
                if (step + 1) % run.checkpoint_every == 0 or last:
                    self._save(step + 1)
        final = self.folder / "final"
        if self.rank == 0:
            checkpoints.atomically(final, self._export)
        self._wait()
        return final

    def _step(self, step: int) -> tuple[float, int]:
        """One optimiser step; the objective's value and the number of tokens read, over all processes."""
        torch.manual_seed(self.recipe.seed * 1_000_003 + step * self.world + self.rank)  # dropout
        factor = rate(self.recipe.optim, step)
        for group in self._groups():
            group["lr"] = group["initial_lr"] * factor
        first = step * self.recipe.optim.batch + self.rank * self.share
        batches = [self._batch(range(i, i + self.micro)) for i in range(first, first + self.share, self.micro)]
        totals = torch.zeros(3, dtype=torch.float64)  # Z, weighted losses, tokens
        for batch in batches:
            totals[0] += normaliser(batch["masked"], batch["maskable"], self.recipe.objective.normalise)
            totals[2] += batch["attention_mask"].sum()
        z = self._sum(totals[:1].clone())[0].clamp(min=1.0)
        for i, batch in enumerate(batches):
            part = i + 1 < len(batches) and self.world > 1
            with self.losses.no_sync() if part else nullcontext():
                loss = self._loss(batch)
                totals[1] += loss.detach().double().cpu()
                # data-parallel averages gradients over processes, but ours are parts of one sum
                (loss * (self.world / z.item())).backward()
        if self.recipe.optim.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.optim.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        totals = self._sum(totals)
        return float(totals[1] / z), int(totals[2])

    def _loss(self, batch: dict[str, Tensor]) -> Tensor:
        losses = self._token_losses(self.losses, batch)
        masked, maskable = batch["masked"].to(self.device), batch["maskable"].to(self.device)
        return weighted_sum(losses, masked, maskable, self.recipe.objective.normalise)

    def _token_losses(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        fields = ("input_ids", "tokens", "masked", "attention_mask")
        bf16 = self.recipe.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
            return module(*(batch[name].to(self.device) for name in fields))

    def _sum(self, values: Tensor) -> Tensor:
        if self.world > 1:
            values = values.to(self.device)
            distributed.all_reduce(values)
        return values.cpu()

    def _batch(self, indices: range) -> dict[str, Tensor]:
        """Texts number ``indices`` of the endless stream: shuffled anew each epoch, masked by their number."""
        n = len(self.train_blocks)
        texts = [self.train_blocks[_shuffled(self.recipe.seed, i // n, n)[i % n]] for i in indices]
        return self._prepare(texts, list(indices), self.masker)

    def _prepare(self, texts: list[np.ndarray], indices: list[int], masker: Masker) -> dict[str, Tensor]:
        pad = cast(int, self.tokenizer.pad_token_id)
        if self.recipe.data.pad_to_length:
            texts = [np.pad(t, (0, self.recipe.data.length - len(t)), constant_values=pad) for t in texts]
        batch = collate(texts, indices, masker, pad)
        tokens = batch["tokens"]
        batch["maskable"] = ~torch.isin(tokens, self.special)
        batch["attention_mask"] = torch.ones_like(tokens) if self.recipe.data.pad_to_length else (tokens != pad).long()
        if self.causal:
            batch["input_ids"] = tokens
            batch["masked"] = batch["maskable"].clone()
            batch["masked"][:, 0] = False  # nothing stands before it
        return batch

    @torch.no_grad()
    def evaluate(self) -> Estimate:
        """Mean any-order loss (eq 6, uniform count) on held-out blocks with fixed masks, and its standard error."""
        masker = Masker(UniformCount(), self.masker.mask_id, self.masker.vocab_size, self.masker.special_ids, seed=1)
        n = min(len(self.valid_blocks), self.recipe.run.evaluate_blocks)
        chosen = np.linspace(0, len(self.valid_blocks) - 1, n).astype(int)
        self.model.eval()
        module = TokenLosses(self.model, self.causal)
        means = []
        for i in range(0, n, self.micro):
            part = chosen[i : i + self.micro]
            batch = self._prepare([self.valid_blocks[j] for j in part], list(part), masker)
            means.append(row_means(self._token_losses(module, batch).cpu(), batch["masked"]))
        self.model.train()
        each = torch.cat(means).double()
        return Estimate(float(each.mean()), float(each.std() / len(each) ** 0.5), len(each))

    def _save(self, step: int) -> None:
        if self.rank == 0:
            checkpoints.save(
                self.checkpoints, step, self.model, self.tokenizer, self.optimizers, self.recipe, self.recipe.run.keep
            )
        self._wait()

    def _export(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        (folder / "recipe.json").write_text(json.dumps(self.recipe.to_dict(), indent=2))


@lru_cache(maxsize=2)
def _shuffled(seed: int, epoch: int, n: int) -> np.ndarray:
    return np.random.default_rng((seed, epoch)).permutation(n)

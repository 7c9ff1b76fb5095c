"""The training loop.

Everything random is a function of (seed, number of the text or step), never of a generator's history: which text comes
when, which of its tokens are masked, what dropout drops. So a run that was killed and resumed, or spread over several
processes, does the same arithmetic as one that was not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from anyorder.errors import AnyorderError
from anyorder.files.disk import atomically
from anyorder.masking import FixedCount, Masker, UniformCount, collate, parse_prior
from anyorder.models.build import build
from anyorder.models.layers import first_position
from anyorder.models.load import Encoder, load_encoder, max_length, read_checkpoint
from anyorder.models.ordered import TRAINED
from anyorder.models.transplant import Carried, start_bias, transplant
from anyorder.stats import Estimate, sums_estimate, weighted_estimate
from anyorder.training import checkpoint as checkpoints
from anyorder.training import data
from anyorder.training.mixture import Mixture
from anyorder.training.objective import FIELDS, TokenLosses, mean_loss, normaliser, row_means, weighted_sum
from anyorder.training.optim import build_optimizers, rate
from anyorder.training.packing import check_family, pack_batch, texts_of
from anyorder.training.progress import Meter
from anyorder.training.recipe import Recipe
from anyorder.training.resuming import differences
from anyorder.training.tokenizer import load_tokenizer, train_tokenizer

_CACHED = ("length", "unit", "column", "holdout", "min_tokens", "pack")  # settings that decide the blocks
LEARN = "learn"  # instead of a tokenizer's path


def train(recipe: Recipe, *, resume: bool = False, data_dir: Path | None = None, quiet: bool = False) -> Path:
    """Run ``recipe`` to its end and return the folder of the final model. Safe to kill; ``resume`` continues it."""
    # oneDNN keeps what it compiled for each shape of a matrix product, and every step has new shapes: with its usual
    # 1,024 entries a run of 14M parameters grew by 20 MB per step, to several gigabytes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
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
        self.recipe, self.rank, self.world, self.quiet = recipe, rank, world, quiet
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
        # the loader refuses what is damaged, incomplete or no encoder
        self.given = load_encoder(recipe.init) if recipe.init and not self.start and not self.causal else None
        self.tokenizer = self._tokenizer(data_dir)
        self.train_blocks, self.valid_blocks = self._blocks(data_dir)
        self.mixture = Mixture(self.train_blocks.sizes, recipe.data.weights, recipe.seed)
        self.device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(recipe.seed)  # initial weights
        self.model = self._model().train()
        self._set_dropout()
        if recipe.data.pack:
            if self.causal or recipe.data.pad_to_length:
                raise AnyorderError("data.pack is for masked LMs that read no padding: set data.pack to false")
            check_family(self.model)
        self.first_position = first_position(self.model)
        self.opening = data.opening_id(self.tokenizer)
        self.model.to(self.device)
        self.optimizers = build_optimizers(self.model, recipe.optim)
        if self.start:
            checkpoints.restore(self.start, self.optimizers)
        for group in self._groups():
            group.setdefault("initial_lr", group["lr"])
        self.losses: Any = self._losses_of_tokens()
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
        self.orderer = replace(self.masker, prior=UniformCount())
        self.meter = Meter(self.folder / "metrics.jsonl", recipe, self.start.step if self.start else 0, rank, quiet)

    # -- setting up ---------------------------------------------------------------------------------------------------

    def _starting_point(self, resume: bool) -> checkpoints.Checkpoint | None:
        found = checkpoints.latest(self.checkpoints) if self.rank == 0 or self.checkpoints.exists() else None
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

    def _files(self, data_dir: Path | None) -> list[Path]:
        if not self.recipe.data.files:
            raise AnyorderError("the recipe names no data: list text files under data.files")
        return [(data_dir / f) if data_dir else Path(f) for f in self.recipe.data.files]

    def _tokenizer(self, data_dir: Path | None) -> PreTrainedTokenizerBase:
        path = self.recipe.tokenizer.path
        if self.given and path is None:
            return self.given.tokenizer
        given = self.start.path if self.start else path or self.recipe.init
        if given and (self.start or given != LEARN):
            return load_tokenizer(given)
        folder = self.folder / "tokenizer"
        if self.rank == 0 and not folder.exists():
            recipe, files = self.recipe.data, self._files(data_dir)
            units, shares = (data.per_file(f"data.{k}", getattr(recipe, k), len(files)) for k in ("unit", "holdout"))
            parts = [data.split(f, u, h, recipe.column)[0] for f, u, h in zip(files, units, shares, strict=True)]
            texts = [[paragraph for document in part for paragraph in document] for part in parts]
            learned = train_tokenizer(
                data.in_shares(texts, recipe.weights), self.recipe.tokenizer.vocab_size, recipe.length
            )
            atomically(folder, learned.save_pretrained)
        self._wait()
        return load_tokenizer(folder)

    def _blocks(self, data_dir: Path | None) -> tuple[data.Blocks, data.Blocks]:
        recipe = self.recipe.data
        keys: dict[str, Any] = {k: getattr(recipe, k) for k in _CACHED}
        if self.rank == 0:
            data.cache(self._files(data_dir), self.tokenizer, root=self.folder / "cache", **keys)
        self._wait()
        folder = data.cache(self._files(data_dir), self.tokenizer, root=self.folder / "cache", **keys)
        return data.Blocks.load(folder, "train"), data.Blocks.load(folder, "valid")

    def _model(self) -> PreTrainedModel:
        if self.causal and (given := self.start.path if self.start else self.recipe.init):
            return AutoModelForCausalLM.from_pretrained(given, dtype=torch.float32)
        if self.start:
            # the loader refuses what is damaged, incomplete or no masked LM
            return read_checkpoint(str(self.start.path)).model
        if self.given:
            return self._from_encoder(self.given)
        shape = self.recipe.model
        return build(
            shape.kind,
            vocab_size=len(self.tokenizer),
            hidden_size=shape.hidden_size,
            layers=shape.layers,
            heads=shape.heads,
            intermediate=shape.intermediate,
            dropout=shape.dropout or 0.0,
            max_length=self.recipe.data.length,
            pad_id=cast(int, self.tokenizer.pad_token_id),
            cls_id=cast(int, self.tokenizer.cls_token_id),
            sep_id=cast(int, self.tokenizer.sep_token_id),
        )

    def _from_encoder(self, given: Encoder) -> PreTrainedModel:
        """The model that ``init`` names, with the run's tokenizer; what it has no weights for starts anew."""
        model, new = given.model, given.missing
        if self.tokenizer.get_vocab() != given.tokenizer.get_vocab():
            model, carried = transplant(model, given.tokenizer, self.tokenizer, new)
            self._tell(carried)
        if new or model is not given.model:
            start_bias(model, self.train_blocks.frequencies(self.recipe.data.weights, model.config.vocab_size))
        longest = max_length(model, self.tokenizer)
        if self.recipe.data.length > longest:
            raise AnyorderError(
                f"data.length {self.recipe.data.length} is more than {self.recipe.init} can read "
                f"({longest} tokens): lower data.length"
            )
        return model

    def _tell(self, carried: Carried) -> None:
        """Say what was carried over, and keep it beside the run."""
        if self.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "carried.json").write_text(json.dumps(carried.to_dict(), indent=2))
            if not self.quiet:
                print(carried, file=sys.stderr)

    def _set_dropout(self) -> None:
        """Dropout as the recipe has it, also in a model that came with its own."""
        if self.recipe.model.dropout is not None:
            for module in self.model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = self.recipe.model.dropout
                elif isinstance(getattr(module, "attention_dropout", None), float):
                    module.attention_dropout = self.recipe.model.dropout

    def _losses_of_tokens(self) -> TokenLosses:
        in_order = self.recipe.objective.ordered > 0
        return TokenLosses(self.model, self.causal, cast(int, self.tokenizer.mask_token_id) if in_order else None)

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
                loss, tokens, readings = self._step(step)
                self.meter.step(step + 1, loss, tokens, rate(recipe.optim, step), readings)
                last = step + 1 == recipe.optim.steps
                if len(self.valid_blocks) and ((step + 1) % run.evaluate_every == 0 or last):
                    in_order = self.evaluate(in_order=True) if recipe.objective.ordered_at(step) else None
                    self.meter.validation(step + 1, self.evaluate(), in_order)
                if (step + 1) % run.checkpoint_every == 0 or last:
                    self._save(step + 1)
        final = self.folder / "final"
        if self.rank == 0:
            atomically(final, self._export)
        self._wait()
        return final

    def _step(self, step: int) -> tuple[float, int, dict[str, Estimate]]:
        """One optimiser step, over all processes.

        Returns:
            The objective's value, the tokens read, and the mean loss of the texts of each reading if there are two.
        """
        torch.manual_seed(self.recipe.seed * 1_000_003 + step * self.world + self.rank)  # dropout
        factor = rate(self.recipe.optim, step)
        for group in self._groups():
            group["lr"] = group["initial_lr"] * factor
        first = step * self.recipe.optim.batch + self.rank * self.share
        ordered = self.recipe.objective.ordered_at(step)
        parts = range(first, first + self.share, self.micro)
        batches = [self._batch(range(i, i + self.micro), ordered) for i in parts]
        totals = torch.zeros(9, dtype=torch.float64)  # Z, weighted losses, tokens, and three sums for either reading
        for batch in batches:
            totals[0] += normaliser(batch["predicted"], batch["maskable"], self.recipe.objective.normalise)
            totals[2] += (batch["tokens"] != self.tokenizer.pad_token_id).sum()
        z = self._sum(totals[:1].clone())[0].clamp(min=1.0)
        for i, batch in enumerate(batches):
            part = i + 1 < len(batches) and self.world > 1
            with self.losses.no_sync() if part else nullcontext():
                loss, sums = self._loss(batch)
                totals[1] += loss.detach().double().cpu()
                totals[3:] += sums
                # data-parallel averages gradients over processes, but ours are parts of one sum
                (loss * (self.world / z.item())).backward()
        if self.recipe.optim.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.optim.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        totals = self._sum(totals)
        readings = {"full": totals[3:6].tolist(), "ordered": totals[6:].tolist()} if ordered else {}
        found = {name: sums_estimate(*sums) for name, sums in readings.items() if sums[0] > 1}
        return float(totals[1] / z), int(totals[2]), found

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The weighted sum of losses; and number, sum and squares of the texts' means, in full and in order."""
        losses = self._token_losses(self.losses, batch)
        predicted, maskable = batch["predicted"].to(self.device), batch["maskable"].to(self.device)
        loss = weighted_sum(losses, predicted, maskable, self.recipe.objective.normalise)
        if "in_order" not in batch:
            return loss, torch.zeros(6, dtype=torch.float64)
        each = row_means(losses.detach().cpu(), batch["predicted"]).double()
        in_order = batch["in_order"][batch["predicted"].any(1)]
        sums = [(part**power).sum() for part in (each[~in_order], each[in_order]) for power in range(3)]
        return loss, torch.stack(sums)

    def _token_losses(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        fields = {name: batch[name].to(self.device) for name in FIELDS if name in batch}
        bf16 = self.recipe.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
            return module(**fields)

    def _sum(self, values: Tensor) -> Tensor:
        if self.world > 1:
            values = values.to(self.device)
            distributed.all_reduce(values)
        return values.cpu()

    def _batch(self, indices: range, ordered: float) -> dict[str, Tensor]:
        """Blocks number ``indices`` of the endless stream, masked by their number.

        Of any run of blocks the share ``ordered`` is read in order, as nearly as whole numbers allow.
        """
        in_order = {row for row, i in enumerate(indices) if int((i + 1) * ordered) > int(i * ordered)}
        blocks = [self.train_blocks[self.mixture[i]] for i in indices]
        return self._prepare(blocks, list(indices), self.masker, self.orderer, in_order)

    def _prepare(
        self, blocks: list[np.ndarray], indices: list[int], masker: Masker, orderer: Masker, in_order: set[int]
    ) -> dict[str, Tensor]:
        """Model inputs [B, N], and beside them ``predicted`` and ``maskable`` [T, longest], a row for each text.

        Blocks ``in_order`` are not masked by ``masker`` but read in the order of ``orderer``.
        """
        pad = cast(int, self.tokenizer.pad_token_id)
        if self.recipe.data.pack:
            return self._prepare_packed(blocks, indices, masker, orderer, in_order, pad)
        if self.recipe.data.pad_to_length:
            blocks = [np.pad(t, (0, self.recipe.data.length - len(t)), constant_values=pad) for t in blocks]
        orders = {row: orderer.order(indices[row], blocks[row]) for row in in_order}
        batch = collate(blocks, indices, masker, pad, orders=orders)
        tokens = batch["tokens"]
        batch["maskable"] = ~torch.isin(tokens, self.special)
        batch["attention_mask"] = torch.ones_like(tokens) if self.recipe.data.pad_to_length else (tokens != pad).long()
        if self.causal:
            batch["input_ids"] = tokens
            batch["masked"] = batch["maskable"].clone()
            batch["masked"][:, 0] = False  # nothing stands before it
        return {**batch, "predicted": batch["masked"], **_in_order(batch)}

    def _prepare_packed(
        self,
        blocks: list[np.ndarray],
        indices: list[int],
        masker: Masker,
        orderer: Masker,
        in_order: set[int],
        pad: int,
    ) -> dict[str, Tensor]:
        parts = [texts_of(block, cast(int, self.opening)) for block in blocks]
        texts = [text for part in parts for text in part]
        rows = [row for row, part in enumerate(parts) for _ in part]
        numbers = [number for part in parts for number in range(len(part))]
        indices = [indices[row] for row in rows]
        orders = {t: orderer.order(indices[t], texts[t], numbers[t]) for t, row in enumerate(rows) if row in in_order}
        batch = collate(texts, indices, masker, pad, numbers, orders)
        out = pack_batch(batch, [len(text) for text in texts], rows, pad, self.first_position)
        # texts of a row follow each other, so the predicted tokens come in the same order in both forms
        maskable = ~torch.isin(batch["tokens"], self.special)
        return {**out, "predicted": batch["masked"], "maskable": maskable, **_in_order(batch)}

    @torch.no_grad()
    def evaluate(self, in_order: bool = False) -> tuple[Estimate, dict[str, Estimate]]:
        """Mean any-order loss (eq 6, uniform count) on held-out texts with fixed masks: over all, and of each file.

        With ``data.weights`` the mean over all gives each file its weight; without, there are no figures by file.
        ``in_order``: the mean over all tokens of a text along one random order with nothing given, read in order. It is
        the same quantity (eq 8) of that reading's law, so that the two can be compared.
        """
        masker = Masker(UniformCount(), self.masker.mask_id, self.masker.vocab_size, self.masker.special_ids, seed=1)
        orderer = replace(masker, prior=FixedCount(self.recipe.data.length))
        self.model.eval()
        module = self._losses_of_tokens()
        found: dict[str, Estimate] = {}
        for file, chosen in self._validation_blocks().items():
            batches = self._validation(chosen, masker, orderer, in_order)
            found[file] = mean_loss(batches, partial(self._token_losses, module))
        self.model.train()
        weights = self.recipe.data.weights
        if not weights:
            return found["all"], {}
        share = {file: weights[self.recipe.data.files.index(file)] for file in found}
        return weighted_estimate([(share[file], found[file]) for file in found]), found

    def _validation(
        self, chosen: list[int], masker: Masker, orderer: Masker, in_order: bool
    ) -> Iterator[dict[str, Tensor]]:
        """The held-out blocks ``chosen``, a micro-batch at a time."""
        for i in range(0, len(chosen), self.micro):
            part = chosen[i : i + self.micro]
            rows = set(range(len(part))) if in_order else set()
            yield self._prepare([self.valid_blocks[j] for j in part], part, masker, orderer, rows)

    def _validation_blocks(self) -> dict[str, list[int]]:
        """Held-out blocks, evenly spread over all files, or with weights over each file that has some."""
        wanted, sizes = self.recipe.run.evaluate_blocks, self.valid_blocks.sizes
        if not self.recipe.data.weights:
            return {"all": data.evenly(0, len(self.valid_blocks), wanted)}
        first = np.cumsum([0, *sizes])
        used = [f for f, size in enumerate(sizes) if size and self.recipe.data.weights[f]]
        return {
            self.recipe.data.files[f]: data.evenly(int(first[f]), int(first[f + 1]), max(1, wanted // len(used)))
            for f in used
        }

    def _save(self, step: int) -> None:
        # Whoever loads the model must know whether reading it in order means anything.
        ordered = self.recipe.objective.ordered_at(step - 1) > 0
        if ordered or hasattr(self.model.config, TRAINED):
            setattr(self.model.config, TRAINED, ordered)
        if self.rank == 0:
            checkpoints.save(
                self.checkpoints, step, self.model, self.tokenizer, self.optimizers, self.recipe, self.recipe.run.keep
            )
        self._wait()

    def _export(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        (folder / "recipe.json").write_text(json.dumps(self.recipe.to_dict(), indent=2))


def _in_order(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Which texts are read in order, [T], if any are."""
    return {"in_order": (batch["turn"] >= 0).any(1)} if "turn" in batch else {}

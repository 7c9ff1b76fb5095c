"""From numbered blocks of text to what the model reads and what it has to predict.

Everything random is a function of (seed, number of the block): which block comes when, which tokens are masked, in
which order they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from anyorder.errors import AnyorderError
from anyorder.masking import FixedCount, Masker, UniformCount, collate, parse_prior
from anyorder.models.pairs import token_types
from anyorder.text.pairs import pair_frame
from anyorder.training import data
from anyorder.training.blocks import Blocks
from anyorder.training.mixture import Mixture
from anyorder.training.objective import check_reach, row_weights
from anyorder.training.packing import pack_batch, texts_of
from anyorder.training.pairs import in_rows, length_questions, sources_of
from anyorder.training.recipe import Recipe

Batch = dict[str, Tensor]


class Batches:
    """The batches of a run.

    A batch holds the model's inputs [B, N] (the names of ``objective.FIELDS``), and beside them ``predicted`` and
    ``maskable`` [T, longest], one row per text, ``in_order`` [T] where some texts are read in order, and in training
    ``weight`` [T], what each text's losses count.

    Args:
        recipe: The run.
        tokenizer: Its tokenizer.
        blocks: What is trained on, and what is held out.
        first_position: The position id of a text's first token, None for models without any.
        typed: Whether the model tells the sides of a pair apart by token types.
    """

    def __init__(
        self,
        recipe: Recipe,
        tokenizer: PreTrainedTokenizerBase,
        blocks: tuple[Blocks, Blocks],
        first_position: int | None,
        typed: bool = False,
    ) -> None:
        if recipe.data.pack and (recipe.objective.name != "pmlm" or recipe.data.pad_to_length):
            raise AnyorderError("data.pack is for masked LMs that read no padding: set data.pack to false")
        self.recipe, self.first_position, self.typed = recipe, first_position, typed
        self.train, self.valid = blocks
        self.mixture = Mixture(self.train.sizes, recipe.data.weights, recipe.seed)
        self.pad = cast(int, tokenizer.pad_token_id)
        self.opening = cast(int, data.opening_id(tokenizer))
        special = set(tokenizer.all_special_ids) - ({self.pad} if recipe.data.pad_to_length else set())
        self.frame = pair_frame(tokenizer) if recipe.data.columns else None
        self.closing = None if self.frame is None else self.frame.between[0]
        self.masker = Masker(
            parse_prior(recipe.objective.prior),
            mask_id=self.pad if tokenizer.mask_token_id is None else tokenizer.mask_token_id,  # GPT masks nothing
            vocab_size=len(tokenizer),
            special_ids=frozenset(special),
            corruption=recipe.objective.corruption,
            stratified=recipe.objective.stratified,
            seed=recipe.seed,
            after=self.closing,
        )
        # XLNet predicts the end of an order, as much of it as the prior says; else any number is given
        permuted = recipe.objective.name == "permutation"
        self.orderer = self.masker if permuted else replace(self.masker, prior=UniformCount())
        whole = recipe.objective.name == "causal" or recipe.objective.order == "left-to-right"
        self.orders = FixedCount(recipe.data.length) if whole else self.orderer.prior
        if recipe.objective.normalise == "bound" and not permuted:
            check_reach(self.masker.prior, recipe.objective.prior)

    def training(self, indices: range, ordered: float) -> Batch:
        """Blocks number ``indices`` of the endless stream.

        Of any run of a file's blocks the share ``ordered`` is read in order, as nearly as whole numbers allow.
        """
        blocks = [self.train[self.mixture[i]] for i in indices]
        # Counted file by file: files take turns, and every other block of all may be every block of one.
        numbers = [self.mixture.turn(i)[1] for i in indices]
        lengths = _share(numbers, self.recipe.objective.length)
        batch = self._prepare(blocks, list(indices), self.masker, self.orderer, _share(numbers, ordered), lengths)
        predicted, in_order = batch["predicted"], batch.get("in_order")
        if self.recipe.objective.name == "causal":
            in_order = predicted.any(1)
        normalise = self.recipe.objective.normalise
        batch["weight"] = row_weights(predicted, batch["maskable"], normalise, self.masker.prior, in_order, self.orders)
        return batch

    def validation(self, chosen: list[int], size: int, in_order: bool) -> Iterator[Batch]:
        """The held-out blocks ``chosen``, ``size`` at a time, with fixed masks or, ``in_order``, whole orders."""
        masker = replace(self.masker, prior=UniformCount(), corruption="mask", stratified=True, seed=1)
        orderer = replace(masker, prior=FixedCount(self.recipe.data.length))
        for i in range(0, len(chosen), size):
            part = chosen[i : i + size]
            rows = set(range(len(part))) if in_order else set()
            yield self._prepare([self.valid[j] for j in part], part, masker, orderer, rows)

    def validation_blocks(self) -> dict[str, list[int]]:
        """Held-out blocks, evenly spread over all files, or with weights over each file that has some."""
        wanted, sizes, weights = self.recipe.run.evaluate_blocks, self.valid.sizes, self.recipe.data.weights
        if not weights:
            return {"all": data.evenly(0, len(self.valid), wanted)}
        first = np.cumsum([0, *sizes])
        used = [f for f, size in enumerate(sizes) if size and weights[f]]
        return {
            self.recipe.data.files[f]: data.evenly(int(first[f]), int(first[f + 1]), max(1, wanted // len(used)))
            for f in used
        }

    def _prepare(
        self,
        blocks: list[np.ndarray],
        indices: list[int],
        masker: Masker,
        orderer: Masker,
        in_order: Set[int],
        lengths: Set[int] = frozenset(),
    ) -> Batch:
        """Blocks ``in_order`` are not masked by ``masker`` but read in the order of ``orderer``.

        The sources of the blocks ``lengths`` come once more, after all texts, to be asked for their targets' lengths.
        """
        recipe = self.recipe.data
        if recipe.pad_to_length:
            blocks = [np.pad(t, (0, recipe.length - len(t)), constant_values=self.pad) for t in blocks]
        parts = [texts_of(block, self.opening) if recipe.pack else [block] for block in blocks]
        texts = [text for part in parts for text in part]
        rows = [row for row, part in enumerate(parts) for _ in part]
        numbers = [number for part in parts for number in range(len(part))]
        indices = [indices[row] for row in rows]
        read = [t for t, row in enumerate(rows) if row in in_order]
        orders = {t: self._order(orderer, indices[t], texts[t], numbers[t]) for t in read}
        asked = [t for t, row in enumerate(rows) if row in lengths]
        sources, wanted = ([], []) if self.frame is None else sources_of([texts[t] for t in asked], self.frame)
        # Of the sources nothing is masked: they end where their targets would begin.
        texts, indices = texts + sources, indices + [indices[t] for t in asked]
        batch = collate(texts, indices, masker, self.pad, numbers + [0] * len(asked), orders)
        tokens = batch["tokens"]
        if wanted:
            batch |= length_questions(tokens.shape, sources, wanted)
        if self.typed and self.closing is not None:
            batch["token_type_ids"] = token_types(tokens, self.closing)
        about = {"maskable": torch.from_numpy(self.masker.maskable(tokens.numpy()))}
        if "turn" in batch:
            about["in_order"] = (batch["turn"] >= 0).any(1)
        if recipe.pack:
            rows += in_rows([len(source) for source in sources], recipe.length, max(rows) + 1)
            packed = pack_batch(batch, [len(text) for text in texts], rows, self.pad, self.first_position)
            # texts of a row follow each other, so the predicted tokens come in the same order in both forms
            return {**packed, "predicted": batch["masked"], **about}
        batch["attention_mask"] = torch.ones_like(tokens) if recipe.pad_to_length else (tokens != self.pad).long()
        if self.recipe.objective.name == "causal":
            batch["input_ids"] = tokens
            batch["masked"] = about["maskable"].clone()
            batch["masked"][:, 0] = False  # nothing stands before it
        return {**batch, "predicted": batch["masked"], **about}

    def _order(self, orderer: Masker, index: int, text: np.ndarray, part: int) -> np.ndarray:
        """The positions [K] that are predicted one after the other."""
        if self.recipe.objective.order == "left-to-right":
            return np.flatnonzero(orderer.maskable(text))
        return orderer.order(index, text, part)


def _share(numbers: Sequence[int], share: float) -> set[int]:
    """Which of some numbered blocks belong to a share of them all, as nearly as whole numbers allow."""
    return {row for row, i in enumerate(numbers) if int((i + 1) * share) > int(i * share)}

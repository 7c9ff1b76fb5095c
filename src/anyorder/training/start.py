"""What a run starts from: its tokenizer, its blocks of text and its model, as the recipe says."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from anyorder.errors import AnyorderError
from anyorder.models.build import build
from anyorder.models.fit import check_fit, max_length, rows_of
from anyorder.models.load import Encoder, load_encoder, read_checkpoint
from anyorder.models.one_way import read_one_way
from anyorder.models.pairs import PAIRS, LengthHead
from anyorder.models.transplant import Carried, start_bias, transplant
from anyorder.text.pairs import pair_frame
from anyorder.training import data
from anyorder.training.blocks import Blocks
from anyorder.training.checkpoint import Checkpoint
from anyorder.training.mixture import check_shares
from anyorder.training.processes import Processes
from anyorder.training.recipe import Recipe
from anyorder.training.tokenizer import learned_tokenizer, load_tokenizer

_CACHED = ("length", "unit", "column", "columns", "holdout", "min_tokens", "pack")  # settings that decide the blocks
LEARN = "learn"  # instead of a tokenizer's path


@dataclass(frozen=True)
class Start:
    """The beginning of a run, or the checkpoint from which it goes on.

    Attributes:
        recipe: The run.
        checkpoint: Where it stands; None at its beginning.
        data_dir: Where the recipe's files lie.
        processes: All that take part; the first makes what all of them read.
        quiet: Say nothing.
    """

    recipe: Recipe
    checkpoint: Checkpoint | None
    data_dir: Path | None
    processes: Processes
    quiet: bool

    @property
    def folder(self) -> Path:
        """Where the run keeps its files."""
        return Path(self.recipe.output)

    @cached_property
    def masked(self) -> bool:
        """Whether the model is a masked LM; GPT and XLNet are not."""
        return self.recipe.objective.name == "pmlm"

    @cached_property
    def encoder(self) -> Encoder | None:
        """What ``init`` names, if the run begins with a masked LM; what is damaged or no encoder is refused."""
        if not self.recipe.init or self.checkpoint or not self.masked:
            return None
        torch.manual_seed(self.recipe.seed)  # of a head that it lacks
        return load_encoder(self.recipe.init)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The recipe's, init's, or one learned from the data."""
        found = self._tokenizer()
        for role in ("pad_token", "mask_token") if self.masked else ("pad_token",):
            if getattr(found, role) is None:
                raise AnyorderError(
                    f"the tokenizer of this run has no {role.replace('_', ' ')}: set tokenizer.{role} and save it "
                    "again, or name another under tokenizer.path"
                )
        return found

    def _tokenizer(self) -> PreTrainedTokenizerBase:
        path = self.recipe.tokenizer.path
        if self.encoder and path is None:
            return self.encoder.tokenizer
        given = self.checkpoint.path if self.checkpoint else path or self.recipe.init
        if given and (self.checkpoint or given != LEARN):
            return load_tokenizer(given)
        folder = self.folder / "tokenizer"
        if self.processes.first:
            learned_tokenizer(folder, self._files(), self.recipe.data, self.recipe.tokenizer.vocab_size)
        self.processes.wait()
        return load_tokenizer(folder)

    def _files(self) -> list[Path]:
        if not self.recipe.data.files:
            raise AnyorderError("the recipe names no data: list text files under data.files")
        check_shares(self.recipe.data.weights, len(self.recipe.data.files))
        return [(self.data_dir / f) if self.data_dir else Path(f) for f in self.recipe.data.files]

    @cached_property
    def corpus(self) -> Path:
        """The folder of the run's blocks, whose name is a checksum of all that decides them."""
        keys: dict[str, Any] = {k: getattr(self.recipe.data, k) for k in _CACHED}
        cache = partial(data.cache, self._files(), self.tokenizer, root=self.folder / "cache", **keys)
        if self.processes.first:
            cache()
        self.processes.wait()
        return cache()

    @cached_property
    def blocks(self) -> tuple[Blocks, Blocks]:
        """What is trained on, and what is held out."""
        size = len(self.tokenizer)
        return Blocks.load(self.corpus, "train", size), Blocks.load(self.corpus, "valid", size)

    def model(self) -> PreTrainedModel:
        """The model in training mode, its new weights drawn from the recipe's seed."""
        torch.manual_seed(self.recipe.seed)
        model = self._model().train()
        if self.recipe.model.dropout is not None:
            _set_dropout(model, self.recipe.model.dropout)
        if self.recipe.data.columns:
            setattr(model.config, PAIRS, pair_frame(self.tokenizer).between[0])
        elif hasattr(model.config, PAIRS):  # what comes after a first [SEP] is no target here
            delattr(model.config, PAIRS)
        return model

    def length_head(self, model: PreTrainedModel) -> LengthHead | None:
        """The head for p(length | source), new or from the checkpoint, if lengths are asked."""
        if not self.recipe.objective.length:
            return None
        torch.manual_seed(self.recipe.seed)
        kept = LengthHead.load(self.checkpoint.path) if self.checkpoint else None
        return (kept or LengthHead(model.config.hidden_size, self.recipe.data.length)).train()

    def _model(self) -> PreTrainedModel:
        given = self.checkpoint.path if self.checkpoint else self.recipe.init
        if given and not self.masked:
            return self._one_way(given)
        if self.checkpoint:
            return read_checkpoint(str(self.checkpoint.path)).model
        if self.encoder:
            return self._from_encoder(self.encoder)
        shape = self.recipe.model
        return build(
            **asdict(replace(shape, dropout=shape.dropout or 0.0)),
            vocab_size=len(self.tokenizer),
            max_length=self.recipe.data.length,
            pad_id=self.tokenizer.pad_token_id,
            cls_id=self.tokenizer.cls_token_id,
            sep_id=self.tokenizer.sep_token_id,
        )

    def _one_way(self, given: str | Path) -> PreTrainedModel:
        """GPT or XLNet from a checkpoint, which keeps its tokenizer: only encoders' word vectors are carried over."""
        model = read_one_way(given, self.recipe.objective.name)
        if not self.checkpoint and self.tokenizer.get_vocab() != load_tokenizer(given).get_vocab():
            raise AnyorderError(
                f"objective.name: {self.recipe.objective.name} goes on with the tokenizer of {given}: leave "
                "tokenizer.path out"
            )
        return self._checked(model, str(given))

    def _checked(self, model: PreTrainedModel, name: str) -> PreTrainedModel:
        """``model``, if it knows the run's tokens and reads as many in a row."""
        check_fit(self.tokenizer, cast(int, self.tokenizer.pad_token_id), rows_of(model), name)
        longest = max_length(model, self.tokenizer)
        if self.recipe.data.length > longest:
            raise AnyorderError(
                f"data.length {self.recipe.data.length} is more than {name} can read ({longest} tokens): lower "
                "data.length"
            )
        return model

    def _from_encoder(self, given: Encoder) -> PreTrainedModel:
        """The model that ``init`` names, with the run's tokenizer; what it has no weights for is initialised."""
        model, new = given.model, given.missing
        if self.tokenizer.get_vocab() != given.tokenizer.get_vocab():
            model, carried = transplant(model, given.tokenizer, self.tokenizer, new)
            self._tell(carried)
        if new or model is not given.model:
            start_bias(model, self.blocks[0].frequencies(self.recipe.data.weights, model.config.vocab_size))
        return self._checked(model, str(self.recipe.init))

    def _tell(self, carried: Carried) -> None:
        """Say what was carried over, and keep it beside the run."""
        if self.processes.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "carried.json").write_text(json.dumps(carried.to_dict(), indent=2))
            if not self.quiet:
                print(carried, file=sys.stderr)


def _set_dropout(model: PreTrainedModel, p: float) -> None:
    """The same dropout everywhere, also in a model that came with its own."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = p
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = p  # type: ignore[assignment]  # a number, which mypy takes for a module

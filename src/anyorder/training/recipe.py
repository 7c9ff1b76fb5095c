"""A training run as one YAML file. Every field is documented here; an unknown key is an error."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import yaml

from anyorder.errors import AnyorderError, did_you_mean
from anyorder.files.yaml_text import parse_yaml
from anyorder.training.recipe_values import KINDS, checked

T = TypeVar("T")


@dataclass(frozen=True)
class DataRecipe:
    """What is read."""

    # text or JSON lines, plain, .gz or .xz; .parquet; folders of save_to_disk. Relative names are within --data-dir
    files: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()  # share of blocks drawn from each file; if empty, every block once per epoch
    column: str = "text"  # where records have their text
    # two columns of TSV or JSON lines, by name or by number from 1: [source, target]. Every row is a pair, and only
    # the target is masked; pairs longer than `length` are left out
    columns: tuple[str, ...] = ()
    # document: blank lines separate documents, which are cut into blocks; line: every line is a text. One for all
    # files, or one for each
    unit: tuple[str, ...] = ("document",)
    length: int = 128  # tokens in a block, special ones included
    # share of each file's documents, its last ones, kept for validation; one for all files, or one for each
    holdout: tuple[float, ...] = (0.01,)
    min_tokens: int = 16  # a document's last block is dropped if it is shorter
    pack: bool = False  # several short texts in one row, each reading only itself: no padding
    pad_to_length: bool = False  # [PAD] up to `length`, attended to and predicted like a word (Liao et al., Table 3)


@dataclass(frozen=True)
class TokenizerRecipe:
    """Where tokens come from: an existing tokenizer, or WordPiece learned from the data."""

    # a folder or a Hugging Face name; "learn": WordPiece from the data; None: init's, or learned where there is no init
    path: str | None = None
    vocab_size: int = 8192  # of one that is learned


@dataclass(frozen=True)
class ModelRecipe:
    """A new model's shape. Ignored, but for its dropout, when `init` names a checkpoint."""

    # bert (u-PMLM-A), relative (u-PMLM-R), modernbert; gpt2 for the objective causal, xlnet for permutation
    kind: str = "modernbert"
    hidden_size: int = 256
    layers: int = 8
    heads: int = 4  # attention heads per layer
    intermediate: int = 640  # width of the feed-forward layers
    dropout: float | None = None  # None: 0 for a new model, a checkpoint's own with `init`. Not ignored with `init`


@dataclass(frozen=True)
class ObjectiveRecipe:
    """What is predicted, and how losses are weighed; see training/objective.py."""

    # pmlm (any masked LM, BERT's own scheme included), causal (GPT), permutation (XLNet: the end of a random order)
    name: str = "pmlm"
    # of the masking ratio: uniform, uniform-count, root-count, fixed:0.15, beta:a,b, count:k, share:0.1667
    prior: str = "uniform"
    corruption: str = "mask"  # mask: always [MASK]; 80-10-10: BERT's, 10 % random tokens and 10 % left as they are
    # how losses are weighted: sequence (eq 6), token (mean over masked tokens), bound (eq 8, whatever the prior)
    normalise: str = "sequence"
    stratified: bool = True  # spread the numbers of masks evenly over consecutive texts
    ordered: float = 0.0  # share of blocks read in order (models/ordered.py): order and number of given tokens uniform
    ordered_from: int = 0  # the step from which on `ordered` holds
    # of the blocks read in order: random, or left-to-right: all of a text with nothing given, as GPT reads
    order: str = "random"
    label_smoothing: float = 0.0  # share of the target probability that is spread evenly over all tokens
    # pairs: share of blocks that also train a head to predict the target's length from the source
    length: float = 0.0

    def ordered_at(self, step: int) -> float:
        """The share of blocks read in order at one step."""
        return self.ordered if step >= self.ordered_from else 0.0


@dataclass(frozen=True)
class OptimRecipe:
    """How the weights move."""

    name: str = "adamw"  # adamw, lamb, muon
    steps: int = 1000  # updates of the weights
    batch: int = 32  # sequences per step, over all processes and micro-batches
    micro_batch: int = 32  # sequences per forward pass in one process
    lr: float = 1.5e-3  # peak learning rate; with muon, of what is not Muon's
    muon_lr: float = 1e-2  # peak learning rate of the weight matrices that Muon moves
    momentum: float = 0.95  # Muon's
    betas: tuple[float, float] = (0.9, 0.98)  # of AdamW and LAMB
    eps: float = 1e-8  # of AdamW and LAMB
    weight_decay: float = 0.01  # of weight matrices only
    layer_decay: float = 1.0  # each layer's rate over that of the layer above it, the embeddings' below the first
    warmup: int = 100  # steps over which the rate rises from zero
    schedule: str = "linear"  # linear, cosine, constant
    starts: tuple[int, ...] = (0,)  # the steps at which the schedule begins: more than one goes on with a finished run
    # linear: the share of each such part, its end, over which the rate falls to zero; the last holds for all after it
    decay: tuple[float, ...] = (1.0,)
    clip: float = 1.0  # largest gradient norm; 0 switches clipping off

    @property
    def parts(self) -> tuple[int, ...]:
        """Where the schedule begins within ``steps``: a recipe cut short ends like any other, its rate at zero."""
        return tuple(start for start in self.starts if start < self.steps)


@dataclass(frozen=True)
class RunRecipe:
    """How the run is carried out. May be changed between a run and its resumption; the results do not depend on it."""

    checkpoint_every: int = 200  # steps
    keep: int = 2  # checkpoints kept
    evaluate_every: int = 200  # steps between validations
    evaluate_blocks: int = 256  # held-out blocks in a validation
    log_every: int = 10  # steps between lines of metrics.jsonl
    compile: bool = False  # with torch.compile
    threads: int = 0  # of the CPU; 0: torch's choice
    device: str | None = None  # cpu, cuda, cuda:1, mps; None: the GPU if there is one, each process its own


@dataclass(frozen=True)
class Recipe:
    """The whole run."""

    output: str = "runs/model"  # the run's folder
    seed: int = 0  # of every random choice
    # a checkpoint folder or Hugging Face name to start from, with or without a head: how a BERT becomes a u-PMLM.
    # With another tokenizer (`tokenizer`) its word vectors are carried over by their strings: models/transplant.py
    init: str | None = None
    precision: str = "fp32"  # fp32 or bf16 (autocast)
    data: DataRecipe = field(default_factory=DataRecipe)
    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    model: ModelRecipe = field(default_factory=ModelRecipe)
    objective: ObjectiveRecipe = field(default_factory=ObjectiveRecipe)
    optim: OptimRecipe = field(default_factory=OptimRecipe)
    run: RunRecipe = field(default_factory=RunRecipe)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries, ready for YAML or JSON."""
        return dataclasses.asdict(self)


def from_dict(values: dict[str, Any]) -> Recipe:
    """A recipe from nested dictionaries; every key must exist and every value must have its field's type."""
    recipe = _group(values, Recipe, "")
    if recipe.objective.ordered and recipe.objective.name == "causal":
        raise AnyorderError("objective.ordered is for masked LMs: leave it out, or set objective.name to pmlm")
    if recipe.data.columns and len(recipe.data.columns) != 2:
        raise AnyorderError(f"data.columns are two, [source, target], not {len(recipe.data.columns)}: name both")
    if recipe.data.columns and (recipe.objective.name != "pmlm" or recipe.data.pad_to_length):
        raise AnyorderError(
            "data.columns is for masked LMs that read no padding: set objective.name to pmlm and data.pad_to_length to "
            "false"
        )
    if recipe.objective.length and not recipe.data.columns:
        raise AnyorderError("objective.length asks a source for its target's length: name both with data.columns")
    kinds = KINDS[recipe.objective.name]
    if recipe.init is None and recipe.model.kind not in kinds:
        raise AnyorderError(
            f"objective.name: {recipe.objective.name} trains {', '.join(kinds)}, not model.kind {recipe.model.kind}: "
            "change one of the two"
        )
    return recipe


def _group(values: dict[str, Any], kind: type[T], prefix: str) -> T:
    hints = get_type_hints(kind)
    known: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key not in hints:
            hint = did_you_mean(key, hints, prefix)
            raise AnyorderError(f"the recipe has no key {name!r}: {hint}it knows {', '.join(hints)}")
        if dataclasses.is_dataclass(hints[key]):
            if not isinstance(value, dict):
                raise AnyorderError(f"recipe key {name!r} is a group: write its settings indented below it")
            known[key] = _group(value, hints[key], f"{name}.")
        else:
            known[key] = checked(name, value, getattr(kind(), key), hints[key])
    return kind(**known)


def load_recipe(path: Path, overrides: list[str] | None = None) -> Recipe:
    """A recipe file with ``key=value`` overrides, e.g. ``optim.lr=1e-3``."""
    if not path.is_file():
        raise AnyorderError(f"no recipe {path}: give the path of a YAML file, such as recipes/mini.yaml")
    try:
        values = parse_yaml(path.read_text(encoding="utf-8")) or {}
        if not isinstance(values, dict):
            raise AnyorderError(f"{path} is not a recipe: it must be a YAML mapping of settings")
        for override in overrides or []:
            key, equals, text = override.partition("=")
            if not equals:
                raise AnyorderError(f"--set takes key=value, such as --set optim.lr=1e-3, not {override!r}")
            _put(values, key.split("."), parse_yaml(text))
    except yaml.YAMLError as error:
        raise AnyorderError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except UnicodeDecodeError as error:
        raise AnyorderError(
            f"{path} is not UTF-8 (byte {error.start + 1}): convert it, for instance with iconv"
        ) from error
    return from_dict(values)


def _put(values: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise AnyorderError(f"--set {'.'.join(keys)}: {key!r} is a single value, not a group")
    values[keys[-1]] = value

"""Options of the studies of probabilities: of texts, of pairs of sentences, of pairs of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyorder.errors import AnyorderError
from anyorder.options import Options, option, seed_option
from anyorder.studies.options.shared import MODELS, check_files
from anyorder.tasks.options import PAIR_METHODS, SCHEMES


@dataclass(frozen=True, kw_only=True)
class CharactersOptions(Options):
    """Of :mod:`anyorder.studies.characters`."""

    data: tuple[Path, ...] = option((), "A file of texts, one per line; may be repeated.")
    held_out: tuple[Path, ...] = option(
        (), "A training file of which only the last documents were held out; may be repeated."
    )
    share: float = option(0.01, "Of a --held-out file's documents: what its recipe held out.", above=0, below=1)
    samples: int = option(16, "Masks per text of the bound.", least=2)
    limit: int | None = option(None, "At most this many texts of each file, evenly spread.", least=1)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data and not self.held_out:
            raise AnyorderError("no texts given: name files with --data or --held-out")
        check_files([*self.data, *self.held_out])


@dataclass(frozen=True, kw_only=True)
class PerplexityOptions(Options):
    """Of :mod:`anyorder.studies.perplexity`."""

    models: tuple[str, ...] = option((), MODELS + " The bundled model if absent.", "--models", "--model", "-m")
    test: Path = option(..., "The test text, plain, .gz or .xz.")
    data: tuple[Path, ...] = option((), "Training text to fine-tune on first; may be repeated.")
    finetune_steps: int = option(0, "Steps of fine-tuning, with the model's own algorithm.", least=0)
    finetune_rate: float = option(0.3, "Learning rate, as a share of that of pretraining.", above=0)
    unit: str = option("document", "document: full contexts; line: every line is a text.", choices=("document", "line"))
    length: int = option(128, "Tokens of a context, special ones included.", least=3)
    padding: tuple[str, ...] = option(
        ("masked",),
        "masked: [PAD] is not attended to; predicted: the paper's way. May be repeated.",
        choices=("masked", "predicted"),
    )
    random: tuple[str, ...] = option(
        ("chain", "bound"),
        "How random order is measured: chain (along one order) or bound; may be repeated.",
        choices=("chain", "bound"),
    )
    samples: int = option(16, "Masks per context of the bound.", least=2)
    limit: int | None = option(None, "At most this many contexts, evenly spread over the test text.", least=1)
    work: Path = option(Path("runs/perplexity"), "Where fine-tuned models go; a killed run continues from there.")
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.finetune_steps and not self.data:
            raise AnyorderError("fine-tuning needs a training text: name it with --data")
        if "predicted" in self.padding and not self.finetune_steps:
            raise AnyorderError("a model learns to predict [PAD] by fine-tuning: add --data and --finetune-steps")
        check_files([self.test, *self.data])


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """Of :mod:`anyorder.studies.minimal_pairs`."""

    method: tuple[str, ...] = option(
        (),
        "chain, bound, pll or pll-word; may be repeated. All if absent.",
        choices=("chain", "bound", "pll", "pll-word"),
    )
    samples: int = option(16, "Masks per text of the bound.", least=2)
    limit: int | None = option(None, "At most this many pairs of each file.", least=1)
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class CompatibilityOptions(Options):
    """Of :mod:`anyorder.tasks.compatibility`."""

    top: int = option(20, "Most probable tokens of each position to look at.", "-n", least=2)
    scheme: str = option("contiguous", "Pairs of a file: random or contiguous, one per line.", choices=SCHEMES)
    examples: int = option(20, "Lines taken from a file.", least=1)
    special_tokens: bool = option(False, "Let a blank hold special tokens too, as in the paper.")
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class PairwiseOptions(Options):
    """Of :mod:`anyorder.studies.pairwise`."""

    scheme: str = option("random", "random: two tokens anywhere; contiguous: two adjacent ones.", choices=SCHEMES)
    examples: int = option(100, "How many, from lines drawn at random.", least=1)
    each: int = option(1, "Pairs drawn from one line.", least=1)
    method: tuple[str, ...] = option(
        (),
        "A construction: mlm, mrf-logit, mrf, hcb or ag; may be repeated. All if absent.",
        choices=PAIR_METHODS,
    )
    size: int = option(2, "Tokens masked together; more than two need few tokens.", least=2, most=4)
    support: int | None = option(
        None, "With --size 3 or 4: this many tokens per position, not the whole vocabulary.", least=2
    )
    tail: float | None = option(
        None, "Examine only the rows that carry mass (ag and mlm; no A-KL), such as 1e-3.", above=0, below=1
    )
    distance: str = option(
        "token",
        "What --plot and --json show against: tokens between the two, or arcs between their words (syntactic).",
        choices=("token", "syntactic"),
    )
    parser: str | None = option(
        None, "The spaCy pipeline of --distance syntactic, name or folder; en_core_web_sm if absent."
    )
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parser is not None and self.distance != "syntactic":
            raise AnyorderError("only the syntactic distance needs a parser: add --distance syntactic, or leave it out")
        if self.tail is not None and self.size > 2:
            raise AnyorderError("--tail takes a probability such as 1e-3, and pairs of tokens only (--size 2)")
        if self.tail is not None and set(self.method) - {"mlm", "ag"}:
            raise AnyorderError("an adaptive support is for ag and mlm: leave out --tail for the others")

    @property
    def methods(self) -> list[str]:
        """The chosen constructions in the order of the paper's table."""
        possible = ("mlm", "ag") if self.tail is not None else ("mlm", "mrf-logit", "mrf", "hcb", "ag")
        return [name for name in possible if not self.method or name in self.method]

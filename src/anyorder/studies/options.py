"""What a user may say to each study, written once; nothing heavy is imported here, so that ``--help`` stays quick."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError, choose
from anyorder.options import Options, option, seed_option, whole_numbers
from anyorder.tasks.options import PAIR_METHODS, SCHEMES

STEPS = "Numbers of steps, comma-separated."
MODELS = "name=folder of a masked or causal model; may be repeated."


def check_files(files: Iterable[Path]) -> None:
    """Refuse files that are not there, before a model is loaded."""
    for file in files:
        if not file.is_file():
            raise AnyorderError(f"there is no file {file}: check the path")


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(Options):
    """Of :mod:`anyorder.studies.certify`."""

    sampler: tuple[str, ...] = option(
        (),
        "any-order, gibbs, metropolis, parallel, adaptive, refine; may be repeated. All if absent.",
        choices=("any-order", "gibbs", "metropolis", "parallel", "adaptive", "refine"),
    )
    draws: int = option(1000, "Texts in one histogram; more show smaller errors.", least=10)
    repeats: int = option(10, "Histograms each sampler is judged by.", least=2)
    seed: int = seed_option()


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
    examples: int = option(20, "Lines of a file.", least=1)
    special_tokens: bool = option(False, "Let a blank hold special tokens too, as in the paper.")
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions(Options):
    """Of :mod:`anyorder.studies.diagnose`."""

    texts: int = option(8, "Texts whose dependence is measured.", least=1)
    length: int = option(24, "Tokens of a text, special ones aside; longer ones are cut.", least=4)
    pairs: int = option(32, "Random pairs of positions per text; half as many neighbours beside.", least=2)
    budget: float = option(0.1, "Nats a parallel block may lose.", above=0)
    chain_texts: int = option(2, "Texts that Gibbs chains are run on; 0 leaves them out.", least=0)
    chains: int = option(4, "Chains per text: half begin at it, half at masks.", least=2)
    sweeps: int = option(20, "Sweeps of each chain.", least=8)
    samples: int = option(16, "Generated texts behind each stutter rate.", least=1)
    temperature: str = option("0.7,1.0", "Temperatures of the stutter rates.")
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperatures or min(self.temperatures) <= 0:
            raise AnyorderError("temperatures must be above 0")

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The numbers that ``temperature`` names."""
        from anyorder.chains.worlds import parse_numbers

        return tuple(parse_numbers(self.temperature, "temperature"))


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(Options):
    """Of :mod:`anyorder.studies.generation`, against the number of steps."""

    steps: str = option("4,8,16,32,64", STEPS)
    length: int = option(126, "Tokens of every text, special ones not counted.", "-l", least=2)
    texts: int = option(64, "Texts generated for every row.", "-n", least=1)
    samplers: str = option("parallel,refine,gibbs", "Among parallel, pairs (parallel with --pairs), refine, gibbs.")
    schedules: str | None = option(
        None, "Of parallel and pairs: among optimal, linear, cosine. All there are if absent."
    )
    order: str = option("confidence", "Which blanks these commit first: confidence, margin, entropy or random.")
    judge: str | None = option(None, "A causal LM (GPT), name or folder, for generative perplexity.")
    corpus: Path | None = option(None, "Real texts, one per line (.txt, .gz, .xz), to compare with.")
    temperature: float = option(1.0, "Of every sampler.", above=0)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files([] if self.corpus is None else [self.corpus])

    @property
    def numbers(self) -> list[int]:
        """The numbers of steps."""
        return whole_numbers(self.steps, "steps")

    @property
    def names(self) -> list[str]:
        """The samplers."""
        return [name.strip() for name in self.samplers.split(",")]


@dataclass(frozen=True, kw_only=True)
class LatencyOptions(Options):
    """Of :mod:`anyorder.studies.generation`, for one text length."""

    models: tuple[str, ...] = option((), MODELS + " The bundled model if absent.", "--models", "--model", "-m")
    judge: Path | None = option(None, "Causal model that judges the texts; the first causal one of --models if absent.")
    texts: int = option(100, "Texts to write.", least=1)
    length: int = option(128, "Tokens of each, special ones included.", least=3)
    batch: int = option(100, "Texts written together.", least=1)
    steps: tuple[int, ...] = option((8, 16, 32, 64), "Steps of parallel decoding; may be repeated.", least=1)
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class LearningOptions(Options):
    """Of :mod:`anyorder.studies.understanding.training`: BERT's settings (Devlin et al. 2019) by default."""

    data_dir: Path | None = option(None, "Folder of GLUE's folders and of squad2; from the hub if absent.")
    epochs: float = option(3.0, "Passes over the training set; small models want more.", above=0)
    lr: float = option(5e-5, "Peak learning rate; small models want more, such as 5e-4.", above=0)
    batch: int = option(32, "Texts per step.", least=1)
    max_length: int | None = option(
        None, "Tokens of a row; longer texts are cut, passages read in windows. 128, or 384 of squad2.", least=8
    )
    stride: int | None = option(None, "Tokens between two windows of squad2; a third of a row if absent.", least=1)
    train_limit: int | None = option(None, "At most so many training examples per task.", least=2)
    test_limit: int | None = option(None, "At most so many test examples per task.", least=2)
    from_dev: float = option(
        0.6, "Share of the dev set to learn from where there is no training set (qnli, squad2).", above=0, below=1
    )


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(LearningOptions):
    """Of :mod:`anyorder.studies.understanding.learning`."""

    model: str | None = option(None, "A Hugging Face name or a folder; the bundled model if absent.", "-m")
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class UnderstandingOptions(LearningOptions):
    """Of :mod:`anyorder.studies.understanding.table`."""

    models: tuple[str, ...] = option(
        (), "name=folder or hub name; may be repeated. The bundled model if absent.", "--models", "--model", "-m"
    )
    tasks: str = option("all", "Among cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte and squad2, with commas between.")
    seeds: int = option(3, "Runs of each model on each task.", least=1)
    large_seeds: int = option(1, "Runs on tasks with more than 10,000 training examples.", least=1)
    multi_task: bool = option(False, "Also learn all tasks together first, then each alone: rows with a *.")
    against: str | None = option(None, "The model the others are compared with; bert, or the first, if absent.")
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
        ("chain", "bound"), "How random order is measured; may be repeated.", choices=("chain", "bound")
    )
    samples: int = option(16, "Masks per context of the bound.", least=2)
    limit: int | None = option(None, "At most this many contexts, evenly spread over the test text.", least=1)
    work: Path = option(Path("runs/perplexity"), "Where fine-tuned models go; a killed run goes on from there.")
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.finetune_steps and not self.data:
            raise AnyorderError("fine-tuning needs a training text: name it with --data")
        if "predicted" in self.padding and not self.finetune_steps:
            raise AnyorderError("a model learns to predict [PAD] by fine-tuning: add --data and --finetune-steps")
        check_files([self.test, *self.data])


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions(Options):
    """Of :mod:`anyorder.studies.schedule`."""

    data: tuple[Path, ...] = option((), "Texts the model was not trained on, one per line; may be repeated.")
    share: float | None = option(
        None, "Only the last documents of a file, this share of it: what its recipe held out.", above=0, below=1
    )
    length: int | None = option(
        None, "Tokens of a text, special ones not counted; longer ones are cut. 64 if absent, or as texts are.",
        "-l", least=2,
    )  # fmt: skip
    texts: int = option(256, "At most so many texts, evenly spread over the files.", "-n", least=2)
    steps: str = option("1,2,4,8,16,32,64", STEPS)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise AnyorderError("no texts given: name a file with --data")
        check_files(self.data)

    @property
    def numbers(self) -> list[int]:
        """The numbers of steps."""
        return whole_numbers(self.steps, "steps")


@dataclass(frozen=True, kw_only=True)
class WorldOptions(Options):
    """A world of :func:`anyorder.chains.worlds.make_world`."""

    world: str = option(
        "ising-clique", "random, ising-chain, ising-grid, ising-clique, hmm, shift, or a .json/.npy file of a joint."
    )
    n: int = option(6, "Positions of the world.", least=1)
    coupling: str = option("0.5", "Strength of dependence: 0.5, 0.2,0.4, 0.2…2.0 or 0.2:2.0:10.")
    vocab: int = option(2, "Words of the random and hmm worlds.", least=2)
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class MixingOptions(WorldOptions):
    """Of ``lab mixing``."""

    block: str = option("1,2", "Block sizes: 1,2,3 or 1..6.")
    kernel: str = option(
        "gibbs,parallel,adaptive,metropolis", "Which of gibbs, parallel, adaptive, metropolis, with commas between."
    )


@dataclass(frozen=True, kw_only=True)
class EfficiencyOptions(WorldOptions):
    """Of ``lab efficiency``."""

    world: str = option(
        "ising-chain", "random, ising-chain, ising-grid, ising-clique, hmm, shift, or a .json/.npy file of a joint."
    )
    masks: str = option(
        "1,3,6,uniform,fixed:0.15", "Mask sizes and priors: 1,3,uniform,uniform-count,fixed:0.15,beta:2,5."
    )
    loss: str = option(
        "block",
        "block: -log p(x_S | rest), as in the theory; token: each token apart, as MLMs train.",
        choices=("block", "token"),
    )
    samples: int = option(2000, "Samples of one fit.", least=1)
    repeats: int | None = option(
        None, "Fits of the experiment; 0 for theory alone. 200 if absent, where that takes seconds.", least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repeats == 1:
            raise AnyorderError("an experiment needs at least 2 repeats and 1 sample; --repeats 0 leaves it out")


@dataclass(frozen=True, kw_only=True)
class ParallelOptions(WorldOptions):
    """Of ``lab parallel``."""

    coupling: str = option("0.0:1.0:6", "Strength of dependence: 0.5, 0.2,0.4, 0.2…2.0 or 0.2:2.0:10.")
    block: str = option("2,3", "Block sizes: 2,3 or 2..6.")
    stutter_n: int = option(4, "Words of the stutter toy; 0 leaves it out.", least=0)
    stutter_coupling: str = option("0:8:5", "Couplings of the stutter toy.")
    temperature: str = option("1.0", "Temperatures of the stutter toy.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stutter_n == 1:
            raise AnyorderError("one word cannot stutter: use --stutter-n 2 or more, or 0 to leave the toy out")


# The ways to translate that are compared: options of anyorder.tasks.options.TranslateOptions.
WAYS: dict[str, dict[str, Any]] = {
    "refine": {"sampler": "refine"},
    "refine-random": {"sampler": "refine", "start": "random"},
    "refine-repair": {"sampler": "refine", "repair": 2},
    "parallel": {"sampler": "parallel"},
    "parallel-repair": {"sampler": "parallel", "repair": 2},
    "parallel-pairs": {"sampler": "parallel", "pairs": True, "draw": True},
    "gibbs": {"sampler": "gibbs"},
    "adaptive": {"sampler": "adaptive"},
    "adaptive-attention": {"sampler": "adaptive", "influence": "attention"},
    "adaptive-source": {"sampler": "adaptive", "influence": "source"},
}


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(Options):
    """Of :mod:`anyorder.studies.translation`."""

    data: Path = option(..., "Pairs to translate: TSV or JSON lines, plain, .gz or .xz.")
    columns: str = option("1,2", "Source and target, by name or by number from 1, with a comma between.")
    steps: str = option("1,2,4,8", "Numbers of steps, with commas between.", "-k")
    ways: str = option("refine", f"{', '.join(WAYS)}, with commas between.")
    lengths: str = option("1", "How many of the likeliest lengths are tried, such as 1,3,5.")
    baseline: str | None = option(
        None, "A model of pairs that writes left to right to compare with; the same model if absent."
    )
    limit: int | None = option(None, "So many pairs, evenly spread.", least=1)
    resamples: int = option(1000, "Of the paired bootstrap; 0 for no intervals.", least=0)
    dependence: int = option(
        0, "Also measure on so many pairs how target tokens depend on each other, with the source and without.", least=0
    )
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files([self.data])
        _ = self.numbers, self.beams, self.names, two_columns(self.columns)  # refused before any work

    @property
    def numbers(self) -> list[int]:
        """The numbers of steps."""
        return whole_numbers(self.steps, "steps")

    @property
    def beams(self) -> list[int]:
        """The numbers of lengths."""
        return whole_numbers(self.lengths, "lengths")

    @property
    def names(self) -> list[str]:
        """The ways."""
        return [choose(name.strip(), tuple(WAYS), "way") for name in self.ways.split(",")]


def two_columns(columns: str) -> list[str]:
    """Source and target of ``"1,2"``."""
    found = [name.strip() for name in columns.split(",")]
    if len(found) != 2:
        raise AnyorderError(f"columns are two, source and target, such as 1,2, not {columns!r}")
    return found

"""Options of the studies of generated texts: their quality, what they cost, what goes wrong in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyorder.errors import AnyorderError
from anyorder.options import Options, option, seed_option, whole_numbers
from anyorder.studies.options.shared import MODELS, STEPS, check_files


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
    temperature: float = option(1.0, "Temperature of every sampler.", above=0)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files([] if self.corpus is None else [self.corpus])

    @property
    def numbers(self) -> list[int]:
        """The numbers of steps."""
        return whole_numbers(self.steps, "steps")


@dataclass(frozen=True, kw_only=True)
class LatencyOptions(Options):
    """Of :mod:`anyorder.studies.generation`, for one text length."""

    models: tuple[str, ...] = option((), MODELS + " The bundled model if absent.", "--models", "--model", "-m")
    judge: Path | None = option(None, "Causal model that judges the texts; the first causal one of --models if absent.")
    texts: int = option(100, "Texts to write.", least=1)
    length: int = option(128, "Tokens of each, special ones included.", least=3)
    batch: int = option(100, "Texts written together.", least=1)
    steps: tuple[int, ...] = option((8, 16, 32, 64), "Steps of parallel decoding; may be repeated.", least=2)
    seed: int = seed_option()


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
    texts: int = option(256, "At most this many texts, evenly spread over the files.", "-n", least=2)
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
class DiagnoseOptions(Options):
    """Of :mod:`anyorder.studies.diagnose`."""

    texts: int = option(8, "Texts whose dependence is measured.", least=1)
    length: int = option(24, "Tokens of a text, special ones aside; longer ones are cut.", least=4)
    pairs: int = option(32, "Random pairs of positions per text, and half as many pairs of neighbours.", least=2)
    budget: float = option(0.1, "Nats a parallel block may lose.", above=0)
    chain_texts: int = option(2, "Texts that Gibbs chains are run on; 0 leaves them out.", least=0)
    chains: int = option(4, "Chains per text: half begin at it, half at masks.", least=2)
    sweeps: int = option(20, "Sweeps of each chain.", least=8)
    samples: int = option(16, "Generated texts behind each stutter rate.", least=1)
    temperature: str = option("0.7,1.0", "Temperatures at which stutter is measured.")
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

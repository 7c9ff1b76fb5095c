"""Options of the studies on exact tables."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.errors import AnyorderError
from anyorder.options import Options, option, seed_option

SAMPLERS = ("any-order", "gibbs", "metropolis", "parallel", "adaptive", "refine")
_WORLD = "random, ising-chain, ising-grid, ising-clique, hmm, shift, or a .json/.npy file of a joint."
_COUPLING = "Strength of dependence: 0.5; a list 0.2,0.4; a range 0.2…2.0 or 0.2:2.0:10 (count)."


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(Options):
    """Of :mod:`anyorder.studies.certify`."""

    sampler: tuple[str, ...] = option((), f"{', '.join(SAMPLERS)}; may be repeated. All if absent.", choices=SAMPLERS)
    draws: int = option(1000, "Texts per histogram; more can show smaller errors.", least=10)
    repeats: int = option(10, "Histograms each sampler is judged by.", least=2)
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class WorldOptions(Options):
    """A world of :func:`anyorder.chains.worlds.make_world`."""

    world: str = option("ising-clique", _WORLD)
    n: int = option(6, "Positions of the world.", least=1)
    coupling: str = option("0.5", _COUPLING)
    vocab: int = option(2, "Size of the vocabulary of the random and hmm worlds.", least=2)
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

    world: str = option("ising-chain", _WORLD)
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

    coupling: str = option("0.0:1.0:6", _COUPLING)
    block: str = option("2,3", "Block sizes: 2,3 or 2..6.")
    stutter_n: int = option(4, "Words of the stutter toy; 0 leaves it out.", least=0)
    stutter_coupling: str = option("0:8:5", "Couplings of the stutter toy.")
    temperature: str = option("1.0", "Temperatures of the stutter toy.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stutter_n == 1:
            raise AnyorderError("one word cannot stutter: use --stutter-n 2 or more, or 0 to leave the toy out")

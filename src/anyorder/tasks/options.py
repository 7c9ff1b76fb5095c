"""What a user may say to each task, written once; nothing heavy is imported here, so that ``--help`` stays quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

from anyorder.errors import AnyorderError
from anyorder.options import LARGEST_SEED, Options, option, seed_option, whole_numbers
from anyorder.tasks.samplers import REGISTRY, SAMPLERS, SamplerOptions, options_of

SCHEMES = ("random", "contiguous")  # which pairs of a text are looked at
# auto: in order where the model was trained for it and the method goes token by token, else in full.
READINGS = ("auto", "full", "ordered", "ordered-untrained")
TAIL = "compute only rows that carry mass, until the mass of all other pairs is known to within this much."
UNKNOWN = "Let words the tokenizer cannot represent stand as unknown tokens."
READING = (
    "How token-by-token methods (any-order, chain) read the model: ordered (each token once: fast, for models trained "
    "for it), full (the whole text for every token), ordered-untrained (ordered, though not trained for it), or auto "
    "(ordered if trained for it, else full)."
)


@dataclass(frozen=True)
class LoadOptions(Options):
    """How a model is read; of :func:`anyorder.load`."""

    PANEL: ClassVar[str] = "Model"

    device: str | None = option(None, "Where the model runs: cpu, cuda, cuda:1, mps. The CPU if absent.")
    dtype: str = option(
        "float32",
        "float32, bfloat16 or float16. The 16-bit ones are for sampling: they make log-probabilities inexact.",
        choices=("float32", "bfloat16", "float16"),
    )
    allow_pickle: bool = option(False, "Also read .bin checkpoints; only for files you trust.")
    trust_remote_code: bool = option(False, "Run code that comes with the checkpoint; only for authors you trust.")

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of :func:`anyorder.load`."""
        import torch

        names = ("device", "allow_pickle", "trust_remote_code")
        return {name: getattr(self, name) for name in names} | {"dtype": getattr(torch, self.dtype)}


@dataclass(frozen=True)
class FillOptions(Options):
    """Of :func:`anyorder.tasks.fill.fill`."""

    _: KW_ONLY
    top: int = option(5, "How many completions, at most.", "-n", least=1)
    method: str = option(
        "beam",
        "beam (n-best search), sample (distinct any-order samples), or joint (two blanks, Arnold-Gokhale).",
        choices=("beam", "sample", "joint"),
    )
    order: str | Sequence[int] = option(
        "confidence",
        "beam and sample: confidence, entropy, left-to-right, right-to-left, random, or given:2,1,3 (unknown "
        "tokens counted from 1).",
        kind=str,
    )
    beam: int = option(16, "beam: hypotheses that are kept.", least=1)
    samples: int = option(64, "sample: texts that are drawn.", least=1)
    tail: float | None = option(None, f"joint: {TAIL}", above=0, below=1)
    seed: int = seed_option()
    whole_words: bool = option(
        True, "Begin a blank that stands as a word with a token that begins one.", "--whole-words/--any-pieces"
    )
    special_tokens: bool = option(False, "Allow special tokens, as fill-mask does.")
    allow_unknown: bool = option(False, UNKNOWN)

    def __post_init__(self) -> None:
        super().__post_init__()
        owners = {"order": ("beam", "sample"), "beam": ("beam",), "samples": ("sample",), "tail": ("joint",)}
        for name, methods in owners.items():
            if self.method not in methods and getattr(self, name) != getattr(FillOptions, name):
                remedy = f"leave it out, or choose --method {' or '.join(methods)}"
                raise AnyorderError(f"the method {self.method!r} has no {name}: {remedy}")


@dataclass(frozen=True)
class ScoreOptions(Options):
    """Of :func:`anyorder.tasks.score.score`."""

    method: str = option(
        "chain",
        "chain: exact, along an order; bound: the mean over all orders, estimated; pll, pll-word: pseudo-log-"
        "likelihoods, which are not probabilities.",
        choices=("chain", "bound", "pll", "pll-word"),
    )
    _: KW_ONLY
    order: str = option(
        "left-to-right",
        "Order of the chain: left-to-right, right-to-left or random.",
        choices=("left-to-right", "right-to-left", "random"),
    )
    samples: int | None = option(
        None, "Masks of the bound (16 if absent), or random orders of the chain (1 if absent).", least=1
    )
    reading: str = option("auto", READING, choices=READINGS)
    per_token: bool = option(False, "Also the log-probability of each token.")
    stride: int | None = option(None, "New tokens per window, for texts longer than the model.", least=1)
    strict: bool = option(False, "Refuse texts longer than the model.")
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method != "chain" and self.order != "left-to-right":
            raise AnyorderError(f"{self.method} has no order: choose the method chain, or leave the order out")
        if self.samples is not None and self.method != "bound" and self.order != "random":
            raise AnyorderError("only the bound and random orders are sampled: leave the number of samples out")
        if self.method == "bound" and self.samples == 1:
            raise AnyorderError("the bound's standard error needs at least 2 samples, not 1: raise --samples")

    @property
    def estimated(self) -> bool:
        """Whether a score has a standard error."""
        return self.method == "bound" or (self.order == "random" and (self.samples or 1) > 1)

    @property
    def meaning(self) -> str:
        """What a score is, in a sentence."""
        return {
            "chain": f"ln p(text) along the order {self.order}, exact",
            "bound": "ln p(text), the mean over all orders, estimated",
            "pll": "a pseudo-log-likelihood (each token given all others), not a probability",
            "pll-word": "a pseudo-log-likelihood (each token given all other words), not a probability",
        }[self.method]


PAIR_METHODS = ("mlm", "mrf", "mrf-logit", "hcb", "ag")


@dataclass(frozen=True)
class JointOptions(Options):
    """Of :func:`anyorder.tasks.joint.text_joints`."""

    method: str = option("ag", "mlm (the product), mrf, mrf-logit, hcb or ag (Arnold-Gokhale).", choices=PAIR_METHODS)
    _: KW_ONLY
    tail: float | None = option(None, f"ag and mlm: {TAIL}", above=0, below=1)
    special_tokens: bool = option(False, "Let a blank hold special tokens too, as in the paper.")
    allow_unknown: bool = option(False, UNKNOWN)
    seed: int = option(
        0, "For scripts that pass one everywhere: a joint is computed, nothing is random.", least=0, most=LARGEST_SEED
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tail is not None and self.method not in ("mlm", "ag", "all"):
            raise AnyorderError(
                f"an adaptive support is for ag and mlm, not {self.method}: leave out --tail for the others"
            )


@dataclass(frozen=True)
class JointsOptions(JointOptions):
    """The options of one joint, and of several at once."""

    method: str = option(
        "all",
        "mlm (the product), mrf, mrf-logit, hcb, ag (Arnold-Gokhale), or all.",
        choices=(*PAIR_METHODS, "all"),
    )
    top: int = option(10, "How many pairs to show.", "-n", least=1)

    @property
    def methods(self) -> tuple[str, ...]:
        """The constructions asked for."""
        if self.method != "all":
            return (self.method,)
        return PAIR_METHODS if self.tail is None else ("mlm", "ag")


SAID = {one.name: one.metadata["help"] for kind in REGISTRY.values() for one in fields(kind)}  # by the samplers


@dataclass(frozen=True)
class GenerateOptions(Options):
    """Of :func:`anyorder.tasks.generate.plan`."""

    prompt: str | None = option(None, "Words to keep; ... where text is generated, ___ for one token.", "-p")
    _: KW_ONLY
    given: str | None = option(
        None, "A text the new one follows: a source, a title, a question. Best with a model trained on pairs."
    )
    length: int | None = option(
        None,
        "Tokens of the text, your words included; if absent 64, or what a prompt with blanks needs.",
        "-l",
        least=1,
    )
    begin: str | None = option(None, "The first words of the text.")
    end: str | None = option(None, "The last words of the text.")
    scatter: str | None = option(None, "Words spread over the text, in order.")
    acrostic: str | None = option(None, "A word whose letters begin the lines.")
    sampler: str | None = option(
        None,
        f"{', '.join(SAMPLERS)}; if absent the first of any-order, parallel and refine that takes the options given.",
        "-s",
        choices=SAMPLERS,
    )
    order: str | Sequence[int] | None = option(None, SAID["order"], kind=str)
    speculate: int | None = option(None, SAID["speculate"], least=1)
    steps: int | None = option(None, SAID["steps"], "-k", least=1)
    block: int | None = option(None, SAID["block"], least=1)
    mode: str | None = option(None, SAID["mode"])
    blocks: int | None = option(None, SAID["blocks"], least=1)
    threshold: float | None = option(None, SAID["threshold"], least=0, most=1)
    sharpness: float | None = option(None, SAID["sharpness"], least=0)
    influence: str | None = option(None, SAID["influence"])
    pairs: bool = option(False, SAID["pairs"])
    schedule: str | None = option(None, SAID["schedule"])
    epsilon: float | None = option(None, SAID["epsilon"])
    start: str | None = option(None, SAID["start"])
    draft: str | None = option(None, SAID["draft"])
    reading: str = option("auto", READING, choices=READINGS)
    temperature: float = option(1.0, "Below 1 sharpens, above 1 flattens.", above=0)
    top_k: int | None = option(None, "Draw among the k likeliest tokens; 1 is greedy.", least=1)
    top_p: float | None = option(
        None, "Nucleus sampling: draw among the likeliest tokens that hold this mass.", above=0, most=1
    )
    min_p: float | None = option(
        None, "Least probability of a token, as a share of the likeliest one's.", least=0, most=1
    )
    typical: float | None = option(
        None, "Locally typical sampling: draw among the most typical tokens of this mass.", above=0, most=1
    )
    samples: int = option(1, "How many texts.", "-n", least=1)
    seed: int = seed_option()
    allow_unknown: bool = option(False, UNKNOWN)

    def __post_init__(self) -> None:
        super().__post_init__()
        options_of(self.sampler, {name: getattr(self, name) for name in SAID})  # refuses what the sampler does not have


@dataclass(frozen=True)
class TranslateOptions(Options):
    """Of :func:`anyorder.tasks.translate.translate`."""

    _: KW_ONLY
    steps: int | str | None = option(None, SAID["steps"] + " 10 if absent.", "-k", kind=str)
    lengths: int = option(1, "Try this many of the likeliest lengths and keep the best target.", least=1)
    length_law: str = option(
        "auto",
        "p(length | source): head (learned with the model), text (Bayes' rule over the source), or auto (head if any).",
        choices=("auto", "head", "text"),
    )
    must: tuple[str, ...] = option((), "A word, or several, that must appear in the target; may be given again.")
    must_repeat: bool = option(False, "Let such words appear more than once.")
    sampler: str = option("refine", f"{', '.join(SAMPLERS)}.", "-s", choices=SAMPLERS)
    order: str | Sequence[int] | None = option(None, SAID["order"], kind=str)
    block: int | None = option(None, SAID["block"], least=1)
    mode: str | None = option(None, SAID["mode"])
    influence: str | None = option(None, SAID["influence"] + " source: attention to the same source tokens.")
    pairs: bool = option(False, SAID["pairs"])
    schedule: str | None = option(None, SAID["schedule"])
    epsilon: float | None = option(None, SAID["epsilon"])
    start: str | None = option(None, "What refine starts from: masks, or random tokens.", choices=("masks", "random"))
    repair: int = option(0, "Rounds that mask repeated neighbours and predict them again, one by one.", least=0)
    draw: bool = option(False, "Draw tokens instead of taking the likeliest.")
    temperature: float = option(1.0, "With --draw: below 1 sharpens, above 1 flattens.", above=0)
    reading: str = option("auto", READING, choices=READINGS)
    trace: bool = option(False, "Also the target after every step.")
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature != 1 and not self.draw:
            raise AnyorderError("a temperature changes what is drawn: add --draw, or leave it out")
        if self.pairs and not (self.draw and self.temperature == 1):
            raise AnyorderError("pairs are drawn from the model's own joint: add --draw, without a temperature")
        if self.steps is not None:
            whole_numbers(self.steps, "steps")
        _ = self.chosen  # refuses what the sampler does not have

    @property
    def source_attention(self) -> bool:
        """Whether dependence is measured by attention to the source."""
        return self.influence == "source"

    @property
    def chosen(self) -> tuple[str, SamplerOptions]:
        """The sampler's name and its options."""
        given = {name: getattr(self, name) for name in SAID if hasattr(self, name)}
        if self.steps is not None:  # of several, the command takes one after the other
            given["steps"] = whole_numbers(self.steps, "steps")[0]
        if self.source_attention:
            given["influence"] = "attention"  # another of its kind
        return options_of(self.sampler, given)

"""What a user may say to each study, written once; nothing heavy is imported here, so that ``--help`` stays quick."""

from anyorder.studies.options.exact import (
    CertifyOptions,
    EfficiencyOptions,
    MixingOptions,
    ParallelOptions,
    WorldOptions,
)
from anyorder.studies.options.generation import DiagnoseOptions, GenerationOptions, LatencyOptions, ScheduleOptions
from anyorder.studies.options.likelihood import (
    CharactersOptions,
    CompareOptions,
    CompatibilityOptions,
    PairwiseOptions,
    PerplexityOptions,
)
from anyorder.studies.options.translation import TranslationOptions
from anyorder.studies.options.understanding import FinetuneOptions, LearningOptions, UnderstandingOptions

__all__ = [
    "CertifyOptions",
    "CharactersOptions",
    "CompareOptions",
    "CompatibilityOptions",
    "DiagnoseOptions",
    "EfficiencyOptions",
    "FinetuneOptions",
    "GenerationOptions",
    "LatencyOptions",
    "LearningOptions",
    "MixingOptions",
    "PairwiseOptions",
    "ParallelOptions",
    "PerplexityOptions",
    "ScheduleOptions",
    "TranslationOptions",
    "UnderstandingOptions",
    "WorldOptions",
]

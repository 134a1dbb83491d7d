"""Which framework and which scheduler wrote a job's logs, from what their own lines give away."""

from __future__ import annotations

from typing import Final

import polars as pl

#: The most special first: torchtitan runs under torchrun, MindSpeed prints Megatron's lines.
_FRAMEWORKS: Final = (
    ("mindspeed", r"(?i)mindspeed|torch_npu|\bhccl\b|ascend"),
    ("nemo", r"(?i)\bnemo\b|nemo_logging|exp_manager"),
    ("torchtitan", r"(?i)torchtitan|\[titan\]"),
    ("deepspeed", r"(?i)deepspeed"),
    ("megatron", r"(?i)megatron|consumed samples|tensor-model-parallel"),
    ("mlperf", r":::MLLOG|:::MLPv"),
    ("hf", r"(?i)transformers|\*\*\*\*\* Running training|trainer_state"),
    ("torchrun", r"(?i)torchrun|torch/distributed/elastic|torchelastic|torch\.distributed\.elastic"),
)
_SCHEDULERS: Final = (
    ("slurm", r"(?i)\bsrun\b|slurmstepd|SLURM_|\bsbatch\b"),
    ("kubernetes", r"(?i)\bpod/|pytorchjob|kubelet|kubernetes|\bkubectl\b"),
)


def framework(examples: pl.Series) -> str:
    """The framework that one line of each message gives away, or ``unknown``."""
    return _first(examples, _FRAMEWORKS) or "unknown"


def scheduler(examples: pl.Series) -> str:
    """``slurm``, ``kubernetes`` or empty."""
    return _first(examples, _SCHEDULERS)


def _first(examples: pl.Series, table: tuple[tuple[str, str], ...]) -> str:
    heads = examples.str.head(400)
    return next((name for name, pattern in table if heads.str.contains(pattern).any()), "")

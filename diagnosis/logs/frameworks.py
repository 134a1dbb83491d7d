"""The framework and the scheduler of a job, from their own lines."""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis.logs import words

#: Number of characters of a line in which a framework names itself.
HEAD: Final = 400


def framework(examples: pl.Series) -> str:
    """The framework, from one line of each message, or ``unknown``."""
    return _first(examples, "frameworks") or "unknown"


def scheduler(examples: pl.Series) -> str:
    """``slurm``, ``kubernetes`` or empty."""
    return _first(examples, "schedulers")


def _first(examples: pl.Series, name: str) -> str:
    heads = examples.str.head(HEAD)
    return next((word.id for word in words.load(name) if heads.str.contains(word.pattern).any()), "")

"""Which framework and which scheduler wrote a job's logs, from what their own lines give away."""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis.logs import words

#: Characters of a line in which a framework names itself.
HEAD: Final = 400


def framework(examples: pl.Series) -> str:
    """The framework that one line of each message gives away, or ``unknown``."""
    return _first(examples, "frameworks") or "unknown"


def scheduler(examples: pl.Series) -> str:
    """``slurm``, ``kubernetes`` or empty."""
    return _first(examples, "schedulers")


def _first(examples: pl.Series, name: str) -> str:
    heads = examples.str.head(HEAD)
    return next((word.id for word in words.load(name) if heads.str.contains(word.pattern).any()), "")

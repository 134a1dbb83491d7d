"""Which framework and which scheduler wrote a log."""

from __future__ import annotations

import polars as pl

from diagnosis.logs import frameworks


def test_a_scheduler_is_known_by_its_daemons() -> None:
    assert frameworks.scheduler(pl.Series(["slurmstepd: error: killed"])) == "slurm"
    assert frameworks.scheduler(pl.Series(["step 3"])) == ""


def test_a_framework_that_gives_nothing_away_is_unknown() -> None:
    assert frameworks.framework(pl.Series(["step 3"])) == "unknown"

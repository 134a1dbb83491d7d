"""Which framework and which scheduler wrote a log."""

from __future__ import annotations

import polars as pl

from diagnosis.kinds.logs.meaning import event_words


def test_a_scheduler_is_known_by_its_daemons() -> None:
    assert event_words.first_row(pl.Series(["slurmstepd: error: killed"]), "schedulers") == "slurm"
    assert event_words.first_row(pl.Series(["step 3"]), "schedulers") == ""


def test_a_framework_that_gives_nothing_away_is_unknown() -> None:
    assert event_words.first_row(pl.Series(["step 3"]), "frameworks") == ""

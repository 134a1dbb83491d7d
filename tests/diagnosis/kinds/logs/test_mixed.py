"""Two jobs in one directory."""

from __future__ import annotations

from diagnosis.kinds.logs.compare import mixed


def test_ids_of_the_kind_with_most_of_them_are_jobs() -> None:
    lines = ["*** STEP 811.0 ON a", "*** STEP 812.0 ON b", "srun: job 811 queued"]
    assert mixed.scheduler_ids(lines) == {"811", "812"}


def test_lines_without_ids_name_no_second_job() -> None:
    assert mixed.scheduler_ids(["step 1", "step 2"]) == set()

"""The machine of the one rank that consequences say is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.compare.detectors import awaited
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def _waiting(missing: str) -> Job:
    """Rank 0 prints three times whom the barrier waits for; then a person cancels the job."""
    job = Job(nodes=8, iterations=12)
    for after in (600, 1_200, 1_800):
        job.say(job.ends + after, 0, f"[rank0]: barrier: 15/16 ranks after {after}s, missing {missing}")
    for at in range(int(job.ends), int(job.ends) + 2_400, 30):
        job.all_say(at, "gpu-mon: gpu=0 temp=51C power=90W util=100%")
    ended = "srun: error: *** STEP 77.0 ON gpu-0000 CANCELLED AT 2025-10-09T09:55:20 ***"
    return job.say(job.ends + 2_410, None, ended)


@pytest.mark.parametrize(("missing", "node"), [("[11]", "gpu-0005"), ("[1]", "gpu-0000")])
def test_the_machine_of_the_missing_rank_is_accused_also_if_it_says_so_itself(
    missing: str, node: str, tmp_path: Path
) -> None:
    (clue,) = awaited.look(case_of(_waiting(missing), tmp_path))
    assert (clue.node, clue.tells) == (node, "hardware.host.stuck")


def test_a_machine_that_writes_nothing_any_more_is_not_called_stuck(tmp_path: Path) -> None:
    job = _waiting("[11]")
    job.cut = {5: job.ends}
    (clue,) = awaited.look(case_of(job, tmp_path))
    assert (clue.node, clue.tells) == ("gpu-0005", "")


@pytest.mark.parametrize("missing", ["[3, 11]", "[11, 12, 13]"])
def test_several_missing_ranks_name_no_machine(missing: str, tmp_path: Path) -> None:
    assert list(awaited.look(case_of(_waiting(missing), tmp_path))) == []


def test_a_healthy_job_names_nobody(tmp_path: Path) -> None:
    assert list(awaited.look(case_of(Job(nodes=8).completes(), tmp_path))) == []

"""Which files are another job's."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.decide.attempts import jobs_of_paths
from tests.diagnosis.synthetic import read_files


@pytest.mark.parametrize(
    ("paths", "jobs"),
    [
        (["slurm-4711.out", "slurm-4712.out"], {"4711", "4712"}),
        (["slurm-4711.out", "slurm-4711.err"], set()),
        # PBS: the number of the job, and the name of its server
        (["pbs_3915417.pbs-0001.trace", "pals/3915417.pbs-0001.e"], set()),
    ],
)
def test_the_numbers_of_jobs_in_paths_separate_jobs(paths: list[str], jobs: set[str], tmp_path: Path) -> None:
    parsed, _ = read_files(dict.fromkeys(paths, b"2026-03-01 08:00:00 step 1\n"), tmp_path)
    assert set(jobs_of_paths(parsed, parsed).values()) == jobs

"""Which files are another job's."""

from __future__ import annotations

import json
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


def test_the_directories_that_a_description_names_separate_jobs(tmp_path: Path) -> None:
    jobs = [{"job_id": name, "log_root": f"logs/{name}"} for name in ("alpha", "beta")]
    paths = ["logs/alpha/cn1/train.log", "logs/beta/cn2/train.log"]
    step = b"2026-03-01 08:00:00 step 1\n"
    parsed, _ = read_files({"job.json": json.dumps({"jobs": jobs}).encode()} | dict.fromkeys(paths, step), tmp_path)
    logs = [part for part in parsed if part.path in paths]
    assert jobs_of_paths(parsed, logs) == {paths[0]: "alpha", paths[1]: "beta"}

"""A node of the job that wrote nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.compare.detectors import absent
from tests.diagnosis.cases import case_of, case_of_files
from tests.diagnosis.synthetic import Job


def clues_of(job: Job, work: Path) -> list[str]:
    return [clue.node for clue in absent.find_clues(case_of(job.timed_out(job.ends + 600), work))]


def test_the_one_node_without_a_log_is_seen(tmp_path: Path) -> None:
    assert clues_of(Job(nodes=6, iterations=12, absent=frozenset({3})), tmp_path) == ["gpu-0003"]


def test_half_of_the_nodes_without_logs_are_an_incomplete_upload(tmp_path: Path) -> None:
    assert clues_of(Job(nodes=6, iterations=12, absent=frozenset({3, 4, 5})), tmp_path) == []


@pytest.mark.parametrize(("stated", "missing"), [("cn1,cn2,cn3,cn4", ["cn4"]), ("cn2,cn3,cn4,cn5", [])])
def test_a_stated_list_of_nodes_is_the_jobs_if_all_that_wrote_are_in_it(
    stated: str, missing: list[str], tmp_path: Path
) -> None:
    gave_up = "RuntimeError: rendezvous closed after 600s: 3 of 4 machines joined"
    files = {f"logs/cn{n}.out": ["2026-03-01 10:00:00 INFO waiting", gave_up] for n in (1, 2, 3)}
    files["slurmctld.log"] = [f"[2026-03-01T09:59:00.000] sched: Allocate JobId=7 NodeList={stated} #CPUs=384"]
    assert absent.absent_nodes(case_of_files(tmp_path, files)) == missing

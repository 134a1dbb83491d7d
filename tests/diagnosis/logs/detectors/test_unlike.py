"""A node whose counts of messages are unlike its peers'."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs.detectors import unlike
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def test_a_node_that_warns_all_the_time_is_ranked_with_what_it_says(tmp_path: Path) -> None:
    job = Job(nodes=6, iterations=12)
    for n in range(30):
        job.say(job.ends + 10 + n, 4, f"[rank8]: WARNING: retrying object {n} of the bucket")
    clues = list(unlike.look(case_of(job.timed_out(job.ends + 600), tmp_path)))
    assert clues[0].node == "gpu-0004"
    assert clues[0].weight <= unlike.AT.weight


def test_nodes_that_print_similar_are_not(tmp_path: Path) -> None:
    job = Job(nodes=6, iterations=12)
    assert list(unlike.look(case_of(job.timed_out(job.ends + 600), tmp_path))) == []

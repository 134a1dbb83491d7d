"""Corrections of weights, and what leads where no root is found."""

from __future__ import annotations

from pathlib import Path

from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job

GAVE_UP = "[WARN] scheduler: job x: deployment failed, allocation marked as failed, not restarting: unrecoverable"


def test_a_schedulers_vague_message_after_consequences_is_its_reaction(tmp_path: Path) -> None:
    job = Job(nodes=4)
    case = case_of(job.timed_out(job.ends + 600).say(job.ends + 605, None, GAVE_UP), tmp_path)
    assert case.roots.leader is None


def test_so_is_one_after_the_consequence_of_one_node(tmp_path: Path) -> None:
    job = Job(nodes=4)
    job.say(job.ends + 60, 0, "ERROR replica group failed again, max_restarts=3 exhausted")
    assert case_of(job.say(job.ends + 61, None, GAVE_UP), tmp_path).roots.leader is None


def test_without_any_consequence_it_leads(tmp_path: Path) -> None:
    job = Job(nodes=4)
    assert case_of(job.say(job.ends + 61, None, GAVE_UP), tmp_path).roots.leader is not None


def test_a_warning_of_a_library_without_a_worse_level_keeps_its_weight(tmp_path: Path) -> None:
    job = Job(nodes=4)
    for node in (1, 2):
        first = "{node}:81:92 [0] proxy.cc:713 NCCL WARN [Proxy Progress] Unexpected op state 7 for opCount 1212"
        job.say(job.ends + 5 + node / 100, node, first.format(node=job.name(node)))
        job.say(job.ends + 6, node, "ncclInternalError: Internal check failed.")
    assert "op state" in case_of(job, tmp_path).lead["example"]

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

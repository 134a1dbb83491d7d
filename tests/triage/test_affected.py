"""Whom an incident stopped besides the accused."""

from __future__ import annotations

import pytest

from triage.domain.finding_facts import FindingFacts
from triage.models import Incident
from triage.selectors.affected import affected_words


def finding(role: str, *names: str, nodes: int | None = None) -> FindingFacts:
    blank = dict.fromkeys(("template_id", "template", "signature", "example"), "")
    counts = {"count": 1, "of_nodes": 0, "jobs_with_it": 0, "healthy_jobs": 0, "level": 0}
    where = {"role": role, "nodes": nodes or len(names), "node_names": list(names)}
    return FindingFacts(**blank, **counts, **where, is_recovered=False, lines=[], indicators=[])


def job(condition: str, nodes: int) -> Incident:
    return Incident(condition=condition, node_count=nodes)


@pytest.mark.parametrize(
    ("accused", "nodes", "words"),
    [(["n1"], 8, "7 other nodes wait"), (["n1"], 2, "1 other node waits"), ([], 8, ""), (["n1"], 1, "")],
)
def test_a_hang_stops_all_nodes_but_the_accused(accused, nodes, words):
    assert affected_words(job("hung", nodes), [], accused) == words


def test_of_a_failure_those_count_that_wrote_its_widest_consequence():
    began, followed = finding("root", "n1"), finding("cascade", "n1", "n2", nodes=40)
    assert affected_words(job("failed", 64), [began, followed], ["n1"]) == "39 other nodes failed after it"


def test_no_more_nodes_follow_than_the_job_has():
    assert affected_words(job("failed", 4), [finding("root", "n1"), finding("cascade", "n2", nodes=40)], ["n1"]) == (
        "3 other nodes failed after it"
    )


def test_without_a_consequence_nothing_is_said():
    assert affected_words(job("failed", 4), [finding("root", "n1")], ["n1"]) == ""

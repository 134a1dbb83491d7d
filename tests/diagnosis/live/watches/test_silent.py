"""A node that falls silent while the others go on."""

from __future__ import annotations

from typing import Any

NODES = [f"node-{n}" for n in range(6)]


def test_a_node_that_writes_nothing_while_the_others_train_is_named(job: Any) -> None:
    job.trains(60, writers=NODES).trains(6, writers=NODES[:-1])
    assert job.kinds == []
    assert job.trains(6, writers=NODES[:-1]).kinds == ["silent"]
    assert job.text == "node-5 stopped writing; 5 of 6 nodes continue."
    assert job.trains(1, writers=NODES).kinds == []


def test_a_node_that_is_often_quiet_is_given_its_own_time(job: Any) -> None:
    for _ in range(50):
        job.trains(9, writers=NODES[:-1]).trains(1, writers=NODES)
    assert job.trains(24, writers=NODES[:-1]).kinds == []
    assert job.trains(6, writers=NODES[:-1]).kinds == ["silent"]


def test_nodes_that_wrote_only_at_the_start_are_not_missed(job: Any) -> None:
    assert job.trains(3, writers=NODES).trains(100, writers=NODES[:3]).kinds == []


def test_an_evaluation_that_one_node_prints_silences_nobody(job: Any) -> None:
    job.trains(60, writers=NODES).says(stage="evaluation")
    assert job.waits(300).says(writers=NODES[:1]).kinds == []
    assert job.trains(5, writers=NODES).kinds == []


def test_a_job_that_stops_as_a_whole_hangs(job: Any) -> None:
    assert job.trains(61, writers=NODES).waits(60).kinds == ["hang"]

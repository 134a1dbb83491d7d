"""How heavy an event is as the root of a failure, by what it says, when and where."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.kinds.logs.causes.root_events import root_weights
from diagnosis.model import Level
from tests.diagnosis.made_facts import NODES, facts_of, pace, rule

LOST = rule("cascade", "framework.collective.timeout", at=100.0, on=NODES)


def weight(event: dict[str, Any], *others: dict[str, Any], **more: Any) -> float:
    """The weight of the first of these events."""
    found = root_weights.weigh(facts_of(event, *others, **more))
    return float(found[0])


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (rule("root", "hardware.gpu.ecc"), 1.0),
        (rule("root", "hardware.gpu.ecc", "strong"), 0.7),
        (rule("root", "hardware.gpu.ecc", "weak"), 0.4),
        (rule("root", "hardware.gpu.ecc", novelty=0.5), 0.5),
        (rule("root", "hardware.gpu.ecc", novelty=None), 0.0),
        (rule("cascade", "framework.collective.timeout"), 0.0),
        (rule("confirmation", "hardware.gpu.ecc"), 0.0),
        ({"is_exception": True, "level": int(Level.NONE)}, 0.3),
        ({"level": int(Level.ERROR)}, 0.22),
        ({"level": int(Level.WARNING)}, 0.0),
        ({"template": 'File "train.py", line 3, in main'}, 0.0),
        (rule("root", "hardware.gpu.ecc", template='File "train.py", line 3, in main'), 0.0),
        ({"example": "    raise RuntimeError(text)"}, 0.0),
        ({"example": "    raise RuntimeError(text)", "is_exception": True}, 0.3),
    ],
)
def test_a_rule_weighs_by_its_strength_and_a_line_that_no_rule_knows_by_its_form(
    event: dict[str, Any], expected: float
) -> None:
    assert weight(event) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("role", "category", "on", "expected"),
    [
        ("teardown", "hardware.host.killed", NODES[:1], 0.55),
        ("confirmation", "hardware.host.killed", NODES[:2], 0.55),
        ("teardown", "hardware.host.killed", (), 0.55),
        ("teardown", "hardware.host.killed", NODES[:3], 0.0),
        ("cascade", "hardware.host.killed", NODES[:1], 0.0),
        ("teardown", "framework.launcher", NODES[:1], 0.0),
    ],
)
def test_a_kill_that_few_nodes_report_may_be_the_cause(
    role: str, category: str, on: tuple[str, ...], expected: float
) -> None:
    assert weight(rule(role, category, on=on)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("level", "more", "expected"),
    [
        (Level.ERROR, {}, 1.0),
        (Level.WARNING, {}, 0.6),
        (Level.INFO, {}, 0.4),
        (Level.DEBUG, {}, 0.4),
        (Level.NONE, {}, 1.0),
        (Level.WARNING, {"is_system": True}, 1.0),
        (Level.WARNING, {"is_exception": True}, 1.0),
        (Level.WARNING, {"is_exception": True, "at": 1.0}, 0.6),
        (Level.ERROR, {"example": "disk is slow. Ignoring."}, 0.4),
        (Level.WARNING, {"example": "Warning  BackOff  pod/run7-worker-3  Back-off restarting failed container"}, 1.0),
    ],
)
def test_what_its_own_program_calls_a_warning_weighs_less(level: Level, more: dict[str, Any], expected: float) -> None:
    event = rule("root", "hardware.gpu.ecc", level=int(level), **more)
    assert weight(event) == pytest.approx(expected)


@pytest.mark.parametrize(("level", "expected"), [(Level.WARNING, 0.0), (Level.INFO, 0.0)])
def test_a_warning_that_no_rule_knows_is_no_cause_by_itself(level: Level, expected: float) -> None:
    assert weight({"level": int(level), "on": NODES[:1]}) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"level": int(Level.WARNING), "at": 99.0, "on": NODES[:1]}, 0.15),
        ({"level": int(Level.WARNING), "at": 98.0, "on": NODES[:1]}, 0.15),
        ({"level": int(Level.WARNING), "at": 97.9, "on": NODES[:1]}, 0.0),
        ({"level": int(Level.WARNING), "at": 99.0, "on": NODES[:3]}, 0.0),
        ({"level": int(Level.WARNING), "at": 99.0, "on": NODES[:1], "jobs_with_it": 1}, 0.0),
        ({"level": int(Level.WARNING), "on": NODES[:1]}, 0.0),
        ({"level": int(Level.NONE), "at": 99.0, "on": NODES[:1]}, 0.0),
        ({"level": int(Level.NONE), "example": "the fan failed", "at": 99.0, "on": NODES[:1]}, 0.15),
        ({"level": int(Level.NONE), "example": "the fan failed", "on": ()}, 0.15),
        ({"level": int(Level.NONE), "example": "the fan failed", "until_at": 97 * 10**9, "on": ()}, 0.0),
        ({"level": int(Level.NONE), "example": "the fan failed", "at": 99.0, "on": NODES[:3]}, 0.0),
        ({"level": int(Level.NONE), "is_system": True, "at": 99.0, "on": NODES[:1]}, 0.15),
        ({"level": int(Level.NONE), "is_system": True, "on": NODES[:1]}, 0.0),
        ({"level": int(Level.NONE), "is_system": True, "at": 99.0, "on": NODES[:3]}, 0.0),
    ],
)
def test_a_new_line_of_few_nodes_at_the_time_of_the_failure_is_a_sign(event: dict[str, Any], expected: float) -> None:
    assert weight(event, pace=pace(last=100.0)) == pytest.approx(expected)


def test_without_healthy_jobs_to_compare_with_no_line_is_new() -> None:
    event = {"level": int(Level.WARNING), "at": 99.0, "on": NODES[:1]}
    alone = facts_of(event).pool
    alone.jobs[2:] = []
    assert weight(event, pace=pace(last=100.0), pool=alone) == 0.0


@pytest.mark.parametrize(
    ("strength", "on", "other", "expected"),
    [
        ("weak", NODES[:4], LOST, 0.06),
        ("weak", NODES[:2], LOST, 0.4),
        ("weak", NODES[:4], LOST | {"on": NODES[:3]}, 0.4),
        ("decisive", NODES[:4], LOST, 1.0),
    ],
)
def test_a_weak_complaint_of_many_about_connections_is_an_echo_beside_everybodys_consequence(
    strength: str, on: tuple[str, ...], other: dict[str, Any], expected: float
) -> None:
    event = rule("root", "network.rdma_timeout", strength, on=on, at=100.0)
    assert weight(event, other) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (rule("root", "hardware.gpu.ecc", at=145.0), 1.0),
        (rule("root", "hardware.gpu.ecc", at=145.1), 0.35),
        (rule("root", "hardware.host.lost", at=400.0, on=()), 1.0),
        (rule("root", "hardware.host.lost", at=400.0, on=NODES[:1]), 0.35),
    ],
)
def test_what_comes_long_after_the_first_consequence_is_hardly_its_cause(
    event: dict[str, Any], expected: float
) -> None:
    assert weight(event, LOST) == pytest.approx(expected)


def test_a_sign_must_come_sooner_after_the_first_consequence() -> None:
    early, late = ({"level": int(Level.WARNING), "at": at, "on": NODES[:1]} for at in (105.0, 105.1))
    assert weight(early, LOST, pace=pace(last=99.0)) == pytest.approx(0.15)
    assert weight(late, LOST, pace=pace(last=99.0)) == pytest.approx(0.15 * 0.35)


def test_without_a_time_of_the_consequence_nothing_is_late() -> None:
    undated = rule("cascade", "framework.collective.timeout", first_at=100 * 10**9, on=NODES)
    assert weight(rule("root", "hardware.gpu.ecc", at=900.0), undated) == 1.0


@pytest.mark.parametrize(
    ("at", "more", "expected"),
    [
        (90.0, {}, 1.0),
        (100.0, {}, 1.0),
        (101.0, {}, 0.1),
        (90.0, {"pace": pace(last=80.0, slow_from=3)}, 0.1),
    ],
)
def test_a_job_that_is_cancelled_after_a_consequence_had_another_cause(
    at: float, more: dict[str, Any], expected: float
) -> None:
    cancelled = rule("root", "platform.scheduler.cancelled", at=at)
    assert weight(cancelled, LOST, **more) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("survived", "undated", "expected"),
    [({0}, set(), 0.05), (set(), {0}, 0.7), ({1}, {1}, 1.0), ({0}, {0}, 0.05)],
)
def test_little_is_left_of_what_training_survived(survived: set[int], undated: set[int], expected: float) -> None:
    event = rule("root", "hardware.gpu.ecc")
    sets = {"survived": frozenset(survived), "undated": frozenset(undated)}
    assert weight(event, rule("root", "hardware.gpu.ecc"), **sets) == pytest.approx(expected)

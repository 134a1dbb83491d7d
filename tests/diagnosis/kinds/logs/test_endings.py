"""How an attempt ended, by its messages about an end and what its events show: the first row that holds."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.kinds.logs.causes.lifecycles import find_lifecycles
from diagnosis.kinds.logs.causes.outcome import Ending, find_ending
from diagnosis.kinds.logs.causes.root_events.roots import Roots
from diagnosis.model import Level
from tests.diagnosis.made_facts import facts_of, pace, rule

PLAIN = int(Level.NONE)
SUCCESS = {"example": "training finished", "level": PLAIN, "file": 0}
ENDED = {"example": "end of job", "level": PLAIN}
CANCELLED = {"example": "job cancelled by user", "level": PLAIN, "file": 0}
LIMIT = {"example": "walltime exceeded", "level": PLAIN}
ECC = rule("root", "hardware.gpu.ecc", file=0)
TORN_DOWN = rule("teardown", "framework.launcher")
LATER = {"first_line": 9}


def ending(*events: dict[str, Any], leader: int | None = None, weight: float = 1.0, **more: Any) -> Ending:
    weights = dict.fromkeys(range(len(events)), weight)
    facts = facts_of(*events, **more)
    return find_ending(facts, Roots(leader=leader, weights=weights), find_lifecycles(facts))


@pytest.mark.parametrize(
    ("events", "leader", "expected"),
    [
        ([SUCCESS], None, "succeeded"),
        ([SUCCESS, LIMIT], None, "succeeded"),
        ([LIMIT], None, "failed"),
        ([LIMIT, CANCELLED], None, "failed"),
        ([LIMIT | {"role": "cascade"}, ENDED], None, "failed"),  # a watchdog's limit, which tears the job down
        ([CANCELLED], None, "cancelled"),
        ([CANCELLED, ECC], 1, "failed"),
        ([ECC], 0, "failed"),
        ([rule("root", "platform.scheduler.cancelled")], 0, "cancelled"),
        ([TORN_DOWN, CANCELLED], None, "cancelled"),
        ([TORN_DOWN], None, "failed"),
        ([TORN_DOWN, ENDED], None, "failed"),
        ([rule("cascade", "framework.collective.timeout"), ENDED], None, "failed"),
        ([ECC, ENDED], None, "failed"),
        ([rule("confirmation", "hardware.gpu.ecc"), ENDED], None, "succeeded"),
        ([{"is_exception": True}, ENDED], None, "failed"),
        ([{}, ENDED], None, "succeeded"),
        ([TORN_DOWN | {"is_ordinary": True}, ENDED], None, "succeeded"),
        ([ENDED], None, "succeeded"),
        ([{}], None, "unknown"),
    ],
)
def test_what_says_more_of_the_end_comes_first(events: list[dict[str, Any]], leader: int | None, expected: str) -> None:
    assert ending(*events, leader=leader).outcome == expected


def test_the_messages_of_each_meaning_are_kept() -> None:
    found = ending(SUCCESS, CANCELLED, LIMIT)
    assert (found.success, found.cancelled, found.time_limit) == ((0,), (1,), (2,))


def test_what_training_survived_ended_nothing() -> None:
    survived = {"survived": frozenset({0})}
    assert ending(ECC, ENDED, leader=0, **survived).outcome == "succeeded"
    assert ending(CANCELLED, **survived).outcome == "unknown"
    assert ending(TORN_DOWN, **survived).outcome == "unknown"


@pytest.mark.parametrize(("weight", "reason"), [(0.08, "an error"), (0.07, "the job was torn down")])
def test_a_sign_is_no_root(weight: float, reason: str) -> None:
    assert ending(ECC, leader=0, weight=weight).reason.startswith(reason)


@pytest.mark.parametrize(
    ("lead", "others", "expected"),
    [
        (ECC | LATER, [TORN_DOWN], "failed"),
        (ECC | LATER, [], "succeeded"),  # nothing ended after it
        (ECC, [TORN_DOWN], "succeeded"),  # the success came later: it was survived
        (ECC | LATER | {"file": 1}, [TORN_DOWN], "succeeded"),  # in another file
        (ECC | LATER | {"is_exception": True}, [], "failed"),
        (ECC | LATER | {"is_exception": True, "strength": "weak"}, [], "succeeded"),
        (rule("root", "user.config.argument", "weak", file=0) | LATER, [], "failed"),
        (ECC | LATER | {"signature": None}, [TORN_DOWN], "succeeded"),
        (rule("confirmation", "hardware.gpu.ecc", file=0) | LATER, [TORN_DOWN], "succeeded"),
    ],
)
def test_a_known_cause_after_a_message_of_success_outweighs_it(
    lead: dict[str, Any], others: list[dict[str, Any]], expected: str
) -> None:
    assert ending(SUCCESS | {"first_line": 5}, lead, *others, leader=1).outcome == expected


@pytest.mark.parametrize(
    ("change", "stop", "expected"),
    [
        ({}, LATER, "failed"),  # the launcher cancels what is left
        ({}, {"first_line": 4}, "cancelled"),
        ({}, {"first_line": 3}, "cancelled"),
        ({}, LATER | {"file": 1}, "cancelled"),
        ({"example": "Received 15 death signal, failed (exitcode: 1)"}, LATER, "cancelled"),
        ({"example": "closing"}, LATER, "cancelled"),
        ({"role": "confirmation"}, LATER, "cancelled"),
    ],
)
def test_what_a_launcher_prints_once_a_worker_failed_cancels_nothing(
    change: dict[str, Any], stop: dict[str, Any], expected: str
) -> None:
    ended = TORN_DOWN | {"example": "worker failed (exitcode: 1)", "first_line": 4, "file": 0}
    assert ending(ended | change, CANCELLED | stop).outcome == expected


@pytest.mark.parametrize(
    ("last", "usual_s", "more", "expected"),
    [
        (400.0, 2.0, {}, "running"),
        (399.9, 2.0, {}, "unknown"),
        (300.0, 70.0, {}, "running"),
        (299.9, 70.0, {}, "unknown"),
        (400.0, 2.0, {"as_of": 1000.0}, "running"),
        (400.0, 2.0, {"as_of": 1001.0}, "unknown"),
        (400.0, None, {}, "running"),
    ],
)
def test_a_job_runs_whose_progress_is_near_to_the_end_of_the_evidence(
    last: float, usual_s: float, more: dict[str, Any], expected: str
) -> None:
    assert ending({"at": 1000.0}, pace=pace(last, usual_s), **more).outcome == expected


def test_without_progress_or_times_nothing_shows_that_a_job_runs() -> None:
    assert ending({"at": 1000.0}).outcome == "unknown"
    assert ending({}, pace=pace(400.0)).outcome == "unknown"


def test_a_planned_end_is_a_good_one() -> None:
    assert ending({"at": 1000.0}, pace=pace(999.0), is_complete=True).outcome == "succeeded"
    assert ending(TORN_DOWN, is_complete=True).outcome == "failed"


def test_connections_that_break_after_the_planned_end_are_its_shutdown() -> None:
    lost = rule("cascade", "framework.collective", at=200.0)
    assert ending(lost, is_complete=True).outcome == "succeeded"
    assert ending(lost).outcome == "failed"
    assert ending(lost, TORN_DOWN, is_complete=True).outcome == "failed"


def code(text: str, **more: Any) -> dict[str, Any]:
    """A wrapper's message about the code with which a process ended."""
    return {"example": text, "role": "teardown", "file": 0} | more


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([SUCCESS, code("process exiting with code: 1", **LATER)], "failed"),
        ([code("process exiting with code: 1"), SUCCESS | LATER], "failed"),  # the words of another program
        (
            [SUCCESS, code("attempt 1 gave status 3", **LATER), code("attempt 2 gave status 0", first_line=12)],
            "succeeded",
        ),
        ([SUCCESS, code("exit code: -9", **LATER)], "succeeded"),  # who was killed did not fail by itself
    ],
)
def test_the_last_status_of_a_process_outweighs_words_of_success(events: list[dict[str, Any]], expected: str) -> None:
    assert ending(*events).outcome == expected

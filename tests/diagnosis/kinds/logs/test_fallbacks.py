"""Corrections of weights by what a stop or a boot shows, and what leads where no root is found."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.root_events import fallbacks
from diagnosis.kinds.logs.causes.root_events.roots import Roots
from tests.diagnosis.made_facts import NODES, facts_of, pace, rule

CANCELLED = rule("root", "platform.scheduler.cancelled", at=100.0)
ORDER = rule("teardown", "platform.scheduler.cancelled", at=90.0)
RECEIVED = rule("teardown", "platform.scheduler.cancelled", at=100.0, example="Received SIGTERM: 15")
ECC = rule("root", "hardware.gpu.ecc", on=NODES[:1])
LOST = rule("cascade", "framework.collective.timeout", on=NODES)
BOOT = {"is_system": True, "example": "kernel: Linux version 6.8.0", "at": 101.0, "on": NODES[:1]}


def with_weights(*events: tuple[dict[str, Any], float], **more: Any) -> tuple[FailureFacts, pl.Series]:
    facts = facts_of(*(event for event, _ in events), **more)
    return facts, pl.Series([weight for _, weight in events], dtype=pl.Float64)


def chosen(*events: tuple[dict[str, Any], float], **more: Any) -> Roots:
    """The roots of events with these weights."""
    return fallbacks.choose(*with_weights(*events, **more))


def weights(*events: tuple[dict[str, Any], float], **more: Any) -> list[float]:
    """What corrections leave of the weights."""
    return [round(weight, 4) for weight in chosen(*events, **more).weights.values()]


def at(event: dict[str, Any], seconds: float) -> dict[str, Any]:
    return event | {"at": seconds}


@pytest.mark.parametrize(
    ("other", "weight", "expected"),
    [
        (at(ECC, 120.0), 1.0, [1.0, 0.05]),  # printed while the job is stopped
        (at(ECC, 103.1), 1.0, [1.0, 0.05]),
        (at(ECC, 103.0), 1.0, [0.1, 1.0]),  # clocks differ by a little
        (at(ECC, 50.0), 1.0, [0.1, 1.0]),  # a cause before it
        (at(ECC, 50.0), 0.35, [0.1, 0.35]),
        (at(ECC, 50.0), 0.34, [1.0, 0.34]),  # a sign is none
        (at(LOST, 54.0), 0.0, [0.1, 0.0]),  # consequences long before it
        (at(LOST, 56.0), 0.0, [1.0, 0.0]),
    ],
)
def test_a_stop_outranks_what_follows_it_and_no_cause_before_it(
    other: dict[str, Any], weight: float, expected: list[float]
) -> None:
    assert weights((CANCELLED, 1.0), (other, weight)) == expected


def test_a_stop_after_a_long_silence_is_only_the_end() -> None:
    assert weights((CANCELLED, 1.0), (at(ECC, 120.0), 1.0), pace=pace(last=89.0)) == [0.1, 1.0]
    assert weights((CANCELLED, 1.0), (at(ECC, 120.0), 1.0), pace=pace(last=91.0)) == [1.0, 0.05]


def test_a_stop_that_healthy_jobs_print_too_or_that_weighs_nothing_is_none() -> None:
    ordinary = CANCELLED | {"jobs_with_it": 1}
    assert weights((ordinary, 1.0), (at(ECC, 120.0), 1.0)) == [1.0, 1.0]
    assert weights((CANCELLED, 0.07), (at(ECC, 120.0), 1.0)) == [0.07, 1.0]


def test_the_order_to_stop_may_come_before_its_reason() -> None:
    between = at(ECC, 95.0)
    assert weights((CANCELLED, 1.0), (ORDER, 0.0), (between, 1.0)) == [1.0, 0.0, 0.05]
    assert weights((CANCELLED, 1.0), (at(ORDER, 101.0), 0.0), (between, 1.0)) == [0.1, 0.0, 1.0]


@pytest.mark.parametrize(
    ("other", "weight", "expected"),
    [
        (at(ECC, 120.0), 1.0, [0.3, 0.05]),  # and leads, as a sign
        (at(ECC, 100.0), 1.0, [0.0, 1.0]),
        (at(ECC, 50.0), 1.0, [0.0, 1.0]),
    ],
)
def test_a_stop_that_launchers_receive_explains_what_follows(
    other: dict[str, Any], weight: float, expected: list[float]
) -> None:
    assert weights((RECEIVED, 0.0), (other, weight)) == expected


@pytest.mark.parametrize(
    "earlier",
    [
        (at(ECC, 50.0), 0.08),
        (at(LOST, 50.0), 0.0),
        (rule("confirmation", "framework.launcher", at=50.0, example="worker failed (exitcode: 1)"), 0.0),
    ],
)
def test_of_a_stop_with_a_reason_only_kills_are_echoes(earlier: tuple[dict[str, Any], float]) -> None:
    kill = rule("root", "hardware.host.killed", at=120.0, on=NODES[:1])
    assert weights((RECEIVED, 0.0), earlier, (kill, 1.0))[2] == 0.05
    assert weights((RECEIVED, 0.0), earlier, (at(ECC, 120.0), 1.0))[2] == 1.0
    assert weights((RECEIVED, 0.0), earlier, (at(ECC, 120.0), 1.0), survived=frozenset({1}))[2] == 0.05


def test_a_stop_that_was_survived_or_that_healthy_jobs_receive_explains_nothing() -> None:
    late = (at(ECC, 120.0), 1.0)
    assert weights((RECEIVED, 0.0), late, survived=frozenset({0})) == [0.0, 1.0]
    assert weights((RECEIVED | {"jobs_with_it": 1}, 0.0), late) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("change", "weight"),
    [
        ({}, 0.55),
        ({"at": 100.0}, 0.0),
        ({"at": 100.1}, 0.55),
        ({"at": None}, 0.0),
        ({"is_system": False}, 0.0),
        ({"example": "kernel: eth0 is up"}, 0.0),
        ({"on": NODES[:3]}, 0.0),
    ],
)
def test_a_machine_that_boots_again_after_the_last_progress_went_down(change: dict[str, Any], weight: float) -> None:
    assert weights((BOOT | change, 0.0), pace=pace(last=100.0)) == [weight]


def test_without_progress_a_boot_is_the_machines_start() -> None:
    assert weights((BOOT, 0.0)) == [0.0]


def test_a_received_stop_leads_where_nothing_went_wrong_before() -> None:
    found = chosen((RECEIVED, 0.0), (at(LOST, 120.0), 0.0))
    assert (found.leader, found.by, found.weights[0]) == (0, fallbacks.LAUNCHER_STOPPED, 0.3)


@pytest.mark.parametrize(
    ("events", "more"),
    [
        ([(at(ORDER, 110.0), 0.0)], {}),  # nobody received it
        ([(RECEIVED, 0.0), (at(ORDER, 90.0), 0.0)], {}),  # somebody ordered it before
        ([(RECEIVED, 0.0)], {"survived": frozenset({0})}),
        ([(RECEIVED, 0.0)], {"pace": pace(last=80.0)}),  # after a hang it is only the end
        ([(RECEIVED, 0.0)], {"without": frozenset({fallbacks.LAUNCHER_STOPPED})}),
    ],
)
def test_a_received_stop_does_not_lead(events: list[tuple[dict[str, Any], float]], more: dict[str, Any]) -> None:
    assert chosen(*events, **more).leader is None


def test_a_received_stop_leads_where_its_order_was_told_later() -> None:
    assert chosen((RECEIVED, 0.0), (at(ORDER, 110.0), 0.0)).leader == 0
    assert chosen((RECEIVED, 0.0), (at(ECC, 50.0), 1.0)).by == ""


def test_in_one_file_the_order_of_lines_counts() -> None:
    untimed = {name: value for name, value in RECEIVED.items() if name != "at"}
    assert weights((untimed | {"first_line": 5}, 0.0), (ECC | {"first_line": 9}, 1.0)) == [0.0, 1.0]
    facts, own = with_weights((untimed | {"first_line": 5}, 0.0), (ECC | {"first_line": 9}, 1.0))
    facts.catalogue.occurrences.replace_column(
        facts.catalogue.occurrences.get_column_index("file"), pl.Series("file", [0, 0])
    )
    assert fallbacks.choose(facts, own).weights[1] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("events", "nodes", "expected"),
    [
        ([at(LOST, 9.0), at(LOST, 8.0)], NODES, 1),
        ([LOST, at(LOST, 8.0)], NODES, 1),
        ([at(LOST, 9.0) | {"file": 0}, at(LOST, 8.0) | {"file": 0}], NODES, 0),
        ([LOST], NODES, 0),
        ([at(LOST, 9.0) | {"level": 2}, at(LOST, 9.5)], NODES, 1),
        ([at(LOST, 9.0) | {"category": "unknown"}], NODES, None),
        ([LOST, LOST], NODES[:1], 1),
        ([ECC], NODES[:1], None),
    ],
)
def test_without_a_cause_the_earliest_consequence_is_the_line_to_read_and_information_comes_last(
    events: list[dict[str, Any]], nodes: tuple[str, ...], expected: int | None
) -> None:
    scores = {0: 1.0, 1: 2.0}
    assert fallbacks.line_to_read(facts_of(*events, nodes=nodes), scores) == expected


TORN_DOWN = rule("teardown", "framework.launcher", at=90.0)


def test_only_a_decision_is_an_order_to_stop() -> None:
    between = (at(ECC, 95.0), 1.0)
    assert weights((CANCELLED, 1.0), (TORN_DOWN, 0.0), between) == [0.1, 0.0, 1.0]
    told = rule("confirmation", "platform.scheduler.cancelled", at=90.0)
    for other in (TORN_DOWN, told, at(ECC, 90.0) | {"role": "benign"}):
        assert chosen((RECEIVED, 0.0), (other, 0.0)).leader == 0


def test_a_stop_that_is_just_heavy_enough_counts() -> None:
    assert weights((CANCELLED, 0.08), (at(ECC, 120.0), 1.0)) == [0.08, 0.05]


def test_an_order_to_stop_that_nobody_received_does_not_lead() -> None:
    ordinary = RECEIVED | {"jobs_with_it": 1}
    assert chosen((ordinary, 0.0), (LOST, 0.0)).leader is None


def test_a_cause_that_another_rule_explains_is_set_aside_and_no_mere_consequence() -> None:
    explained = ECC | {"role": "cascade", "own_role": "root"}
    consequence = LOST | {"own_role": "cascade"}
    cause = ECC | {"own_role": "root", "first_line": 9}
    facts = facts_of(explained, consequence, cause)
    assert fallbacks._explained(facts) == frozenset([0])


def test_a_decision_to_stop_is_a_mere_end_only_of_what_a_decisive_cause_had_broken() -> None:
    decision = CANCELLED | {"role": "cascade", "own_role": "root"}
    decisive = ECC | {"own_role": "root", "strength": "decisive", "first_line": 9}
    assert fallbacks._explained(facts_of(decision, decisive)) == frozenset()
    assert fallbacks._explained(facts_of(decision, decisive | {"strength": "strong"})) == frozenset([0])

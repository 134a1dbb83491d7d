"""Which events lead, and which others are of the same cause."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from diagnosis.kinds.logs.causes.root_events import roots
from diagnosis.kinds.logs.causes.root_events.roots import Roots
from tests.diagnosis.made_facts import NODES, facts_of, rule

ECC = "hardware.gpu.ecc"
MEMORY = "hardware.host.memory"
CODE = "user.code.exception"


def chosen(*events: tuple[dict[str, Any], float], **more: Any) -> Roots:
    """The roots of events with these weights."""
    facts = facts_of(*(event for event, _ in events), **more)
    return roots.choose(facts, pl.Series([weight for _, weight in events], dtype=pl.Float64), by="rule")


def leader(*events: tuple[dict[str, Any], float]) -> int | None:
    return chosen(*events).leader


def on(node: int, category: str = ECC, **more: Any) -> dict[str, Any]:
    return rule("root", category, on=NODES[node : node + 1], **more)


def test_without_an_event_that_is_heavy_enough_nothing_leads() -> None:
    found = chosen((on(1), 0.0799))
    assert (found.leader, found.members, found.by) == (None, (), "")
    assert found.weights == {0: pytest.approx(0.0799)}
    assert leader((on(1), 0.08)) == 0


def test_the_heaviest_leads_with_its_nodes_its_time_and_who_found_it() -> None:
    found = chosen((on(1, at=9.0), 0.5), (on(2, at=8.0), 0.9))
    assert (found.leader, found.members, found.nodes) == (1, (1,), ("n2",))
    assert (found.t0, found.is_wide, found.by) == (8_000_000_000, False, "rule")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (on(1, at=9.0), on(2, at=8.0), 1),  # the earlier one
        (on(1, at=8.0), on(2, at=9.0), 0),
        (on(1, at=8.0), on(2, at=8.0), 0),  # the one with the first line
        (on(1, at=8.0, first_line=9), on(2, at=8.0), 1),
        (rule("root", ECC, on=NODES[:5], at=1.0), on(2, at=8.0), 1),  # that of few nodes
        (on(1, at=9.0), on(2, until_at=8 * 10**9), 1),  # a line without a time counts as the next one with a time
        (on(1), on(2, at=8.0), 1),
    ],
)
def test_among_equals_few_nodes_come_before_many_and_early_before_late(
    first: dict[str, Any], second: dict[str, Any], expected: int
) -> None:
    assert leader((first, 0.9), (second, 0.9)) == expected


def test_weights_that_differ_by_less_than_a_hundredth_are_equal() -> None:
    assert leader((on(1, at=9.0), 0.904), (on(2, at=8.0), 0.9)) == 1
    assert leader((on(1, at=9.0), 0.92), (on(2, at=8.0), 0.9)) == 0


def test_a_node_with_more_candidates_comes_first() -> None:
    assert leader((on(1, at=1.0), 0.8), (on(2, at=2.0), 0.8), (on(2, at=3.0), 0.4)) == 1
    assert leader((on(1, at=1.0), 0.9), (on(2, at=2.0), 0.8), (on(2, at=3.0), 0.4)) == 0
    # at most by a fifth, whoever is there
    many = [(on(2, at=3.0), 0.5)] * 6
    assert leader((on(1, at=1.0), 0.97), (on(2, at=2.0), 0.8), *many) == 0
    wide = (rule("root", ECC, on=NODES[2:7], at=3.0), 0.4)
    assert leader((on(1, at=1.0), 0.8), (on(2, at=2.0), 0.8), wide) == 0


@pytest.mark.parametrize(
    ("other", "weight", "joins"),
    [
        (on(1, CODE), 0.3, True),
        (on(1, CODE), 0.29, False),
        (on(2, CODE), 0.9, False),
        (on(2, ECC), 0.9, False),
        (rule("root", ECC), 0.9, True),
        (rule("root", CODE), 0.9, False),
        (rule("root", CODE, on=NODES[:5]), 0.9, False),
        (rule("root", ECC, on=NODES[:5]), 0.9, True),
    ],
)
def test_events_on_the_few_nodes_of_the_cause_join_it(other: dict[str, Any], weight: float, joins: bool) -> None:
    assert chosen((on(1), 1.0), (other, weight)).members == ((0, 1) if joins else (0,))


@pytest.mark.parametrize(("category", "joins"), [(ECC, True), (CODE, False)])
def test_events_of_one_kind_join_a_cause_of_many_nodes(category: str, joins: bool) -> None:
    wide = rule("root", ECC, on=NODES[:5])
    found = chosen((wide, 1.0), (rule("root", category, on=NODES[:2]), 0.9))
    assert found.members == ((0, 1) if joins else (0,))
    assert (found.nodes, found.is_wide) == ((), True)


@pytest.mark.parametrize(
    ("more", "joins"),
    [
        ({"at": 1120.0}, True),
        ({"at": 1120.1}, False),
        ({"at": 100.0}, True),
        ({"at": 99.9}, False),
        ({}, True),
        ({"first_at": 50 * 10**9}, True),
        ({"first_at": 50 * 10**9, "until_at": 99 * 10**9}, False),
        ({"first_at": 50 * 10**9, "until_at": 100 * 10**9}, True),
        ({"first_at": 1121 * 10**9}, False),
    ],
)
def test_events_of_another_time_have_another_cause(more: dict[str, Any], joins: bool) -> None:
    assert chosen((on(1, at=1000.0), 1.0), (on(1, **more), 0.9)).members == ((0, 1) if joins else (0,))


def test_wordings_of_one_rule_that_share_nodes_are_of_all_their_nodes() -> None:
    first = rule("root", ECC, on=NODES[:2])
    wordings = [(rule("root", ECC, on=NODES[n : n + 2]), 0.9) for n in (1, 2)]
    assert chosen((first, 1.0), *wordings).is_wide
    apart = [(rule("root", ECC, on=NODES[n : n + 2]), 0.4) for n in (4, 5)]
    assert chosen((first, 1.0), *apart).nodes == ("n0", "n1")
    other = [(rule("root", CODE, on=NODES[n : n + 2]), 0.9) for n in (1, 2)]
    assert chosen((first, 1.0), *other).nodes == ("n0", "n1")
    unknown = [({"on": NODES[n : n + 2]}, 0.9) for n in (1, 2)]
    assert chosen(({"on": NODES[:2]}, 1.0), *unknown).nodes == ("n0", "n1")
    late = [(rule("root", ECC, on=NODES[n : n + 2], at=9000.0), 0.9) for n in (1, 2)]
    assert chosen((first | {"at": 1.0}, 1.0), *late).nodes == ("n0", "n1")


def test_a_cause_that_no_node_writes_is_on_the_nodes_that_it_names() -> None:
    assert chosen((rule("root", ECC), 1.0), named={0: ("n5",)}).nodes == ("n5",)
    assert chosen((on(1), 1.0), named={0: ("n5",)}).nodes == ("n1",)


def test_the_machine_of_a_daemon_that_reports_the_end_is_not_the_causes() -> None:
    ended = on(1, example="*** STEP 91.0 ON n1 CANCELLED AT 05:06:07 ***")
    assert chosen((ended, 1.0)).nodes == ()


def test_of_reports_that_a_worker_ended_only_the_first_kind_is_shown() -> None:
    deaths = [(on(1, example="worker failed (exitcode: 1)", first_line=line), 0.9) for line in (7, 5)]
    found = chosen((on(1, MEMORY), 1.0), *deaths)
    assert found.members == (0, 2)


@pytest.mark.parametrize(("count", "is_wide"), [(3, False), (4, True), (8, True)])
def test_an_echo_is_wide_where_half_of_the_nodes_print_a_consequence(count: int, is_wide: bool) -> None:
    lost = rule("cascade", "framework.collective.timeout", on=NODES[:count])
    assert roots.has_wide_echo(facts_of(lost), 8) is is_wide

"""Stacks that are only deeper than another one are joined to it."""

from __future__ import annotations

from diagnosis.kinds.stacks.ranks import cluster
from diagnosis.kinds.stacks.ranks.waits import COMM, Activity
from tests.patience import steps_of


def _groups(*keys: tuple[str, ...], kind: str = COMM) -> dict[tuple[str, ...], cluster.Group]:
    return {key: cluster.Group(key, (), Activity(kind, ""), [rank]) for rank, key in enumerate(keys)}


def test_a_deeper_stack_that_communicates_joins_the_deepest_one_of_which_it_is_the_inside() -> None:
    kept = cluster._merge(_groups(("c",), ("b", "c"), ("b", "d"), ("a", "x", "b", "d")))
    assert [(group.key, group.ranks) for group in kept] == [(("c",), [0, 1]), (("b", "d"), [2, 3])]
    assert len(cluster._merge(_groups(("c",), ("b", "c"), kind="user"))) == 2


def test_a_stack_of_thousands_of_calls_is_not_compared_call_by_call() -> None:
    deep = _groups(("c",), tuple(map(str, range(5_000))))
    assert steps_of(lambda: cluster._merge(deep)) < 100

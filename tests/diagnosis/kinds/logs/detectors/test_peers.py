"""The node that its peers complain about."""

from __future__ import annotations

from diagnosis.kinds.logs.compare.detectors.peers import most_named

NODES = {f"n{i}": f"n{i}" for i in range(6)}


def test_the_clear_favourite_is_seen() -> None:
    clear = [(f"Connection closed by peer [n4]:{i}", f"n{i}") for i in range(4)]
    assert [clue.node for clue in most_named(clear, NODES)] == ["n4"]


def test_complaints_in_a_circle_name_nobody() -> None:
    circle = [(f"Connection reset by peer [n{(i + 1) % 4}]:1", f"n{i}") for i in range(4)]
    assert most_named(circle, NODES) == []


def test_a_node_that_only_one_names_is_not_seen() -> None:
    assert most_named([("Connection closed by peer [n4]:1", "n0")], NODES) == []

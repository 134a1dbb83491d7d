"""Clues about nodes and their sum."""

from __future__ import annotations

import pytest

from diagnosis.kinds.logs.compare.clues import Clue, fuse


def test_two_lines_of_one_fault_prove_no_more_than_one() -> None:
    clue = Clue("n1", 0.6, "n1 is the only node with: the link is down")
    assert fuse([clue, clue]) == [("n1", pytest.approx(0.6), (clue.reason,))]


def test_independent_hints_at_one_node_join() -> None:
    found = fuse([Clue("n1", 0.5, "it wrote no log"), Clue("n1", 0.5, "its peers name it"), Clue("n2", 0.6, "alone")])
    assert [(node, score) for node, score, _ in found] == [("n1", pytest.approx(0.75)), ("n2", pytest.approx(0.6))]

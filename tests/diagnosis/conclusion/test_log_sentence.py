"""How many other nodes a headline counts after the cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from diagnosis.conclusion.sentences import log_sentence
from diagnosis.model import Role
from diagnosis.records.result import LogEvent


@pytest.mark.parametrize(
    ("nodes", "of_nodes", "listed", "others"),
    [
        (4, 4, ("a", "b", "c", "d"), 3),
        (3, 4, ("b", "c", "d"), 3),
        (1024, 1024, ("b", "c"), 1023),  # the culprit is one of those whose names are not listed
        (500, 1024, ("b", "c"), 500),
    ],
)
def test_a_headline_counts_the_other_nodes_without_the_culprit(
    nodes: int, of_nodes: int, listed: tuple[str, ...], others: int
) -> None:
    root = LogEvent("1", "link down", "root", node_names=("a",), nodes=1, of_nodes=of_nodes, first_at=1.0)
    reaction = LogEvent(
        "2", "timeout", Role.CASCADE.value, nodes=nodes, of_nodes=of_nodes, node_names=listed, first_at=31.0
    )
    logs = cast("Any", SimpleNamespace(events=(root, reaction)))

    assert log_sentence._aftermath(logs, (), (root,)) == f" {others:,} other nodes followed 30 s later."
    nameless = msgspec.structs.replace(root, node_names=(), nodes=0)
    assert log_sentence._aftermath(logs, ("a",), (nameless,)) == f" {others:,} other nodes followed 30 s later."


@pytest.mark.parametrize(
    ("stage", "iteration", "told"),
    [
        ("launch", None, " An earlier launch reached iteration 66."),
        ("training", None, ""),
        ("launch", 67, ""),
    ],
)
def test_a_launch_that_failed_without_progress_tells_how_far_an_earlier_one_came(
    stage: str, iteration: int | None, told: str
) -> None:
    timeline = SimpleNamespace(dated_iterations=((10.0, 1), (20.0, 66)))
    logs = cast("Any", SimpleNamespace(stage=stage, iteration=iteration, timeline=timeline))
    assert log_sentence._earlier_progress(logs) == told

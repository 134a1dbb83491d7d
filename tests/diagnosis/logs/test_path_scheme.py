"""Ranks and nodes in paths are believed where the paths of a job number several of them."""

from __future__ import annotations

import pytest

from diagnosis.logs.sources import Sources, schemed


def placed(path: str, *others: str) -> tuple[str | None, int | None]:
    own = schemed(Sources(path).all, [path, *others])[0]
    return own.node, own.rank


def test_the_one_rank_in_the_name_of_an_experiment_labels_no_line() -> None:
    paths = [f"sigkill_rank5/logs/gpu-node-0{n}/agent.log" for n in range(3)]
    assert placed(*paths) == ("gpu-node-00", None)


def test_ranks_that_the_paths_number_are_believed() -> None:
    assert placed("run/rank_5.log", "run/rank_6.log") == (None, 5)


@pytest.mark.parametrize(
    ("paths", "node"),
    [
        (["sigkill_node3/a.log", "sigkill_node3/b.log"], None),
        (["trn-17.log", "trn-18.log"], "trn-17"),
        (["gpu-node-02/a.log", "gpu-node-02/b.log"], "gpu-node-02"),
    ],
)
def test_a_doubtful_name_is_a_node_only_in_company(paths: list[str], node: str | None) -> None:
    assert placed(*paths)[0] == node


def test_a_rank_that_a_line_states_outranks_the_paths() -> None:
    sources = Sources("run/rank_5.log")
    sources.index("", "7", "", "")
    assert [(s.rank, s.rank_how) for s in schemed(sources.all, ["run/rank_5.log"])] == [(None, ""), (7, "line")]

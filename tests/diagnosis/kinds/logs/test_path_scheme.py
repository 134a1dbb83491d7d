"""Ranks and nodes in paths are believed where the paths of a job number several of them."""

from __future__ import annotations

import pytest

from diagnosis.kinds.logs.columns.sources import PathScheme, Sources, with_scheme


def placed(path: str, *others: str) -> tuple[str | None, int | None]:
    own = with_scheme(Sources(path).all, PathScheme([path, *others]))[0]
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
    assert [(s.rank, s.rank_how) for s in with_scheme(sources.all, PathScheme(["run/rank_5.log"]))] == [
        (None, ""),
        (7, "line"),
    ]


def test_a_line_that_states_only_a_rank_makes_the_paths_doubtful_name_no_surer() -> None:
    sources = Sources("wren-1b5/12.out")
    sources.index("", "7", "", "")
    assert [(s.node, s.rank) for s in with_scheme(sources.all, PathScheme(["wren-1b5/12.out"]))] == [
        (None, None),
        (None, 7),
    ]


def test_a_name_before_the_number_of_a_job_is_no_node() -> None:
    assert placed("OAR.2723023.stderr", "chifflot-100/dmesg.out")[0] is None


def test_the_paths_of_a_job_are_looked_at_once_for_all_its_files() -> None:
    looked = []
    paths = [f"a0/rank{n}.log" for n in range(50)]
    scheme = PathScheme(looked.append(path) or path for path in paths)

    found = [with_scheme(Sources(path).all, scheme)[0] for path in paths]

    assert [(source.node, source.rank) for source in found] == [(None, n) for n in range(50)]
    assert looked == paths

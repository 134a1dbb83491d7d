"""Who is complained about and complains about nobody was first."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.compare.detectors import complaints
from tests.diagnosis.cases import case_of_files

NODES = ("cn1", "cn2", "cn3", "cn4", "cn5")


def line(second: int, text: str) -> str:
    return f"2026-03-01 08:00:{second:02d},000 INFO {text}"


def clues_of(lost: dict[str, str], work: Path) -> dict[str, str]:
    """The clues about a job whose nodes each lose the peer that is given."""
    files = {}
    for node in NODES:
        steps = [line(n, f"iteration {n} loss {3 - n / 50}") for n in range(1, 31)]
        peer = lost.get(node)
        gone = [f"RuntimeError: Connection closed by peer [{peer}]:4200"] if peer else []
        files[f"{node}/train.log"] = [*steps, *gone]
    return {clue.node: clue.reason for clue in complaints.find_clues(case_of_files(work, files, NODES))}


def test_the_sink_of_the_complaints_is_the_one_that_was_lost(tmp_path: Path) -> None:
    found = clues_of({"cn1": "cn4", "cn2": "cn1", "cn3": "cn4", "cn5": "cn4"}, tmp_path)
    assert found == {"cn4": "3 other nodes complain about cn4, which complains about nobody"}


def test_where_all_complain_nobody_was_first(tmp_path: Path) -> None:
    around = {"cn1": "cn2", "cn2": "cn3", "cn3": "cn4", "cn4": "cn5", "cn5": "cn1"}
    assert clues_of(around, tmp_path) == {}


def test_several_sinks_of_few_nodes_prove_nothing(tmp_path: Path) -> None:
    assert clues_of({"cn1": "cn4", "cn2": "cn5", "cn3": "cn4"}, tmp_path) == {}


def ranks_that_complain(about: dict[int, object], work: Path) -> dict[str, str]:
    """The clues about eight ranks on four nodes that print steps; some then name another rank."""
    files = {}
    for rank in range(8):
        steps = [line(n, f"[rank{rank}] iteration {n} loss {3 - n / 50}") for n in range(1, 31)]
        error = f"2026-03-01 08:00:31,000 ERROR [rank{rank}]: RuntimeError: Connection closed by peer {about.get(rank)}"
        gone = [error] if rank in about else []
        files[f"cn{rank // 2}/rank{rank}.log"] = [*steps, *gone]
    nodes = tuple(f"cn{number}" for number in range(4))
    return {clue.node: clue.reason for clue in complaints.find_clues(case_of_files(work, files, nodes))}


def test_the_rank_that_all_others_name_and_that_alone_says_nothing_was_lost(tmp_path: Path) -> None:
    found = ranks_that_complain({rank: 5 for rank in range(8) if rank != 5}, tmp_path)
    assert found == {"cn2": "7 other ranks complain about rank 5 of cn2, which alone does not"}


def test_a_number_of_a_rank_that_says_it_too_names_nobody(tmp_path: Path) -> None:
    assert ranks_that_complain(dict.fromkeys(range(8), 5), tmp_path) == {}


def test_a_number_that_few_ranks_name_names_nobody(tmp_path: Path) -> None:
    assert ranks_that_complain(dict.fromkeys(range(4), 5), tmp_path) == {}


def test_two_ranks_that_all_others_name_are_not_told_apart(tmp_path: Path) -> None:
    both = {rank: "4 and 5" for rank in range(8) if rank not in (4, 5)}
    assert ranks_that_complain(both, tmp_path) == {}


def test_a_number_in_the_header_of_a_line_names_no_rank(tmp_path: Path) -> None:
    without_third = {rank: "of mine" for rank in range(8) if rank != 3}
    assert ranks_that_complain(without_third, tmp_path) == {}

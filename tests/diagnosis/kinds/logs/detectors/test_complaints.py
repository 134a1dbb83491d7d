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

"""Of an error that spreads, the report says which node printed it first, and quotes that line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.diagnosis.kinds.logs.test_first_consequence import report_of

CAUSE = "RuntimeError: CUDA error: an illegal memory access was encountered"


def written(at: str, node: int) -> str:
    return f"2026-03-01T10:00:0{node}.100Z epoch 3 loss 2.1\n2026-03-01T10:05:{at}Z {CAUSE} ({node})\n"


def found(tmp_path: Path, *times: str) -> dict[str, Any]:
    files = {f"trn-{n}": written(at, n) for n, at in enumerate(times, 4)}
    return report_of(tmp_path, **files)


def roots(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in report["logs"]["events"] if event["role"] == "root"]


def test_the_nodes_stand_in_the_order_of_their_first_lines(tmp_path: Path) -> None:
    (root,) = roots(found(tmp_path, "09.700", "09.000", "09.356", "09.720"))
    assert [row["node"] for row in root["writers"]] == ["trn-5", "trn-6", "trn-4", "trn-7"]
    assert [round(row["time"] - root["first_at"], 3) for row in root["writers"]] == [0, 0.356, 0.7, 0.72]
    assert {row["line"] for row in root["writers"]} == {2}


def test_the_quoted_line_is_the_one_that_gives_the_time(tmp_path: Path) -> None:
    (root,) = roots(found(tmp_path, "09.700", "09.000", "09.356", "09.720"))
    assert root["example"].endswith("(5)")


def test_the_sentence_names_the_first_node_where_the_clocks_can_tell(tmp_path: Path) -> None:
    told = found(tmp_path, "09.700", "09.000", "09.356", "09.720")
    assert " on 4 of 4 nodes, first on trn-5 by 356 ms" in told["headline"]


def test_the_sentence_names_no_first_node_of_a_tie_or_of_whole_seconds(tmp_path: Path) -> None:
    for place, times in enumerate((("09.700", "09.701", "09.702"), ("09", "10", "10"))):
        told = found(tmp_path / str(place), *times)
        assert " on 3 of 3 nodes" in told["headline"]
        assert "first on" not in told["headline"]


def test_an_error_of_one_node_has_no_order(tmp_path: Path) -> None:
    told = report_of(
        tmp_path, **{"trn-4": written("09.700", 4), "trn-5": "2026-03-01T10:00:05.100Z epoch 3 loss 2.1\n"}
    )
    assert [root["writers"] for root in roots(told)] == [[]]

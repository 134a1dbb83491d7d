"""What ranks and nodes state of their steps becomes measures, one for each place and quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from diagnosis.facts import unevenness
from diagnosis.kinds.logs.compare import rank_measures
from diagnosis.kinds.logs.rows import events
from diagnosis.kinds.logs.rows.events import LogTable
from tests.diagnosis.cases import case_of_files


def lines(step: int, rank: int, ms: float, more: str = "") -> str:
    return f"2026-03-02 08:{step:02}:00 INFO rank={rank} step={step}{more} compute_ms={ms + step % 3}"


def told(folder: Path, files: dict[str, list[str]]) -> list[str]:
    measures = rank_measures.measured(case_of_files(folder, files))
    return [result.sentence for result in unevenness.compare_places(measures)]


def test_ranks_that_write_one_file_are_compared_by_the_rank_of_each_line(tmp_path: Path) -> None:
    files = {
        f"gpu-{node}.log": [
            lines(step, 4 * node + rank, 400 if 4 * node + rank == 6 else 180)
            for step in range(20)
            for rank in range(4)
        ]
        for node in range(4)
    }
    [sentence] = told(tmp_path, files)
    assert sentence.startswith("gpu-1 takes longer")
    assert "rank 6 compute_ms: 401 ms, the others 181 ms" in sentence


def test_a_measure_leads_to_a_line_and_one_writer_alone_shows_the_course_of_the_job(tmp_path: Path) -> None:
    files = {
        "gpu-1.log": [f"2026-03-02 08:{n:02}:00 INFO step={n} step_ms={900 + n}" for n in range(30)],
        "gpu-2.log": [],
    }
    [measure] = rank_measures.measured(case_of_files(tmp_path, files))
    assert (measure.path, measure.line, measure.steps[:2]) == ("gpu-1.log", 30, (0, 1))


def test_lines_that_differ_by_the_name_of_their_node_alone_are_one_message(tmp_path: Path) -> None:
    files = {
        f"{name}/rank_{rank}.log": [
            lines(step, rank, 400 if name == "cz9" else 180, f" node={name}") for step in range(20)
        ]
        for rank, name in enumerate(("ab1", "bc2", "cz9", "de3", "ef4"))
    }
    assert "cz9" in told(tmp_path, files)[0]


def test_the_files_of_a_message_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = {4: 0, 16: 0}
    read_rows = LogTable._rows

    def counted(table: LogTable, files: Sequence[int]) -> pl.DataFrame:
        reads[count] += len(files) > 0
        return read_rows(table, files)

    monkeypatch.setattr(LogTable, "_rows", counted)
    monkeypatch.setattr(events, "MAX_KEPT_LINES", 0)
    for count in (4, 16):
        files = {f"gpu-{node}.log": [lines(step, node, 180) for step in range(20)] for node in range(count)}
        case = case_of_files(tmp_path / str(count), files)
        reads[count] = 0
        assert len({measure.path for measure in rank_measures.measured(case)}) == count
    assert reads[4] == reads[16] > 0


def test_a_slow_save_is_compared_though_it_is_rare(tmp_path: Path) -> None:
    files = {
        f"gpu-{node}.log": [
            f"2026-03-02 08:{n:02}:00 INFO rank {node}: wrote part-{node}.pt (7.8 MB) in {seconds:.2f} s"
            for n in range(6)
        ]
        for node, seconds in enumerate((0.9, 0.9, 5.3, 0.9, 0.9))
    }
    assert "rank 2 wrote in: 5.30 s, the others 900 ms" in told(tmp_path, files)[0]

"""Lines of a message over the files of a job: order, limit, and equal results for small and large files."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

from diagnosis.files.parsing import parse
from diagnosis.kinds.logs.rows import events, occurrences, slabs, stored_rows
from diagnosis.model import ParseHints

FILES = 5
STEP = "step {n} loss 1.5"


@pytest.fixture(autouse=True, params=[0, events.MAX_KEPT_LINES], ids=["read", "kept"])
def few_or_many_lines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a large job, read for each question, are those of a small one, which are kept."""
    monkeypatch.setattr(events, "MAX_KEPT_LINES", request.param)


@pytest.fixture
def table(tmp_path: Path) -> events.LogTable:
    """Five files with a step a second; each second line states no time."""
    parsed = []
    for file in range(FILES):
        text = "".join(f"2026-03-01 08:0{file}:0{n} {STEP.format(n=n)}\n  no time here\n" for n in range(4))
        stream = io.BytesIO(text.encode())
        parsed.append(parse(stream, f"node-{file}.log", ParseHints(), tmp_path / str(file)))
    return events.build(parsed)


def message(table: events.LogTable, word: str) -> int:
    return int(next(m for m, text in table.messages.select("masked", "text").iter_rows() if word in text))


def test_rows_come_in_the_order_of_files_and_lines(table: events.LogTable) -> None:
    rows = table.rows([message(table, "step")])

    assert rows.select("file", "line").rows() == [(file, line) for file in range(FILES) for line in (1, 3, 5, 7)]


def test_a_limit_keeps_the_first_rows(table: events.LogTable) -> None:
    step = message(table, "step")

    assert table.rows([step], limit=6).equals(table.rows([step]).head(6))


def test_only_the_files_asked_for_are_read(table: events.LogTable) -> None:
    assert set(table.rows([message(table, "step")], files=[1, 3])["file"]) == {1, 3}


def test_a_line_without_a_time_takes_that_of_the_line_before_it_in_its_file(table: events.LogTable) -> None:
    stated = table.rows([message(table, "step")])["at"]

    assert table.rows([message(table, "no time")])["at"].to_list() == stated.to_list()


def test_files_read_one_by_one_give_the_same_rows(table: events.LogTable, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [message(table, "step"), message(table, "no time")]
    together = table.rows(wanted)

    monkeypatch.setattr(occurrences, "MAX_LINES", 1)

    assert table.rows(wanted).equals(together)


def test_logs_that_share_a_table_are_read_at_once_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, own = tmp_path / "shared.parquet", tmp_path / "own.parquet"
    pl.DataFrame({"masked": range(6)}).write_parquet(shared)
    pl.DataFrame({"masked": [9]}).write_parquet(own)
    scanned = []
    scan = stored_rows.scan
    monkeypatch.setattr(stored_rows, "scan", lambda rows: scanned.append(rows) or scan(rows))
    wanted = [(shared, 4, 2), (shared, 0, 1), (own, None, 0), (shared, 1, 3)]

    found = stored_rows.read([stored_rows.Rows(*one) for one in wanted], ["masked"])

    assert found["masked"].to_list() == [4, 5, 0, 9, 1, 2, 3]
    assert [one.size for one in scanned if one.file == shared] == [6]


def test_a_message_that_nobody_prints_has_no_rows(table: events.LogTable) -> None:
    assert table.rows([1]).columns == table.rows([message(table, "step")]).columns
    assert table.rows([1]).is_empty()


def test_a_window_of_a_large_log_has_the_time_of_a_line_far_before_it(
    table: events.LogTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = table.around(2, 1, 8)

    monkeypatch.setattr(occurrences, "MAX_LINES", 1)
    monkeypatch.setattr(slabs, "LINES_BEFORE", 1)

    assert table.around(2, 4, 6).equals(whole[3:6])
    assert table.around(2, 0, 99).equals(whole)
    assert table.around(2, 9, 12).equals(whole[:0])

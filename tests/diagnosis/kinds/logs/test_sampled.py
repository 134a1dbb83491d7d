"""Of a message with many lines in a log some are read: the last ones, and a few in places that are evenly spread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.columns import tables
from diagnosis.kinds.logs.rows import events, occurrences, slabs, stored_rows
from diagnosis.kinds.logs.rows.events import LogTable
from tests.diagnosis.kinds.logs.test_occurrences import FILE, written

LONG = st.lists(FILE, min_size=1, max_size=8).map(lambda parts: [line for part in parts for line in part])


@pytest.fixture(autouse=True, scope="module")
def many_lines() -> Iterator[None]:
    """No log is so small that its rows are kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "MAX_KEPT_LINES", 0)
        yield


def table_of(lines: list[tuple[int, int, int | None]], folder: Path) -> LogTable:
    rows = (written(lines, folder / "log.parquet"),)
    found, spans = occurrences.occurrences_of_files(rows, [0], None, None)
    sources = pl.DataFrame(
        {"source": [0], "file": [0], "node": ["a"], "rank": [0]}, schema_overrides={"file": pl.UInt32}
    )
    return LogTable(("log",), rows, sources, pl.DataFrame(), found, spans)


@settings(max_examples=100, deadline=None)
@given(
    lines=LONG,
    most=st.integers(2, 12),
    places=st.integers(1, 4),
    slab=st.sampled_from([3, 1000]),
    group=st.sampled_from([1, 4, 1000]),
)
def test_the_end_and_the_first_line_are_among_at_most_so_many_lines(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[int, int, int | None]],
    most: int,
    places: int,
    slab: int,
    group: int,
) -> None:
    table = table_of(lines, tmp_path_factory.mktemp("log"))
    every = table.rows([1, 2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "MAX_PLACES_READ", min(places, most - most // 2))
        usual = table.sampled([1, 2], 0, most)
        patch.setattr(slabs, "LINES_BEFORE", 2)
        patch.setattr(occurrences, "MAX_LINES", slab)
        patch.setattr(tables, "ROWS_PER_GROUP", group)
        found = table.sampled([1, 2], 0, most)
    assert found.equals(usual), "the lines that are read at once change nothing"
    assert found.equals(every.join(found.select("line"), on="line", how="semi", maintain_order="left"))
    assert found.height <= most or every.height <= most
    if every.height <= most:
        assert found.equals(every)
    else:
        assert found.tail(most // 2).equals(every.tail(most // 2))
        assert found["line"][0] == every["line"][0]


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of lines of each read of a table, from now on."""
    read: list[int] = []
    scan = stored_rows.scan
    monkeypatch.setattr(stored_rows, "scan", lambda rows: (read.append(rows.size), scan(rows))[1])
    return read


def test_few_lines_of_a_long_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of([(0, 1 + n % 2, n) for n in range(100_000)], tmp_path)
    monkeypatch.setattr(tables, "ROWS_PER_GROUP", 100)
    read = reads_of(monkeypatch)
    found = table.sampled([1], 0, 1600)
    assert found.height == 1600
    assert sum(read) < 10_000
    places = found["line"].to_numpy() // 10_000
    assert len(set(places.tolist())) == 10, "in all of the log"


def test_a_log_of_usual_length_is_read_once_for_all_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of([(0, 1 + n % 2, n) for n in range(20_000)], tmp_path)
    read = reads_of(monkeypatch)
    assert table.sampled([1], 0, 1600).height == 1600
    assert len(read) <= 3
    assert sum(read) < 1.5 * 20_000


def test_a_log_without_times_is_not_searched_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of([(0, 1, None)] * 50_000, tmp_path)
    monkeypatch.setattr(slabs, "_stated_before", lambda *_: pytest.fail("no line states a time"))
    assert table.sampled([1], 0, 1600)["at"].null_count() == 1600

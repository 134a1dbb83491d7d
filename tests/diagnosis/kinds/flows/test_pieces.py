"""A capture that is read in pieces, of any size and in any order, has the same report as one in memory."""

from __future__ import annotations

import gc
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from diagnosis.kinds.flows.capture import packing, pieces, records_in_order
from diagnosis.kinds.flows.capture.arrays import idle_gaps
from diagnosis.kinds.flows.capture.capture import Flows, join_group
from diagnosis.kinds.flows.steps.segment import bursts_of, moved_before
from diagnosis.model import Runner
from tests.diagnosis.kinds.flows.helpers import parsed
from tests.diagnosis.kinds.flows.simulate import Job, Slow, noisy, simulate, together
from tests.diagnosis.kinds.reports import flows_json

JOBS: dict[str, list[Job]] = {
    "pipelines of which a machine is slow": [
        Job(tp=4, pp=2, dp=4, microbatches=6, steps=24, gpus=4, slow=(Slow("gpu", 8, 14, 1.6, dp=1),))
    ],
    "two jobs at once": [Job(tp=2, pp=2, dp=4, gpus=2, steps=12), Job(tp=2, pp=1, dp=8, gpus=2, steps=16, gap=0.05)],
    "experts": [Job(tp=1, pp=1, dp=8, ep=4, gpus=1, steps=16)],
    "weights gathered layer by layer": [Job(tp=1, pp=1, dp=8, gpus=1, mode="zero3", steps=16)],
}


def report_of(
    records: pl.DataFrame, rows: list[dict[str, Any]], work: Path, parts: int = 1, runner: Runner | None = None
) -> tuple[str, list[pl.DataFrame]]:
    """The report and its tables, of records in several files."""
    files = []
    for number, part in enumerate(np.array_split(np.arange(records.height), parts)):
        buffer = io.BytesIO()
        records[part].write_parquet(buffer)
        files.append(parsed(buffer.getvalue(), work / str(number)))
    report = flows_json(files, inventory=rows, tables=work / "tables", runner=runner)
    tables = [pl.read_parquet(path) for path in sorted((work / "tables").glob("*.parquet"))]
    del report["captures"]
    return json.dumps(report, sort_keys=True), tables


def assert_same(found: tuple[str, list[pl.DataFrame]], whole: tuple[str, list[pl.DataFrame]]) -> None:
    """The reports are equal; of their tables, which hold sums of seconds, to the last digits."""
    assert found[0] == whole[0]
    for one, other in zip(found[1], whole[1], strict=True):
        assert_frame_equal(one, other, rel_tol=1e-5, abs_tol=1e-6)


@pytest.mark.parametrize("what", JOBS)
def test_the_report_is_the_same_for_every_size_of_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    captures = together(*JOBS[what])
    records = (
        noisy(captures[0].records, loss=0.05, split=0.05, merge=0.05, twice=0.05)
        if len(captures) == 1
        else pl.concat([c.records for c in captures])
    )
    rows = [row for c in captures for row in c.inventory]
    whole = report_of(records, rows, tmp_path / "whole")
    assert json.loads(whole[0])["jobs"][0]["steps"]

    for size in (records.height // 2, 701, 97):
        monkeypatch.setattr(pieces, "PIECE_ROWS", size)
        assert_same(report_of(records, rows, tmp_path / str(size)), whole)


def memory_of_files() -> int:
    """Bytes of files that are in the memory of this process."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) << 10 for row in rows if row.startswith("RssFile:"))


def test_columns_in_files_are_in_memory_while_a_piece_of_them_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 1 << 16)
    disk = pieces.Disk(tmp_path)
    kinds = (float, float, "i4", "i4", float, "i4", "i4", bool, bool)
    columns = [disk.empty(1 << 20, kind) for kind in kinds]
    flows = Flows(*columns, disk=disk)
    flows.start[:] = 7.0
    flows.let_go()
    before = most = memory_of_files()

    for _, part in flows.parts():
        assert all(column.sum() >= 0 for column in part.columns())
        most = max(most, memory_of_files())

    assert most - before < flows.start.nbytes < sum(column.nbytes for column in columns)
    assert flows.start.min() == 7.0


def test_what_was_sent_leaves_memory_once_it_is_done_with(tmp_path: Path) -> None:
    whole = np.arange(1 << 20)
    sent = packing.pack([whole], pieces.Disk(tmp_path), is_kept=True)
    before = memory_of_files()
    gc.disable()  # nothing waits to be collected
    try:
        (found,) = packing.unpack(sent, pieces.Disk(tmp_path))
        assert (found == whole).all()
        assert memory_of_files() - before > whole.nbytes / 2

        del found

        assert memory_of_files() - before < whole.nbytes / 2
    finally:
        gc.enable()


def test_the_report_is_the_same_for_several_files_and_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = simulate(Job(tp=1, pp=1, dp=8, gpus=1, steps=12))
    twice = pl.concat([capture.records, capture.records.sample(fraction=0.3, seed=1)]).sample(
        fraction=1.0, shuffle=True, seed=2
    )
    whole = report_of(twice, capture.inventory, tmp_path / "whole")
    assert json.loads(whole[0])["duplicates"] > 0

    monkeypatch.setattr(pieces, "PIECE_ROWS", 250)
    assert_same(report_of(twice, capture.inventory, tmp_path / "cut", parts=3), whole)
    assert all(path.suffix == ".parquet" for path in (tmp_path / "cut" / "tables").iterdir())


def test_records_of_another_year_are_left_out_of_any_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = simulate(Job(tp=1, pp=1, dp=4, gpus=1, steps=12))
    astray = capture.records.head(1).with_columns(pl.col("start_time") + 400 * 86_400.0)
    records = pl.concat([capture.records, astray])
    whole = report_of(records, capture.inventory, tmp_path / "whole")
    assert "1 record lies more than 30 days" in whole[0]

    monkeypatch.setattr(pieces, "PIECE_ROWS", 100)
    assert_same(report_of(records, capture.inventory, tmp_path / "cut"), whole)


@pytest.mark.parametrize("equal", [0.7, 1.0])
def test_many_records_of_the_earliest_start_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, equal: float
) -> None:
    records = simulate(Job(tp=1, pp=1, dp=4, gpus=1, steps=12)).records.sort("start_time")
    share = pl.int_range(pl.len()) < equal * pl.len()
    records = records.with_columns(pl.when(share).then(pl.col("start_time").min()).otherwise("start_time"))
    whole = report_of(records, [], tmp_path / "whole")
    monkeypatch.setattr(pieces, "PIECE_ROWS", 100)
    assert_same(report_of(records, [], tmp_path / "cut"), whole)


def flows_of(rows: list[tuple[int, int, int]]) -> Flows:
    """Records of start, length, sender; tenths of a second, and bytes by their number."""
    rows = sorted(rows)
    start = np.array([at for at, _, _ in rows]) / 10
    end = start + np.array([length for _, length, _ in rows]) / 10
    who = np.array([sender for _, _, sender in rows], np.int32)
    nothing = np.zeros(len(rows), bool)
    size = 1000.0 + np.arange(len(rows)) % 3
    return Flows(start, end, who, who + 1, size, who * 0, who * 0 - 1, nothing, nothing)


RECORDS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=80)


@given(rows=RECORDS, size=st.integers(1, 90))
@settings(max_examples=150, deadline=None)
def test_gaps_bursts_volumes_and_groups_are_those_of_all_records(rows: list[tuple[int, int, int]], size: int) -> None:
    flows = flows_of(rows)
    moments = np.array([-1.0, 3.3, 17.0, 99.0])

    def found() -> list[Any]:
        bursts = bursts_of(flows, has_bytes=True)
        groups = [member for group in flows.grouped(flows.src - 1, 4)() for member in join_group(group)[1].src.tolist()]
        gaps = idle_gaps(flows.start, flows.end)
        assert len(bursts.start) == len(bursts.stop) == len(bursts.total) - 1
        return [
            *(column.tolist() for column in (*gaps, bursts.start, bursts.stop, bursts.total)),
            moved_before(flows, moments, has_bytes=True).tolist(),
            sorted(groups),
        ]

    whole = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_ROWS", size)
        assert found() == whole


def test_a_full_disk_is_an_error_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pieces, "PIECE_ROWS", 10)
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        pieces.Disk(tmp_path).empty(11, np.float64)


def test_equal_records_of_one_instant_are_never_all_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 100)
    heights: list[int] = []
    clear = records_in_order._without_repeats
    monkeypatch.setattr(
        records_in_order, "_without_repeats", lambda table: heights.append(table.height) or clear(table)
    )
    row = {"start_time": 1.0000001, "duration": 0.5, "src": "10.0.0.1", "dst": "10.0.0.2", "bytes": 9}
    report_of(pl.select(**{name: pl.repeat(value, 2_000) for name, value in row.items()}), [], tmp_path)
    assert len(heights) > 10
    assert max(heights) <= 100

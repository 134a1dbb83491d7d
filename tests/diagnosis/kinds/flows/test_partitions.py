"""The report does not depend on who does the parts of an analysis, in which order, or how often."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.__main__ import EXIT_UNUSABLE, main
from diagnosis.kinds.flows.capture import capture, packing, partitions, pieces
from diagnosis.kinds.flows.capture.capture import Flows, sender_values
from diagnosis.model import Runner
from diagnosis.processing.faults import MemoryLimitReached
from diagnosis.runners import Dask, Processes
from tests.diagnosis.kinds.flows.simulate import Job, noisy, simulate, together
from tests.diagnosis.kinds.flows.test_pieces import JOBS, assert_same, flows_of, report_of


@dataclass(slots=True)
class Elsewhere:
    """A runner that shares no memory with the analysis: it does the last part first, and each of them so many times."""

    is_far: bool = False
    times: int = 2
    asked: set[str] = field(default_factory=set)

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        self.asked.add(function.partition(":")[2])
        answers = {}
        for number in [*reversed(range(len(parts)))] * self.times:
            answers[number] = partitions.run_part(function, parts[number], folder)
        return (answers[number] for number in range(len(parts)))


@pytest.mark.parametrize("what", JOBS)
def test_the_report_is_the_same_wherever_the_parts_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    captures = together(*JOBS[what])
    records = noisy(captures[0].records, loss=0.05, split=0.05, twice=0.05)
    records = pl.concat([records, *(c.records for c in captures[1:])]).sample(fraction=1.0, shuffle=True, seed=1)
    rows = [row for c in captures for row in c.inventory]
    whole = report_of(records, rows, tmp_path / "whole")

    for size in (records.height // 3, 503):
        monkeypatch.setattr(pieces, "PIECE_ROWS", size)
        runner = Elsewhere()
        assert_same(report_of(records, rows, tmp_path / str(size), parts=2, runner=runner), whole)
        assert {"_divide", "_sort_stretch", "_may_train", "_sizes", "_phases"} <= runner.asked
        assert ("_analyse_apart" in runner.asked) == (len(JOBS[what]) > 1)
        assert ("_count_part" in runner.asked) == (len(JOBS[what]) == 1)


def test_a_job_with_most_of_the_records_shares_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = Job(tp=1, pp=1, dp=8, gpus=1, steps=30), Job(tp=1, pp=1, dp=4, gpus=1, steps=8, gap=0.05)
    captures = together(large, small)
    records = pl.concat([c.records for c in captures])
    rows = [row for c in captures for row in c.inventory]
    monkeypatch.setattr(pieces, "PIECE_ROWS", records.height // 3)
    runner = Elsewhere(times=1)
    report, _ = report_of(records, rows, tmp_path, runner=runner)
    assert len(json.loads(report)["jobs"]) == 2
    assert "_analyse_apart" not in runner.asked
    assert "_count_part" in runner.asked


def test_columns_lie_in_files_as_long_as_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 250)
    monkeypatch.setattr(pieces, "MIN_FILE_BYTES", 400)
    monkeypatch.setattr(packing, "MIN_FILE_BYTES", 400)
    capture = simulate(Job(tp=1, pp=1, dp=8, gpus=1, steps=12))
    found = report_of(capture.records, capture.inventory, tmp_path / "cut", runner=Elsewhere(is_far=True, times=1))
    left = {path.suffix for path in (tmp_path / "cut" / "tables").iterdir()}
    monkeypatch.undo()
    assert_same(found, report_of(capture.records, capture.inventory, tmp_path / "whole"))
    assert left == {".parquet"}


def of_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner) -> None:
    capture = simulate(Job(tp=2, pp=2, dp=4, gpus=2, steps=16))
    whole = report_of(capture.records, capture.inventory, tmp_path / "whole")
    monkeypatch.setattr(pieces, "PIECE_ROWS", capture.records.height // 2)
    assert_same(report_of(capture.records, capture.inventory, tmp_path / "apart", runner=runner), whole)


def test_processes_of_this_machine_do_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Processes(2) as runner:
        of_runner(tmp_path, monkeypatch, runner)


def test_this_process_does_what_a_process_that_the_system_ended_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoneLeft(ProcessPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Any:
            raise BrokenProcessPool

    ended: Future[bytes] = Future()
    ended.set_exception(BrokenProcessPool())
    for submit in (NoneLeft.submit, lambda *_: ended):
        with Processes(2) as runner:
            monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
            of_runner(tmp_path, monkeypatch, runner)


def test_a_process_beyond_its_memory_is_told_from_one_that_the_system_ended() -> None:
    with Processes(1, 64 << 20) as runner:
        assert len(runner._begin(partial(bytes, 8 << 20))()) == 8 << 20
        with pytest.raises(MemoryLimitReached, match="more than 64 MB, which `--memory-mb` allows"):
            runner._begin(partial(bytes, 256 << 20))()
    with Processes(1, 64 << 20) as runner, pytest.raises(MemoryLimitReached):
        runner._begin(os.abort)()


def test_flows_beyond_the_memory_are_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_full(*_: Any) -> Any:
        raise MemoryLimitReached("Allow more.")

    capture = simulate(Job(tp=2, pp=2, dp=4, gpus=2, steps=16))
    capture.records.write_parquet(file := tmp_path / "flows.parquet")
    monkeypatch.setattr(pieces, "PIECE_ROWS", capture.records.height // 2)
    monkeypatch.setattr(Processes, "__call__", is_full)
    main([str(file), "--json", "--memory-mb", "64"])
    report = json.loads(capsys.readouterr().out)
    assert "The network flows were not analysed. Allow more." in report["missing"]
    assert "flows" not in report
    assert main([str(file), "--memory-mb", "1"]) == EXIT_UNUSABLE


def test_the_command_keeps_many_records_in_files_and_lets_processes_do_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = simulate(Job(tp=2, pp=2, dp=4, gpus=2, steps=16))
    capture.records.write_parquet(file := tmp_path / "flows.parquet")
    monkeypatch.setattr(pieces, "PIECE_ROWS", capture.records.height // 2)
    asked: list[str] = []

    def in_turn(_: Processes, function: str, parts: Sequence[bytes], folder: Path) -> list[bytes]:
        asked.append(function.partition(":")[2])
        return [partitions.run_part(function, part, folder) for part in parts]

    monkeypatch.setattr(Processes, "__call__", in_turn)
    assert main([str(file), "--json"]) == 0
    assert {"_divide", "_sort_stretch", "_may_train"} <= set(asked)
    assert "_phases" not in asked  # the rows of a table that nobody reads
    assert len(json.loads(capsys.readouterr().out)["flows"]["jobs"]) == 1


def test_a_dask_cluster_does_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        of_runner(tmp_path, monkeypatch, Dask(cluster.scheduler_address))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=12,
)


@given(value=VALUES)
@settings(max_examples=60, deadline=None)
def test_small_values_arrive_as_they_were(value: Any) -> None:
    assert packing.unpack(packing.pack(value), pieces.Disk(Path("unused"))) == value


def test_columns_tables_and_records_arrive_as_they_were(tmp_path: Path) -> None:
    disk = pieces.Disk(tmp_path)
    table = pl.DataFrame({"a": [1, 2], "b": pl.Series(["DP", "PP"], dtype=pl.Enum(["DP", "PP"]))})
    flows = flows_of([(0, 3, 1), (5, 1, 2)])
    for is_kept in (False, True):
        column = np.arange(50_000, dtype=np.int32)
        got = packing.unpack(packing.pack((column, table, flows, np.zeros((2, 3))), disk, is_kept=is_kept), disk)
        assert (got[0] == column).all()
        assert got[1].equals(table)
        assert got[1].schema == table.schema
        assert isinstance(got[2], Flows)
        assert got[2].size.tolist() == flows.size.tolist()
        assert got[3].shape == (2, 3)


@pytest.mark.parametrize("runner", [None, Elsewhere(), Elsewhere(is_far=True, times=1)])
def test_parts_fill_their_rows_of_common_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Elsewhere | None
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 9)
    disk = pieces.Disk(tmp_path, runner)
    parts = [(flows_of([(at, 1, at % 3) for at in range(low, low + 5)]), np.arange(5) % 4 > 0) for low in (0, 5, 10)]
    kinds = [column.dtype for column in parts[0][0].columns()]
    columns, counts = partitions.fill_columns(disk, capture._choose_rows, parts, [6, 5, 5], kinds)
    assert counts == [3, 3, 3]
    kept = [parts[number][0].start[parts[number][1]].tolist() for number in range(3)]
    assert [columns[0][low : low + 3].tolist() for low in (0, 6, 11)] == kept

    (sender,), counts = partitions.fill_columns(
        disk, sender_values, [(part, np.arange(3) * 7) for part, _ in parts], [5] * 3, [int]
    )
    assert counts == [5, 5, 5]
    assert sender.tolist() == [at % 3 * 7 for at in range(15)]
    del columns, sender
    assert runner is None or not list(tmp_path.iterdir())


def test_nothing_but_columns_of_the_folder_is_opened(tmp_path: Path) -> None:
    for name in ("../secret.column", "/etc/passwd", "x.parquet"):
        with pytest.raises(ValueError, match="no file of columns"):
            pieces.Disk(tmp_path).open_values(name, 0, 1, np.int8)
        with pytest.raises(ValueError, match="no file of columns"):
            pieces.Disk(tmp_path).put(name, 0, np.zeros(1))
    with pytest.raises(FileNotFoundError):  # of an analysis that ended
        pieces.Disk(tmp_path).put("gone.column", 0, np.zeros(1))
    with pytest.raises(ValueError, match="no type of a column"):
        packing.unpack(packing.pack(np.zeros(1)).replace(b'"<f8"', b'"|O8"'), pieces.Disk(tmp_path))


def test_only_partition_functions_are_called(tmp_path: Path) -> None:
    for name in (
        "os:system",
        "diagnosis.kinds.flows.capture.capture:load",
        "diagnosis.kinds.flows.capture.capture:Flows",
    ):
        with pytest.raises(ValueError, match="no partition function"):
            partitions.run_part(name, packing.pack([]), tmp_path)


def test_an_error_in_a_part_ends_the_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = simulate(Job(tp=1, pp=1, dp=4, gpus=1, steps=12))

    class Full(Elsewhere):
        def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pieces, "PIECE_ROWS", 100)
    with pytest.raises(OSError, match="No space left"):
        report_of(capture.records, capture.inventory, tmp_path, runner=Full())

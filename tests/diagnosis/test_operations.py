"""Tables and traces of operations: who computes longer, by whatever door they come."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from diagnosis.evidence import Result
from diagnosis.facts import operations, unevenness
from diagnosis.kinds import kind_table, states
from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.states.known_shapes import operation_traces
from diagnosis.model import Kind, Parsed, ParseHints

REPLICAS, STAGES, STEPS, PASSES = 4, 2, 24, 3
HEADER = ("rank", "stage", "step", "op", "duration_ms")
type Row = tuple[int, int, int, str, float]


def rows(factor: Callable[[int, int, int], float]) -> Iterator[Row]:
    """Each rank passes forward and hands over; a hand-over lasts as long as the others let it."""
    dice = np.random.default_rng(4)
    for step in range(STEPS):
        for rank in range(REPLICAS * STAGES):
            replica, stage = divmod(rank, STAGES)
            for _ in range(PASSES):
                took = 40 * factor(replica, stage, step) * float(dice.lognormal(0, 0.01))
                yield rank, stage, step + 100, "forward-compute", took
                yield rank, stage, step + 100, "forward-send", 900.0 if rank == 3 else 1.0


def as_table(found: Iterator[Row], work: Path) -> Parsed:
    lines = [",".join(HEADER), *(",".join(map(str, row)) for row in found)]
    return by_kind("\n".join(lines) + "\n")


def as_trace(found: Iterator[Row], work: Path) -> Parsed:
    threads = [(replica, stage) for replica in range(REPLICAS) for stage in range(STAGES)]
    names = [
        {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": f"PP rank {tid}, compute"}}
        for pid, tid in threads
    ]
    events = [
        {"name": name, "ph": "X", "pid": rank // STAGES, "tid": stage, "dur": took * 1e3, "args": {"step": step}}
        for rank, stage, step, name, took in found
    ]
    return by_kind(json.dumps([*events, *names]))


def as_parquet(found: Iterator[Row], work: Path) -> Parsed:
    buffer = io.BytesIO()
    pl.DataFrame(list(found), schema=list(HEADER), orient="row").write_parquet(buffer)
    return parse_flow(io.BytesIO(buffer.getvalue()), "trace.parquet", ParseHints(), work)


def by_kind(text: str) -> Parsed:
    assert kind_table.kind_of(text.encode(), "trace") == Kind.STATE
    return states.parse(text.encode(), "trace")


def compared(parsed: Parsed) -> list[Result]:
    return unevenness.compare_places(kind_table.measures([parsed]))


DOORS = pytest.mark.parametrize("door", [as_table, as_trace, as_parquet])
type Door = Callable[[Iterator[Row], Path], Parsed]


@DOORS
def test_the_worker_that_stays_slow_is_named_and_not_who_hands_over_slowly(door: Door, tmp_path: Path) -> None:
    parsed = door(rows(lambda replica, stage, _: 2.5 if (replica, stage) == (0, 0) else 1.0), tmp_path)
    (found,) = compared(parsed)
    assert found.outcome.adds == "performance.straggler"
    assert found.target in ("rank 0", "process 0, PP rank 0")
    assert "time of forward compute: 300 ms, the others 120 ms" in found.words


@DOORS
def test_work_that_changes_hands_is_uneven_and_nobodys_fault(door: Door, tmp_path: Path) -> None:
    work = np.random.default_rng(2).lognormal(0, 0.4, (REPLICAS, STEPS))
    (found,) = compared(door(rows(lambda replica, _, step: float(work[replica, step])), tmp_path))
    assert (found.outcome.adds, found.target) == ("performance.imbalance", "")


@DOORS
def test_a_stage_with_more_layers_is_uneven_work(door: Door, tmp_path: Path) -> None:
    every = rows(lambda _, stage, __: 1.8 if stage else 1.0)
    # one replica has the stage, so that most workers show what is usual
    shown = (row for row in every if row[1] == 0 or row[0] == 1)
    (found,) = compared(door(shown, tmp_path))
    assert (found.outcome.id, found.outcome.adds) == ("stage", "performance.imbalance")


@DOORS
def test_even_work_says_nothing(door: Door, tmp_path: Path) -> None:
    assert compared(door(rows(lambda *_: 1.0), tmp_path)) == []


@pytest.mark.parametrize(
    "text", ['[{"name": "forward", "ts": 5, "dur": 1', '[{"dur": 1, "ph": "X", "args": {"step": "x"}}]', "[[[[", "{}"]
)
def test_damaged_traces_say_nothing_and_raise_nothing(text: str) -> None:
    assert list(operation_traces.read_trace(text)) == []


@pytest.mark.parametrize("text", ["", "rank,step\n1,2\n", ",".join(HEADER) + '\n0,1\nx,,"\n0,0,nine,forward,1\n'])
def test_damaged_tables_say_nothing_and_raise_nothing(text: str) -> None:
    assert list(operation_traces.read_table(text)) == []


def test_values_that_are_no_times_are_left_out() -> None:
    odd = [float("nan"), float("inf"), -1.0]
    assert list(operations.sums(operations.Operation("rank 0", "", 1, "forward", one) for one in odd)) == []

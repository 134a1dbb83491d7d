"""Reads tables of operations as text, and traces whose events state the step that they belong to."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from diagnosis.facts.operations import Operation, find_columns

_STAGE: Final = re.compile(r"(?i)(?:pp|pipeline|stage)[ _-]?(?:rank|stage)?[ _-]?(\d{1,6})")
#: Words at the end of a thread's name that name its lane, and no worker.
_LANE: Final = re.compile(r",[ \w\-]{0,40}$")
_MARKS: Final = str.maketrans("", "", "[]{}()")


class _Args(msgspec.Struct):
    step: int | str = ""
    name: int | str = ""


class _Event(msgspec.Struct):
    """One event; times in microseconds."""

    name: str = ""
    ph: str = ""
    pid: int | str = 0
    tid: int | str = 0
    dur: float = 0.0
    args: _Args = msgspec.field(default_factory=_Args)


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents", default_factory=list)


def read_trace(text: str) -> Iterator[Operation]:
    """The operations of a trace; none of a damaged one. O(events)."""
    try:
        read = msgspec.json.decode(text, type=_Trace | list[_Event])
    except (msgspec.DecodeError, RecursionError):
        return
    events = read if isinstance(read, list) else read.events
    processes = {one.pid: str(one.args.name) for one in events if one.name == "process_name"}
    threads = {(one.pid, one.tid): str(one.args.name) for one in events if one.name == "thread_name"}
    for one in events:
        step = _number(one.args.step)
        if one.ph == "X" and step is not None:
            thread = threads.get((one.pid, one.tid), f"thread {one.tid}")
            worker = f"{processes.get(one.pid, f'process {one.pid}')}, {_LANE.sub('', thread)}"
            stage = _STAGE.search(thread)
            yield Operation(worker.translate(_MARKS), stage[1] if stage else "", step, one.name, one.dur / 1e6)


def read_table(text: str) -> Iterator[Operation]:
    """The operations of a table with a header; a damaged row is left out. O(rows)."""
    rows = csv.reader(text.splitlines())
    try:
        header = next(rows, [])
        columns = find_columns(header)
        if columns is None:
            return
        at = [header.index(name) if name else -1 for name in columns]
        for row in rows:
            cells = [row[place] if 0 <= place < len(row) else "" for place in at]
            step, took = _number(cells[1]), _seconds(cells[3])
            if step is not None and took is not None:
                yield Operation(f"rank {cells[0]}", cells[4], step, cells[2], took / columns.per_second)
    except csv.Error:
        return


def _number(value: int | str) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 16 else None


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

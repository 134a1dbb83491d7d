"""A job's timeline as Chrome trace JSON for Perfetto and chrome://tracing: one process per node,
stages as slices.

Slices of one track never overlap; times are microseconds since the start of the timeline.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from diagnosis.values.plain import visible_json
from triage.lanes import unfold

#: the job's own track; nodes start at 1
JOB = 0
TRACKS = {0: "stages", 1: "errors"}


def trace_events(timeline: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Names of processes and tracks, stages as complete events, marks as instants, iteration times
    as a counter.
    """
    zero = timeline.get("t0")
    if zero is None:
        return
    yield _metadata_event("process_name", JOB, 0, name)
    yield from _slices(timeline.get("stages") or [], JOB, zero)
    for row in timeline.get("iterations") or []:
        if row.get("t") is not None and row.get("seconds") is not None:
            at = _us(row["t"], zero)
            args = {"seconds": row["seconds"]}
            yield {"ph": "C", "pid": JOB, "tid": 0, "name": "seconds per iteration", "ts": at, "args": args}
    for number, lane in enumerate(timeline.get("lanes") or [], 1):
        yield _metadata_event("process_name", number, 0, str(lane.get("node") or "?"))
        yield {"ph": "M", "pid": number, "tid": 0, "name": "process_sort_index", "args": {"sort_index": number}}
        for track, title in TRACKS.items():
            yield _metadata_event("thread_name", number, track, title)
        yield from _slices(lane.get("segments") or [], number, zero)
        for mark in sorted(lane.get("marks") or [], key=lambda row: row.get("t") or 0):
            if mark.get("t") is not None:
                yield _instant(mark, number, zero)


def trace_bytes(timeline: dict[str, Any], name: str) -> bytes:
    """The whole trace, gzipped. Equal timelines give equal bytes."""
    body = {"displayTimeUnit": "ms", "traceEvents": list(trace_events(unfold(timeline), name))}
    return gzip.compress(visible_json(json.dumps(body, separators=(",", ":"))).encode(), mtime=0)


def _slices(segments: list[dict[str, Any]], pid: int, zero: float) -> Iterator[dict[str, Any]]:
    until = 0
    for row in sorted(segments, key=lambda segment: segment.get("t0") or 0):
        if row.get("t0") is None or row.get("t1") is None:
            continue
        begin = max(_us(row["t0"], zero), until)
        until = max(_us(row["t1"], zero), begin)
        title = str(row.get("stage") or "unknown").replace("_", " ")
        yield {"ph": "X", "pid": pid, "tid": 0, "name": title, "cat": "stage", "ts": begin, "dur": until - begin}


def _instant(mark: dict[str, Any], pid: int, zero: float) -> dict[str, Any]:
    arguments = {
        "text": mark.get("text"),
        "event": mark.get("event"),
        "file": mark.get("file"),
        "line": mark.get("line"),
    }
    return {
        "ph": "i",
        "s": "t",
        "pid": pid,
        "tid": 1,
        "name": str(mark.get("role") or "mark"),
        "cat": "log",
        "ts": _us(mark["t"], zero),
        "args": {key: value for key, value in arguments.items() if value},
    }


def _metadata_event(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}


def _us(moment: float, zero: float) -> int:
    return max(0, round((moment - zero) * 1e6))

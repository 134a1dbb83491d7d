"""The ranks of a capture as a Chrome trace that Perfetto opens.

Slices of one track must not overlap partly, so every rank has one track for each kind of traffic,
and overlapping transfers of a track are joined. Times are microseconds from the first step.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import polars as pl

from diagnosis.kinds.flows.jobs.pairs import DP, EP, PP
from diagnosis.values.json_values import Json, JsonObject
from diagnosis.values.plain import visible_json

THREAD_OF_KIND = {"step": 0, PP: 1, DP: 2, EP: 3}
TITLE_OF_KIND = {PP: "pipeline", DP: "gradients", EP: "experts"}


class Mark(msgspec.Struct, frozen=True):
    """Something that happened at ``at``, or until ``until`` (epoch seconds)."""

    at: float = msgspec.field(name="t")
    name: str
    until: float | None = None
    text: str | None = None


class Track(msgspec.Struct, frozen=True):
    """The marks of one kind."""

    name: str
    marks: list[Mark]


def events(table: Path, tracks: Sequence[JsonObject] = ()) -> Iterator[dict[str, Json]]:
    """Trace events of one job's table (``timeline.phases``): names of processes and threads, steps,
    phases; and ``tracks`` (the JSON of :class:`Track`), one thread each, of what happened: a mark
    with an end is a slice if it overlaps no earlier one, else an instant.
    """
    rows = pl.read_parquet(table).sort("rank", "step")
    if rows.is_empty():
        return
    zero = float(rows["start"].min())  # type: ignore[arg-type]
    ranks = rows["rank"].unique().sort().to_list()
    yield _name_event("process_name", 0, 0, "job")
    yield _name_event("thread_name", 0, 0, "steps")
    until = 0
    for n, start, end in rows.select("step", "start", "end").unique().sort("step").iter_rows():
        begin, until = max(_microseconds(start - zero), until), max(_microseconds(end - zero), until)
        yield {"ph": "X", "pid": 0, "tid": 0, "name": f"step {n}", "cat": "step", "ts": begin, "dur": until - begin}
    for tid, track in enumerate(msgspec.convert(tracks, list[Track]), 1):
        yield _name_event("thread_name", 0, tid, track.name)
        yield from _marks(track.marks, tid, zero)
    for number, rank in enumerate(ranks, 1):
        yield _name_event("process_name", number, 0, rank)
        yield {"ph": "M", "pid": number, "tid": 0, "name": "process_sort_index", "args": {"sort_index": number}}
        own = rows.filter(pl.col("rank") == rank)
        for kind in (PP, DP, EP):
            low = kind.lower()
            part = (
                own.filter(pl.col(f"{low}_start").is_not_null())
                .select("step", f"{low}_start", f"{low}_end", f"{low}_busy_s")
                .sort(f"{low}_start")
            )
            if part.is_empty():
                continue
            yield _name_event("thread_name", number, THREAD_OF_KIND[kind], TITLE_OF_KIND[kind])
            yield from _slices(part, number, kind, zero)


def _marks(marks: Sequence[Mark], tid: int, zero: float) -> Iterator[dict[str, Json]]:
    until = -(1 << 62)  # marks may come before the first step
    for mark in sorted(marks, key=lambda mark: mark.at):
        begin = _microseconds(mark.at - zero)
        event: dict[str, Json] = {"pid": 0, "tid": tid, "name": mark.name, "cat": "incident", "ts": begin}
        event["args"] = {"text": mark.text or ""}
        if mark.until is not None and begin >= until:
            until = max(_microseconds(mark.until - zero), begin)
            yield event | {"ph": "X", "dur": until - begin}
        else:
            yield event | {"ph": "i", "s": "t"}


def _slices(part: pl.DataFrame, pid: int, kind: str, zero: float) -> Iterator[dict[str, Json]]:
    until = -1
    for n, start, end, busy in part.iter_rows():
        begin = max(_microseconds(start - zero), until)
        last = max(_microseconds(end - zero), begin)
        until = last
        yield {
            "ph": "X",
            "pid": pid,
            "tid": THREAD_OF_KIND[kind],
            "name": TITLE_OF_KIND[kind],
            "cat": kind,
            "ts": begin,
            "dur": last - begin,
            "args": {"step": n, "busy_ms": round(busy * 1e3, 3)},
        }


def _name_event(what: str, pid: int, tid: int, name: str) -> dict[str, Json]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def write_trace(table: Path, target: Path, tracks: Sequence[JsonObject] = ()) -> Path:
    """Writes gzipped trace JSON, event by event."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target.open("wb"), mtime=0) as zipped,
        io.TextIOWrapper(zipped, "utf-8") as out,
    ):
        out.write('{"displayTimeUnit":"ms","traceEvents":[')
        for number, event in enumerate(events(table, tracks)):
            out.write(("," if number else "") + "\n" + visible_json(json.dumps(event, separators=(",", ":"))))
        out.write("\n]}\n")
    return target

"""Alarms over recordings of real training: each log is replayed as it was written, and the job judged every 5 s.

``python -m lab.measure replay [SOURCE …] [--speed 1]``. Sources are archives or directories of jobs; without any, the
samples. A line comes at the time that it prints, or with the line before it; the site's clock runs ``--speed`` times
slower than the log's. Judging goes on for two minutes after the last line, as long as a follower that still waits.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from diagnosis import ParseHints, parse
from diagnosis.kinds.kind_table import kind_of
from diagnosis.live import Observation, judge, learn, new_state, record
from diagnosis.live.reading.observe import Range, observe
from diagnosis.model import LOG_KINDS
from lab.measure.evidence import members

LOOK_S = 5.0
AFTER_S = 120.0
DAY_S = 86_400.0
SAMPLES = Path(__file__).resolve().parents[2] / "samples"


class File(NamedTuple):
    """A log with the end of each line and the seconds (of the log's clock) at which it comes."""

    path: str
    data: bytes
    ends: list[int]
    at: list[float]


def logs_of(source: Path, work: Path) -> list[File]:
    logs = []
    for number, (path, data) in enumerate(members(source)):
        if kind_of(data[: 64 << 10], path) not in LOG_KINDS or not data:
            continue
        parsed = parse(io.BytesIO(data), path, ParseHints(), work / str(number))
        if parsed.columns is None:
            continue
        rows = pl.read_parquet(parsed.columns, columns=["offset", "length", "time"])
        times = rows["time"].fill_null(strategy="forward").fill_null(strategy="backward")
        if times.null_count() == 0:
            ends = (rows["offset"] + rows["length"] + 1).to_list()
            logs.append(File(path, data, ends, (times.cum_max() / 1e9).to_list()))
    last = max((file.at[-1] for file in logs), default=0.0)
    return [file for file in logs if last - file.at[0] < DAY_S]  # stamps without a year have no place in time


def observe_new(file: File, done_lines: int, now: float) -> tuple[int, Observation | None]:
    """The lines after ``done_lines`` until ``now``, observed; and how many lines are done then."""
    last = done_lines
    while last < len(file.at) and file.at[last] <= now:
        last += 1
    if last == done_lines:
        return done_lines, None
    begin, end = file.ends[done_lines - 1] if done_lines else 0, file.ends[last - 1]
    (observation,) = observe([Range(file.path, file.data[: 64 << 10], file.data[begin:end], begin)])
    return last, observation


def replay(files: list[File], speed: float) -> Iterator[tuple[float, str]]:
    """Seconds (of the log's clock, since its first line) and kind of each alarm that begins; last the time of the last
    progress, with an empty kind.
    """
    first, last = min(file.at[0] for file in files), max(file.at[-1] for file in files)
    state, now = new_state(first), first
    done = [0] * len(files)
    while now < last + AFTER_S * speed:
        now += LOOK_S * speed
        site = first + (now - first) / speed
        for number, file in enumerate(files):
            done[number], seen = observe_new(file, done[number], now)
            if seen is not None:
                learn(state, file.path, seen, site)
        current = {row.kind for row in state.alarms if row.is_open}
        alarms = judge(state, site)
        record(state, alarms, site)
        for alarm in alarms:
            if alarm.kind not in current:
                yield now - first, alarm.kind
    advanced = state.advanced_at
    yield ((advanced - first) * speed if advanced is not None else 0.0), ""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--speed", type=float, default=1.0)
    args = parser.parse_args(arguments)
    for source in args.sources or sorted(SAMPLES.glob("*.tar.gz")):
        with tempfile.TemporaryDirectory() as work:
            files = logs_of(source, Path(work) / "whole")
            if not files:
                print(f"{source.name}: no log states a time")
                continue
            *alarms, (progress, _) = replay(files, args.speed)
        alarm_text = ", ".join(f"{kind} at {at:.0f} s" for at, kind in alarms) or "no alarm"
        print(f"{source.name}: {len(files)} logs, last progress seen at {progress:.0f} s; {alarm_text}", flush=True)


if __name__ == "__main__":
    main()

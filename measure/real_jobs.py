"""Diagnoses 117 logs of real cluster jobs: `python -m measure real_jobs [--show] [PART OF A PATH…]`; prints outcome,
first root line and false alarms.

Each log is diagnosed alone, with the successes of its own group as history (never itself), as a cluster that keeps
its history would have it.
"""

from __future__ import annotations

import argparse
import csv
import io
import tarfile
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.history import History, learn
from diagnosis.model import JobHints, Kind, Parsed, ParseHints
from diagnosis.parsing import parse
from diagnosis.pipeline import diagnose
from measure.running import SHARED

BASE = SHARED / "data" / "real_jobs"
NOT_COUNTED = ("helper_log", "unlabelled_fragment", "truncated")


def main() -> None:
    """The three figures, and with ``--show`` every miss."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parts", nargs="*")
    options.add_argument("--show", action="store_true")
    options.add_argument("--with-history", action="store_true", help="compare with the successes of the same group")
    chosen = options.parse_args()
    labels = {row["file"]: row for row in csv.DictReader((BASE / "labels.csv").open())}
    roots: dict[str, set[int]] = defaultdict(set)
    for row in csv.DictReader((BASE / "line_labels.csv").open()):
        if row["label"] == "root":
            roots[row["file"]].add(int(row["line"]))
    with tarfile.open(BASE / "logs.tar.gz") as archive:
        held = {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isfile()}  # type: ignore[union-attr]
    wall, cpu = time.perf_counter(), time.process_time()
    right: list[str] = []
    wrong: list[str] = []
    hit: list[str] = []
    missed: list[str] = []
    alarms: list[str] = []
    successes = 0
    with tempfile.TemporaryDirectory() as work:
        parsed = {
            f: _parsed(f, held, Path(work))
            for f in sorted(labels)
            if f in held and (not chosen.parts or any(p in f for p in chosen.parts))
        }
        known = History(
            tuple(
                learn([p], job_id=f, family=labels[f]["group"])
                for f, p in parsed.items()
                if chosen.with_history and labels[f]["outcome"] == "success"
            )
        )
        for file, p in parsed.items():
            label = labels[file]
            told = report.to_json(
                diagnose(
                    [p],
                    job=JobHints(job_id=file, family=label["group"]),
                    history=known,
                    read=lambda path, o, n: held[path][o : o + n],
                )
            )
            logs = told.get("logs") or {"outcome": "unknown", "is_failure": False, "lines": [], "nodes": []}
            _show(chosen.show, file, label, told, logs, roots[file])
            if label["outcome"] == "success":
                successes += 1
                if logs["is_failure"] or any(n["suspect"] for n in logs["nodes"]):
                    alarms.append(file)
            if label["outcome"] not in NOT_COUNTED:
                (right if logs["outcome"] in label["accept_outcome"].split("|") else wrong).append(file)
            if roots[file] and label["outcome"] not in NOT_COUNTED:
                first = logs["lines"][0]["line"] if logs["lines"] else None
                (hit if first in roots[file] else missed).append(file)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{len(parsed)} logs, {wall:.0f} s wall, {cpu:.0f} s CPU")
    print(
        f"outcome right     {len(right)}/{len(right) + len(wrong)} = {_share(right, wrong)}   asked 0.95   "
        f"wrong: {wrong}"
    )
    print(
        f"a root line first {len(hit)}/{len(hit) + len(missed)} = {_share(hit, missed)}   asked 0.85   missed: {missed}"
    )
    print(f"false alarms      {len(alarms)}/{successes}   asked at most 2 %: {alarms}")


def _share(good: list[str], bad: list[str]) -> str:
    return f"{len(good) / max(1, len(good) + len(bad)):.3f}"


def _parsed(file: str, held: dict[str, bytes], work: Path) -> Parsed:
    return parse(io.BytesIO(held[file]), file, ParseHints(kind=Kind.LOG), work / file.replace("/", "_"))


def _show(
    wanted: bool, file: str, label: dict[str, str], told: dict[str, Any], logs: dict[str, Any], roots: set[int]
) -> None:
    if not wanted:
        return
    first = logs["lines"][0]["line"] if logs["lines"] else None
    print(
        f"{file}: {label['outcome']} {label['category']} -> {logs['outcome']} {logs.get('id')} {logs.get('stage')} "
        f"{logs.get('iteration')} first {first} of {sorted(roots)[:4]}"
    )
    print(f"    {told['headline'][:220]}")
    for event in (logs.get("events") or [])[:5]:
        print(f"      {event['role']:12} {event['signature']!s:26} n={event['count']} {event['example'][:140]!r}")

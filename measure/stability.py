"""Diagnoses jobs again after harmless changes of their files: `python -m measure stability [--set courses] [--most 12]
[--change NAME] [--show]`.

Prints for each change how many answers stayed the same, field by field, and how often a machine was accused that has
nothing to do with the failure. Sets: courses (default), unseen, practice, testbed.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.archive_streams import decompressor
from diagnosis.history import History
from diagnosis.model import JobHints, ParseHints
from diagnosis.parsing import parse
from diagnosis.pipeline import diagnose
from exams.changes import LESS, SAME, Job
from measure.running import SHARED, members

FIELDS = ("outcome", "id", "symptom", "stage", "iteration", "accused", "first")


def told(job: Job, known: History, family: str) -> dict[str, Any]:
    """The report of a job's files."""
    held: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as work:
        parsed = []
        for number, (path, data) in enumerate(sorted(job.files.items(), reverse=job.is_reversed)):
            name = path
            if path.endswith(".gz"):
                name, data = path.removesuffix(".gz"), decompressor("gzip", io.BytesIO(data)).read(1 << 30)
            held[name] = data
            parsed.append(parse(io.BytesIO(data), name, ParseHints(), Path(work) / f"{number:05d}"))

        def read(path: str, offset: int, length: int) -> bytes:
            return held[path][offset : offset + length]

        return report.to_json(diagnose(parsed, job=JobHints(family=family), history=known, read=read))


def answer(report_: dict[str, Any], back: dict[str, str]) -> dict[str, Any]:
    """What must not change, with machines under their first names."""
    logs = report_["logs"] or {}
    nodes = [s for s in report_["suspects"] if s["kind"] == "node"]
    accused = sorted(back.get(s["entity"], s["entity"]) for s in nodes if s["suspect"])
    first = back.get(nodes[0]["entity"], nodes[0]["entity"]) if nodes and accused else None
    return {k: logs.get(k) for k in FIELDS[:5]} | {"accused": accused, "first": first}


def courses(seed: int) -> Iterator[tuple[str, Job, History, str]]:
    """The jobs of ``measure.unseen_courses``, those held out as well: nothing of them is shown."""
    from measure.courses import cases, history

    known = history(seed)
    for case in cases(seed, held_out=False):
        t = case.truth
        guilty = [*t.get("faulty_nodes", ()), *t.get("affected_nodes", ()), *t.get("origin_nodes", ())]
        yield case.name, Job(case.files, (), frozenset(guilty)), known, case.voice


def unseen(seed: int) -> Iterator[tuple[str, Job, History, str]]:
    """The open jobs of ``measure.unseen``."""
    from measure.logs import exam, history

    known = history(seed)
    for name, job, is_held_out in exam(seed):
        if not is_held_out:
            t = job.truth()
            guilty = [*t.get("faulty_nodes", ()), *t.get("affected_nodes", ()), *t.get("origin_nodes", ())]
            yield name, Job(job.files(), tuple(job.nodes), frozenset(guilty)), known, job.framework.name


def practice(seed: int) -> Iterator[tuple[str, Job, History, str]]:
    """The practice set."""
    from measure.practice import history

    base = SHARED / "data" / "practice"
    exam = json.loads((base / "exam.json").read_text())
    known = history(exam, base)
    for row in exam["logs"]["cases"]:
        t = json.loads((base / "truth" / "logs" / f"{row['job_id']}.json").read_text())
        guilty = [*(t.get("faulty_nodes") or ()), *(t.get("affected_nodes") or ()), *(t.get("origin_nodes") or ())]
        yield row["job_id"], Job(dict(members(base / row["path"])), (), frozenset(guilty)), known, row["profile"]


def testbed(seed: int) -> Iterator[tuple[str, Job, History, str]]:
    """Our own recordings, their logs only."""
    from measure.testbed import FAILURES, OTHERS, truth

    for name in (*FAILURES, *OTHERS):
        files = {p: d for p, d in members(SHARED / "data" / "testbed" / f"{name}.tar.gz") if "/flows/" not in p}
        yield name, Job(files, (), frozenset(truth(name)["faulty_nodes"])), History(), ""


SETS = {f.__name__: f for f in (courses, unseen, practice, testbed)}


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--set", choices=SETS, default="courses")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--most", type=int, default=0, help="take an even sample of so many jobs")
    options.add_argument("--change", action="append", choices=[*SAME, *LESS])
    options.add_argument("--show", action="store_true")
    options.add_argument("jobs", nargs="*")
    chosen = options.parse_args()
    wall, cpu = time.perf_counter(), time.process_time()
    jobs = [row for row in SETS[chosen.set](chosen.seed) if not chosen.jobs or any(j in row[0] for j in chosen.jobs)]
    if chosen.most and len(jobs) > chosen.most:
        jobs = [jobs[k * len(jobs) // chosen.most] for k in range(chosen.most)]
    same: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    count: dict[str, int] = defaultdict(int)
    wrong: dict[str, int] = defaultdict(int)
    for name, job, known, family in jobs:
        base_report = told(job, known, family)
        base = answer(base_report, {})
        job.nodes = tuple(base_report["job"]["node_names"])
        for label, change in {**SAME, **LESS}.items():
            if chosen.change and label not in chosen.change:
                continue
            other = change(job, random.Random(f"{name}-{label}"))
            if other is None:
                continue
            found = answer(told(other, known, family), {v: k for k, v in other.rename.items()})
            count[label] += 1
            apart = [k for k in FIELDS if found[k] != base[k]]
            strange = sorted(set(found["accused"]) - job.known - set(base["accused"]))
            wrong[label] += bool(strange)
            for k in FIELDS:
                same[label][k] += k not in apart
            if chosen.show and apart:
                flips = ", ".join(f"{k} {base[k]} -> {found[k]}" for k in apart)
                print(f"{name} {label}: {flips}{' WRONGLY ACCUSED' if strange else ''}")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{chosen.set} {chosen.seed}: {len(jobs)} jobs, {wall:.0f} s wall, {cpu:.0f} s CPU")
    print(f"{'change':20} {'jobs':>4} {'wrong':>5}  " + " ".join(f"{k:>9}" for k in FIELDS))
    for label in (*SAME, *LESS):
        if count[label]:
            shares = " ".join(f"{same[label][k] / count[label]:9.2f}" for k in FIELDS)
            print(f"{label:20} {count[label]:4} {wrong[label]:5}  {shares}")

"""Diagnoses jobs again after harmless changes of their files: `python -m lab.measure stability [--set courses] [--most
12] [--change NAME] [--show]`.

Prints for each change how many answers stayed the same, field by field, and how often a machine was accused that is not
related to the failure. Sets: those of `python -m lab.measure logs` whose truth names nodes.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.archive.archive_streams import decompressor
from diagnosis.files.parsing import parse
from diagnosis.history import History
from diagnosis.model import JobHints, ParseHints
from diagnosis.pipeline import diagnose
from lab.exams.changes import LESS, SAME, Job
from lab.measure import sets
from lab.measure.logs import history
from lab.measure.sets import JobSet

SETS = ("courses", "logs", "practice", "testbed-logs", "clusters")
FIELDS = ("outcome", "id", "symptom", "stage", "iteration", "accused", "first")


def report_of(job: Job, known: History, family: str) -> dict[str, Any]:
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
    """The fields that must not change, with the original names of machines."""
    logs = report_["logs"] or {}
    nodes = [s for s in report_["suspects"] if s["kind"] == "node"]
    accused = sorted(back.get(s["entity"], s["entity"]) for s in nodes if s["suspect"])
    first = back.get(nodes[0]["entity"], nodes[0]["entity"]) if nodes and accused else None
    return {k: logs.get(k) for k in FIELDS[:5]} | {"accused": accused, "first": first}


def jobs(of: JobSet, seed: int) -> Iterator[tuple[str, Job, str]]:
    """Name, files and family of every job; the machines that the truth names may be accused after every loss."""
    for job in of.jobs(seed):
        t = job.truth
        guilty = [*(t.get("faulty_nodes") or ()), *(t.get("affected_nodes") or ()), *(t.get("origin_nodes") or ())]
        yield job.name, Job(job.files, (), frozenset(guilty)), job.family


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    known_sets = {k: v for k, v in sets.load().items() if k in SETS}
    options.add_argument("--set", choices=SETS, default="courses")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--most", type=int, default=0, help="take an even sample of so many jobs")
    options.add_argument("--change", action="append", choices=[*SAME, *LESS])
    options.add_argument("--show", action="store_true")
    options.add_argument("jobs", nargs="*")
    chosen = options.parse_args()
    wall, cpu = time.perf_counter(), time.process_time()
    of = known_sets[chosen.set]
    known = history(of.successes(chosen.seed))
    taken = [row for row in jobs(of, chosen.seed) if not chosen.jobs or any(j in row[0] for j in chosen.jobs)]
    if chosen.most and len(taken) > chosen.most:
        taken = [taken[k * len(taken) // chosen.most] for k in range(chosen.most)]
    same: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    count: dict[str, int] = defaultdict(int)
    wrong: dict[str, int] = defaultdict(int)
    for name, job, family in taken:
        base_report = report_of(job, known, family)
        base = answer(base_report, {})
        job.nodes = tuple(base_report["job"]["node_names"])
        for label, change in {**SAME, **LESS}.items():
            if chosen.change and label not in chosen.change:
                continue
            other = change(job, random.Random(f"{name}-{label}"))
            if other is None:
                continue
            found = answer(report_of(other, known, family), {v: k for k, v in other.rename.items()})
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
    print(f"{chosen.set} {chosen.seed}: {len(taken)} jobs, {wall:.0f} s wall, {cpu:.0f} s CPU")
    print(f"{'change':20} {'jobs':>4} {'wrong':>5}  " + " ".join(f"{k:>9}" for k in FIELDS))
    for label in (*SAME, *LESS):
        if count[label]:
            shares = " ".join(f"{same[label][k] / count[label]:9.2f}" for k in FIELDS)
            print(f"{label:20} {count[label]:4} {wrong[label]:5}  {shares}")

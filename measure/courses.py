"""Scores the engine on whole courses of events: `python -m measure courses [--seed N] [--held-out | --fresh]
[--show] [COURSE…]`.

Every course is told by two voices and collected in two ways a seed. Without ``--held-out`` only what is open for
development is taken. ``--fresh`` takes courses and voices written by somebody who had not read the engine.
``--without-history``, ``--other-history`` (healthy jobs of other voices only) and ``--without-description`` tell what
each is worth; ``--show`` prints misses.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.history import History, learn
from diagnosis.model import JobHints, Parsed, ParseHints
from diagnosis.parsing import parse
from diagnosis.pipeline import diagnose
from exams import clusters as fresh
from exams.courses.collectors import COLLECTORS, files
from exams.courses.courses import COURSES
from exams.courses.held_out import HELD
from exams.courses.voices import VOICES
from exams.courses.world import World
from measure.score import FIGURES, scorer

#: Voices a course is told by.
TOLD = 2


@dataclass(frozen=True)
class Case:
    """One job: its files, its truth, who tells it and how it was collected."""

    name: str
    voice: str
    files: dict[str, bytes]
    truth: dict[str, Any]


def cases(seed: int, *, held_out: bool) -> Iterator[Case]:
    """Every course by :data:`TOLD` voices; those held out, and every course by the voices held out."""
    open_voices = [v for v in VOICES if not v.is_held_out]
    held_voices = [v for v in VOICES if v.is_held_out]
    ways = list(COLLECTORS)
    courses = {**HELD, **COURSES} if held_out else COURSES
    for number, (name, (course, size)) in enumerate(courses.items()):
        for k in range(TOLD):
            voices = held_voices if held_out and name in COURSES else open_voices
            if k and voices is held_voices:
                continue
            voice = voices[(seed * 3 + number * 7 + k * 5) % len(voices)]
            way = ways[(seed * 5 + number * 4 + k * 3) % len(ways)]
            world = World(f"{seed}-{name}-{k}", voice, size)
            course(world)
            data, truth = files(world, COLLECTORS[way], is_described=world.rng.random() < 0.6)
            yield Case(f"{name}-{voice.name}-{way}", voice.name, data, truth)


def fresh_cases(seed: int) -> Iterator[Case]:
    """Every course of the fresh examination."""
    for job in fresh.jobs(seed):
        yield Case(*job)


def evidence(data: dict[str, bytes], work: Path) -> tuple[list[Parsed], Any]:
    """The parsed files of a job and a reader of their bytes."""
    parsed = [
        parse(io.BytesIO(held), path, ParseHints(), work / f"{number:05d}")
        for number, (path, held) in enumerate(sorted(data.items()))
    ]

    def read(path: str, offset: int, length: int) -> bytes:
        return data[path][offset : offset + length]

    return parsed, read


def healthy(seed: int) -> Iterator[Case]:
    """Three healthy jobs of every voice, each collected in another way."""
    ways = list(COLLECTORS)
    for number, voice in enumerate(VOICES):
        for k in range(3):
            world = World(f"history-{seed}-{k}-{voice.name}", voice)
            COURSES["healthy"][0](world)
            data, truth = files(world, COLLECTORS[ways[(number + 4 * k) % len(ways)]], is_described=True)
            yield Case(f"{voice.name}-{k}", voice.name, data, truth)


def history(seed: int) -> History:
    """The healthy jobs, learnt."""
    return learnt(healthy(seed))


def learnt(jobs: Iterator[Case]) -> History:
    """A history of some healthy jobs."""
    known = []
    for job in jobs:
        with tempfile.TemporaryDirectory() as work:
            parsed, _ = evidence(job.files, Path(work))
            known.append(learn(parsed, job_id=job.name, family=job.voice, framework=job.voice))
    return History(tuple(known))


def scored(score: Any, truth: dict[str, Any], logs: dict[str, Any]) -> dict[str, Any]:
    """The scorer's row; without figures on root lines where no line tells the cause. ``switch_named`` is ours."""
    same = {k: (lambda x: score.norm(x)) for k in ("category", "subcategory", "symptom", "stage")}
    row: dict[str, Any] = score.score_log(truth, logs, same)
    if not truth["healthy"] and not truth["lines"].get("root"):
        row["event_f1"] = row["line_f1"] = row["event_top1_root"] = None
    return row


def show(case: Case, row: dict[str, Any], told: dict[str, Any]) -> None:
    """One miss, for reading."""
    logs, truth = told["logs"], case.truth
    bad = {k: round(row[k], 2) for k, _ in FIGURES if row.get(k) is not None and row[k] < 1}
    flaws = [flaw for flaw in ("false_alarm", "node_false_accusation") if row.get(flaw)]
    if not bad and not flaws:
        return
    print(f"{case.name}: {bad} {' '.join(flaws)}")
    said = ("outcome", "id", "symptom", "stage", "iteration", "answer")
    print(
        f"   said {' '.join(str(logs[k]) for k in said)} "
        f"{[(n['node'], n['suspect'], round(n['score'], 2)) for n in logs['nodes'][:3]]}"
    )
    if not truth["healthy"]:
        true = ("subcategory", "symptom", "stage", "iteration", "faulty_nodes", "origin_nodes")
        print(f"   true {' '.join(str(truth[k]) for k in true)}")
    for event in logs["events"][:6]:
        print(f"      {event['role']:12} {event['signature']!s:26} n={event['count']} {event['example'][:150]!r}")


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("courses", nargs="*")
    options.add_argument("--seed", type=int, default=1)
    part = options.add_mutually_exclusive_group()
    part.add_argument("--held-out", action="store_true")
    part.add_argument("--fresh", action="store_true")
    options.add_argument("--show", action="store_true")
    options.add_argument("--without-history", action="store_true")
    options.add_argument("--other-history", action="store_true")
    options.add_argument("--without-description", action="store_true")
    chosen = options.parse_args()
    wall, cpu, score = time.perf_counter(), time.process_time(), scorer()
    if chosen.fresh:
        exam, successes = fresh_cases(chosen.seed), (Case(*job) for job in fresh.successes(chosen.seed))
    else:
        exam, successes = cases(chosen.seed, held_out=chosen.held_out), healthy(chosen.seed)
    known = History() if chosen.without_history else learnt(successes)
    rows = []
    for case in exam:
        if chosen.courses and not any(c in case.name for c in chosen.courses):
            continue
        data = {k: v for k, v in case.files.items() if not (chosen.without_description and k == "job.json")}
        pool = History(tuple(j for j in known.jobs if j.family != case.voice)) if chosen.other_history else known
        with tempfile.TemporaryDirectory() as work:
            parsed, read = evidence(data, Path(work))
            told = report.to_json(diagnose(parsed, job=JobHints(family=case.voice), history=pool, read=read))
        row = scored(score, case.truth, told["logs"])
        if case.truth.get("switch") and "job.json" in data:
            row["switch_named"] = int(any(s["entity"] == case.truth["switch"] for s in told["suspects"]))
        rows.append(row)
        if chosen.show:
            show(case, row, told)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    kind = "fresh" if chosen.fresh else "held out" if chosen.held_out else "open"
    print(f"seed {chosen.seed}, {kind}: {len(rows)} jobs, {wall:.0f} s wall, {cpu:.0f} s CPU")
    extra = ("event_top1_root", "detected", "node_false_accusation", "false_alarm", "switch_named")
    for name in (*(n for n, _ in FIGURES), *extra):
        values = [r[name] for r in rows if r.get(name) is not None]
        print(f"{name:22} {sum(values) / len(values):.3f} of {len(values)}" if values else f"{name:22} -")

"""Scores the engine on made-up jobs it was not written for: `python -m measure logs [--seed N] [--held-out] [--show]
[CAUSE…]`.

Without ``--held-out`` only the causes and frameworks that were open from the first are taken; the others were held
out until their first figures stood, then read as well.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.history import History, learn
from diagnosis.model import JobHints
from diagnosis.pipeline import diagnose
from exams.logs.job import Job
from exams.logs.model import CAUSES, FRAMEWORKS, Cause, Framework
from measure.running import read_job
from measure.score import FIGURES, scorer
from measure.withheld import without_own


def fits(framework: Framework, cause: Cause) -> bool:
    """Whether some wording of the cause belongs to the framework's vendor."""
    return any(v.vendors == "any" or framework.vendor in v.vendors.split() for v in cause.variants)


def exam(seed: int) -> Iterator[tuple[str, Job, bool]]:
    """Name, job and whether it is held out: every cause on one framework, the frameworks held out on eight causes."""
    for number, cause in enumerate(CAUSES):
        able = [f for f in FRAMEWORKS if fits(f, cause) and not f.is_held_out]
        framework = able[(seed * 5 + number * 3) % len(able)]
        name = f"{cause.subcategory}-{framework.name}"
        yield name, Job(f"{seed}-{name}", framework, cause), cause.is_held_out
    for framework in FRAMEWORKS:
        if framework.is_held_out:
            able_causes = [c for c in CAUSES if fits(framework, c)]
            for k in range(8):
                cause = able_causes[(seed * 7 + k * 5) % len(able_causes)]
                name = f"{cause.subcategory}-{framework.name}"
                yield name, Job(f"{seed}-{name}", framework, cause), True
        for k in range(2):
            name = f"healthy{k}-{framework.name}"
            yield name, Job(f"{seed}-{name}", framework, None), framework.is_held_out


def evidence(job: Job, work: Path) -> tuple[Any, Any]:
    """The parsed files of a job and a reader of their bytes."""
    path = work / "job.zip"
    path.write_bytes(job.archive())
    return read_job(path, work / "parsed")


def history(seed: int) -> History:
    """Three healthy jobs of every framework."""
    known = []
    for framework in FRAMEWORKS:
        for k in range(3):
            with tempfile.TemporaryDirectory() as work:
                parsed, _ = evidence(Job(f"history-{seed}-{k}-{framework.name}", framework, None), Path(work))
                known.append(
                    learn(parsed, job_id=f"{framework.name}-{k}", family=framework.name, framework=framework.name)
                )
    return History(tuple(known))


def show(name: str, row: dict[str, Any], told: dict[str, Any], truth: dict[str, Any]) -> None:
    """One miss, for reading."""
    logs = told["logs"]
    bad = {k: round(row[k], 2) for k, _ in FIGURES if row.get(k) is not None and row[k] < 1}
    if not bad and not row.get("false_alarm") and not row.get("node_false_accusation"):
        return
    flaws = [flaw for flaw in ("false_alarm", "node_false_accusation") if row.get(flaw)]
    nodes = [(n["node"], n["suspect"]) for n in logs["nodes"][:3]]
    said = ("outcome", "id", "symptom", "stage", "iteration")
    print(f"{name}: {bad} {' '.join(flaws)}")
    print(f"   said {' '.join(str(logs[k]) for k in said)} {nodes}")
    if not truth["healthy"]:
        true = ("subcategory", "symptom", "stage", "iteration", "faulty_nodes", "origin_nodes")
        print(f"   true {' '.join(str(truth[k]) for k in true)}")
        for t in truth["templates"]:
            if t["role"] == "root":
                print(f"      ROOT {t['examples'][0][:150]!r}")
    for event in logs["events"][:6]:
        print(f"      {event['role']:12} {event['signature']!s:26} n={event['count']} {event['example'][:130]!r}")


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("causes", nargs="*")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--held-out", action="store_true", help="take only what was held out at first")
    options.add_argument("--show", action="store_true")
    options.add_argument("--without-history", action="store_true")
    options.add_argument("--without-description", action="store_true", help="leave out job.json everywhere")
    options.add_argument("--without-own-rules", action="store_true", help="withhold the rules that know each cause")
    chosen = options.parse_args()
    wall, cpu, score = time.perf_counter(), time.process_time(), scorer()
    known = History() if chosen.without_history else history(chosen.seed)
    rows = []
    for name, job, is_held_out in exam(chosen.seed):
        if is_held_out != chosen.held_out or (chosen.causes and not any(c in name for c in chosen.causes)):
            continue
        job.has_description = job.has_description and not chosen.without_description
        with tempfile.TemporaryDirectory() as work:
            parsed, read = evidence(job, Path(work))
            rules = without_own(job.truth()) if chosen.without_own_rules else None
            hints = JobHints(family=job.framework.name)
            told = report.to_json(diagnose(parsed, job=hints, history=known, read=read, rules=rules))
        same = {k: (lambda x: score.norm(x)) for k in ("category", "subcategory", "symptom", "stage")}
        row = score.score_log(job.truth(), told["logs"], same)
        rows.append(row)
        if chosen.show:
            show(name, row, told, job.truth())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    part = "held out" if chosen.held_out else "open"
    print(f"seed {chosen.seed}, {part}: {len(rows)} jobs, {wall:.0f} s wall, {cpu:.0f} s CPU")
    for name in (*(n for n, _ in FIGURES), "event_top1_root", "detected", "node_false_accusation", "false_alarm"):
        values = [r[name] for r in rows if r.get(name) is not None]
        print(f"{name:22} {sum(values) / len(values):.3f} of {len(values)}" if values else f"{name:22} -")

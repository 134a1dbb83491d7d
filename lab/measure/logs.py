"""Scores the log engine on sets of jobs: `python -m lab.measure logs SET… [--seed N…] [--show] [--only PART…]`.

Prints the mean of every figure, its 95 % interval (bootstrap over jobs) and its goal. ``--show`` prints the wrong
answers. Of a sealed set only figures are printed, with a new seed each time; ``--open`` shows it, and records that it
is open from then on. ``--without`` names parts to switch off, to measure their contribution.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.conclusion.invariants import violations
from diagnosis.history import History
from diagnosis.kinds.logs.meaning.signatures import SignatureSet
from diagnosis.learning import learn
from diagnosis.model import JobHints
from diagnosis.pipeline import diagnose
from lab.exams import sealed
from lab.exams.job import Job
from lab.measure import sets
from lab.measure.evidence import parse_files
from lab.measure.score import CONFIDENCE, FLAWS, GOALS, interval, row, scorer
from lab.measure.sets import JobSet
from lab.measure.withheld import rules_without_cause

WITHOUT = ("history", "own-history", "description", "own-rules")


def history(jobs: Iterable[Job], kept: Path | None = None) -> History:
    """The history of healthy jobs; ``kept``: they are parsed only once, below this directory."""
    known = []
    for job in jobs:
        with tempfile.TemporaryDirectory() as work:
            parsed, _ = parse_files(job.files, kept / job.name if kept else Path(work), is_kept=kept is not None)
            known.append(learn(parsed, job_id=job.name, family=job.family, framework=job.family))
    return History(tuple(known))


def report_of(job: Job, of: JobSet, known: History, rules: SignatureSet | None = None) -> dict[str, Any]:
    """The report of one job."""
    hints = JobHints(job_id=job.name if of.is_alone else "", family=job.family)
    with tempfile.TemporaryDirectory() as work:
        parsed, read = parse_files(job.files, Path(work), kind=of.kind)
        return report.to_json(diagnose(parsed, job=hints, history=known, read=read, rules=rules))


def show(job: Job, found: dict[str, Any], answer: dict[str, Any]) -> None:
    """The wrong answers, to be read."""
    held = {k: found[k] for k in GOALS if k not in CONFIDENCE and found.get(k) is not None}
    bad = {k: round(v, 2) for k, v in held.items() if (v > 0 if k in FLAWS else v < 1)}
    if not bad:
        return
    logs, truth = answer["logs"] or {}, job.truth
    print(f"{job.name}: {bad}\n   {answer['headline'][:220]}")
    for text in violations(answer):
        print(f"   contradiction: {text}")
    keys = ("outcome", "id", "subcategory", "symptom", "stage", "iteration")
    nodes = [(n["node"], n["suspect"], round(n["score"], 2)) for n in logs.get("nodes", ())[:3]]
    print(f"   answered {' '.join(str(logs.get(k)) for k in keys)} {nodes}")
    true = ("outcome", "category", "subcategory", "symptom", "stage", "iteration", "faulty_nodes", "origin_nodes")
    print(f"   true {' '.join(str(truth[k]) for k in (*true, 'root_lines') if k in truth)}")
    for t in truth.get("templates", ()):
        if t["role"] == "root":
            print(f"      ROOT {t['examples'][0][:150]!r}")
    for event in (logs.get("events") or ())[:6]:
        print(f"      {event['role']:12} {event['signature']!s:26} n={event['count']} {event['example'][:130]!r}")


def figures(rows: list[dict[str, Any]], names: list[str]) -> None:
    """Every figure with its interval and its goal."""
    for name, asked in GOALS.items():
        found = [(r[name], n) for r, n in zip(rows, names, strict=True) if r.get(name) is not None]
        if found:
            values = [float(v) for v, _ in found]
            low, high = interval(values, [n for _, n in found])
            wanted = "" if asked is None else f"   asked {asked:.2f}"
            print(f"  {name:22} {sum(values) / len(values):.3f}  [{low:.2f}, {high:.2f}] of {len(values)}{wanted}")


def main() -> None:
    """Score the sets asked for."""
    known_sets = sets.load()
    options = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{s.name:18} {s.about}" for s in known_sets.values())
        + f"\n{sets.SEALED:18} every set that is still sealed",
    )
    options.add_argument("sets", nargs="+", choices=(*known_sets, sets.SEALED), metavar="SET", help="or: sealed")
    options.add_argument("--seed", type=int, nargs="+", help="dice of made-up sets (default: 1; sealed: new ones)")
    options.add_argument("--only", nargs="+", default=[""], help="jobs whose name contains one of these")
    options.add_argument("--show", action="store_true", help="print what was answered wrongly")
    options.add_argument("--open", action="store_true", help="look into a sealed set, and record that it is open")
    options.add_argument("--without", nargs="+", choices=WITHOUT, default=[])
    options.add_argument("--with-history", action="store_true", help="where a set is usually taken without")
    options.add_argument("--out", type=Path, help="write the predictions of the last seed as JSON")
    chosen = options.parse_args()
    for of in sets.chosen_sets(chosen.sets, known_sets):
        score(of, chosen)


def score(of: JobSet, chosen: argparse.Namespace) -> None:
    """Print the figures of one set."""
    is_shut = of.is_sealed and not chosen.open
    if is_shut and (chosen.show or chosen.out or chosen.only != [""]):
        raise SystemExit(f"{of.name} is sealed: --show, --only and --out need --open, which is recorded")
    if of.is_sealed and chosen.open:
        sealed.record(of.name.removeprefix("sealed-"), datetime.now(UTC).date())
    if of.row is row:
        scorer()  # without it the run ends now, not after its work
    seeds = chosen.seed or ([random.SystemRandom().randrange(10**9)] if of.is_sealed else [1])
    wall, cpu = time.perf_counter(), time.process_time()
    rows, names, predictions = [], [], {}
    has_history = not (of.is_alone and not chosen.with_history) and "history" not in chosen.without
    for seed in seeds:
        known = history(of.successes(seed)) if has_history else History()
        for job in of.jobs(seed):
            if not any(part in job.name for part in chosen.only):
                continue
            if "description" in chosen.without:
                job = job._replace(files={k: v for k, v in job.files.items() if k != "job.json"})
            pool = known
            if "own-history" in chosen.without:
                pool = History(tuple(j for j in known.jobs if j.family != job.family))
            answer = report_of(job, of, pool, rules_without_cause(job.truth) if "own-rules" in chosen.without else None)
            found = {**of.row(job, answer), "contradictions": len(violations(answer))}
            rows.append(found)
            names.append(job.name)
            predictions[job.name] = answer["logs"]
            if chosen.show:
                show(job, found, answer)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{of.name}, seeds {' '.join(map(str, seeds))}: {len(rows)} jobs, {wall:.0f} s wall, {cpu:.0f} s CPU")
    figures(rows, names)
    if chosen.out:
        chosen.out.write_text(json.dumps({"logs": predictions}))

"""Scores the engine on the practice set with its own history: `python -m measure practice [--out pred.json]
[--without-own-rules] [JOB…]`.

Reads `$FAULTLINE_SHARED/data/practice` (default `../shared`) and scores with `tools/score.py` there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.history import History, learn
from diagnosis.model import JobHints
from diagnosis.pipeline import diagnose
from measure.running import SHARED, read_job
from measure.score import FIGURES, scorer
from measure.withheld import without_own


def history(exam: dict[str, Any], base: Path) -> History:
    """The healthy jobs of the set, learnt."""
    jobs = []
    for row in exam["logs"]["history"]:
        with tempfile.TemporaryDirectory() as work:
            parsed, _ = read_job(base / row["path"], Path(work))
            jobs.append(learn(parsed, job_id=row["job_id"], family=row["profile"], framework=row["profile"]))
    return History(tuple(jobs))


def predict(
    exam: dict[str, Any], base: Path, known: History, only: list[str], truth: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The report's ``logs`` of every case; with ``truth``, each without the rules that know its cause."""
    out = {}
    for row in exam["logs"]["cases"]:
        if only and row["job_id"] not in only:
            continue
        rules = None if truth is None else without_own(truth[row["job_id"]])
        with tempfile.TemporaryDirectory() as work:
            parsed, read = read_job(base / row["path"], Path(work))
            result = diagnose(parsed, job=JobHints(family=row["profile"]), history=known, read=read, rules=rules)
            out[row["job_id"]] = report.to_json(result)["logs"]
    return out


def main() -> None:
    """Print the figures, the ones asked for beside them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("jobs", nargs="*")
    options.add_argument("--out", type=Path)
    options.add_argument("--without-history", action="store_true", help="how much the cross-job comparison is worth")
    options.add_argument("--without-own-rules", action="store_true", help="withhold the rules that know each cause")
    chosen = options.parse_args()
    base = SHARED / "data" / "practice"
    exam = json.loads((base / "exam.json").read_text())
    wall, cpu = time.perf_counter(), time.process_time()
    known = History() if chosen.without_history else history(exam, base)
    score = scorer()
    truth, _ = score.load_truth(str(base), False)
    predictions = predict(exam, base, known, chosen.jobs, truth["logs"] if chosen.without_own_rules else None)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if chosen.out:
        chosen.out.write_text(json.dumps({"logs": predictions}))
    mine = {k: v for k, v in truth["logs"].items() if k in predictions}
    scored = score.score({"logs": mine, "flows": {}, "stacks": {}}, {"logs": predictions})["logs"]
    print(f"{len(mine)} jobs, {wall:.0f} s wall, {cpu:.0f} s CPU, {len(known.jobs)} healthy jobs")
    for name, wanted in FIGURES:
        value = scored["all"].get(name)
        print(f"{name:16} {'-' if value is None else f'{value:.3f}'}   asked {wanted:.2f}")
    print(f"false accusation {scored['all'].get('node_false_accusation')}   asked 0")
    print(f"false alarms     {scored['controls'].get('false_alarm')}   asked 0")
    for job, row in sorted(scored["cases"].items()):
        weak = {k: row[k] for k, _ in FIGURES if row.get(k) is not None and row[k] < 1}
        if weak or row.get("false_alarm") or row.get("node_false_accusation"):
            print(f"  {job} {row['profile']} {row['subcategory']}: {weak}")

"""Scores the flow engine: `python -m lab.measure flows [--set SET…] [--seed N]`.

Made-up captures (``lab.exams.flows``: other fabrics, layouts, collectives and exporters than the practice data) and the
practice set, scored by the same scorer. Nobody read the held-out cases while the engine was changed.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from diagnosis.evidence.inventory import machine_of
from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.tell.engine import diagnose_flows
from diagnosis.model import ParseHints
from diagnosis.values.plain import plain
from lab.exams.flows.capture import Case, build
from lab.exams.flows.exam import SETS
from lab.measure.evidence import SHARED
from lab.measure.score import scorer


class Capture(NamedTuple):
    """One capture as uploaded, and its truth; ``arrays``: of each rank, where the practice set has them."""

    name: str
    file: str
    data: bytes
    inventory: list[dict[str, Any]]
    truth: dict[str, Any]
    arrays: Any = None


def made_capture(case: Case) -> Capture:
    """The capture of a made-up case."""
    table, rows, truth = build(case)
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return Capture(case.name, "flows.parquet", buffer.getvalue(), rows, truth)


def practice(*, with_inventory: bool = True) -> Iterator[Capture]:
    """The captures of the practice set (needs FAULTLINE_SHARED)."""
    base = SHARED / "data" / "practice"
    truth, arrays = scorer().load_truth(str(base))
    for entry in json.loads((base / "exam.json").read_text())["flows"]:
        name, path, known = entry["set_id"], base / entry["path"], base / entry["inventory"]
        rows = list(csv.DictReader(known.open())) if with_inventory and known.exists() else []
        yield Capture(name, path.name, path.read_bytes(), rows, truth["flows"][name], arrays.get(name))


def captures(chosen: argparse.Namespace) -> Iterator[Capture]:
    """The captures that the options name; each made-up case with every seed."""
    for name in chosen.set or ["open"]:
        if name == "practice":
            yield from practice(with_inventory=not chosen.no_inventory)
            continue
        for case in SETS[name]():
            if sum(t.world for t in case.tenants) <= chosen.most and _is_wanted(case.name, chosen.case):
                for dice in range(chosen.seed, chosen.seed + 1000 * chosen.seeds, 1000):
                    thrown = replace(case, tenants=tuple(replace(t, seed=t.seed + dice) for t in case.tenants))
                    yield made_capture(replace(thrown, name=f"{case.name} {dice}" if dice else case.name))


def _is_wanted(name: str, parts: list[str] | None) -> bool:
    return not parts or any(part in name for part in parts)


def answer(capture: Capture) -> tuple[dict[str, Any], int, float]:
    """The engine's flows object, records, CPU seconds of the engine."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as work:
        parsed = parse_flow(io.BytesIO(capture.data), capture.file, ParseHints(), Path(work))
        found = diagnose_flows([parsed], inventory=list(map(machine_of, capture.inventory)))
    report = msgspec.to_builtins(found, enc_hook=plain)
    return report, parsed.facts["flow"]["records"], time.process_time() - began


def _in_turn(truth: dict[str, Any], report: dict[str, Any]) -> None:
    """Numbers the jobs that ran one after another on the same machines, in both."""
    first = {
        "truth": lambda j: j["steps"]["comm_end"][0],
        "report": lambda j: j["steps"][0]["start"] if j["steps"] else 0,
    }
    shared = {tuple(sorted(j["members"])) for j in truth["jobs"]}
    if len(shared) == len(truth["jobs"]):
        return
    for kind, jobs in (("truth", truth["jobs"]), ("report", report["jobs"])):
        held: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for job in jobs:
            held.setdefault(tuple(sorted(job["members"])), []).append(job)
        for members, own in held.items():
            for turn, job in enumerate(sorted(own, key=first[kind])):
                text = json.dumps(job)
                for name in members:
                    text = text.replace(f'"{name}"', f'"{name}#{turn}"')
                job.update(json.loads(text))


SHOWN_FIGURES = {
    "job_exact": "jobs",
    "pair_accuracy": "pairs",
    "size_tp": "tp",
    "size_pp": "pp",
    "size_dp": "dp",
    "steps_missed": "miss",
    "steps_extra": "extra",
    "step_err_pct_median": "med%",
    "step_err_pct_p99": "p99%",
    "slow_step_recall": "stepR",
    "slow_step_fp": "fp",
    "slow_group_recall": "grpR",
    "slow_group_fp": "fp",
    "slow_switch_recall": "swR",
    "slow_switch_fp": "fp",
    "culprit_recall": "culp",
}


PRECISION = ("slow_step", "slow_group", "slow_switch")


def score(capture: Capture) -> tuple[dict[str, Any], dict[str, Any], int, float]:
    """The scorer's row with counts of findings, report, records, CPU seconds."""
    report, records, seconds = answer(capture)
    _in_turn(capture.truth, report)
    row = scorer().score_flow(capture.truth, report, capture.arrays)
    groups = [p for p in capture.truth["problems"] if p["kind"] == "slow_group"]
    if groups and not any(p["culprit_gpus"] for p in groups):
        row["culprit_recall"] = None  # nobody is at fault
    told = [x["kind"] for job in report["jobs"] for x in job["diagnoses"]] + [x["kind"] for x in report["diagnoses"]]
    for kind in PRECISION:
        row[f"{kind}_tp"] = told.count(kind) - row[f"{kind}_fp"] - row[f"{kind}_explained"]
    return row, report, records, seconds


def main() -> None:
    """Score the sets asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--set", choices=(*SETS, "practice"), action="append", help="default: open")
    options.add_argument("--seed", type=int, default=0, help="added to every seed: the same worlds, drawn again")
    options.add_argument("--seeds", type=int, default=1, help="number of repetitions, each with another seed")
    options.add_argument("--most", type=int, default=10**9, help="leave out captures of more GPUs")
    options.add_argument("--case", action="append", help="only these (part of the name)")
    options.add_argument("--no-inventory", action="store_true", help="of the practice set")
    options.add_argument("--misses", action="store_true", help="print what was answered wrongly")
    options.add_argument("--quiet", action="store_true", help="only the averages")
    chosen = options.parse_args()
    results: list[dict[str, Any]] = []
    print(f"{'case':24}{'records':>9}{'CPU s':>7} " + " ".join(f"{v:>5}" for v in SHOWN_FIGURES.values()))
    for capture in captures(chosen):
        row, report, records, seconds = score(capture)
        results.append(row | {"case": capture.name})
        wrong = row["slow_step_fp"] or row["slow_group_fp"] or row["job_exact"] < 1 or row["steps_missed"]
        if not chosen.quiet or wrong:
            cells = " ".join(f"{'-' if row.get(k) is None else format(row[k], '.3g'):>5}" for k in SHOWN_FIGURES)
            print(f"{capture.name:24}{records:9}{seconds:7.1f} {cells}", flush=True)
        if chosen.misses:
            _explain(capture.truth, report, row)
    _summary(results)


def _summary(results: list[dict[str, Any]]) -> None:
    """Of every figure the mean, the worst and its name; precision over all findings together."""
    steps = sum(r["steps_true"] for r in results)
    print(
        f"{len(results)} captures, {steps} steps; missed + extra steps "
        f"{sum(r['steps_missed'] + r['steps_extra'] for r in results) / max(1, steps):.2%}"
    )
    for key in SHOWN_FIGURES:
        rows = [(r[key], r["case"]) for r in results if r.get(key) is not None]
        if not rows:
            continue
        small = key.startswith(("job", "pair", "size")) or key.endswith("recall")
        worst = min(rows, key=lambda x: x[0]) if small else max(rows, key=lambda x: x[0])
        mean = sum(x for x, _ in rows) / len(rows)
        below = sum(x != (1 if small else 0) for x, _ in rows)
        print(f"  {key:22} mean {mean:.4f}  worst {worst[0]:.4f} ({worst[1]}), {below} of {len(rows)} not perfect")
    for kind in PRECISION:
        right, wrong = sum(r[f"{kind}_tp"] for r in results), sum(r[f"{kind}_fp"] for r in results)
        print(f"  {kind}_precision {right / max(1, right + wrong):.4f} ({right} right, {wrong} wrong)")


def _explain(truth: dict[str, Any], report: dict[str, Any], row: dict[str, Any]) -> None:
    print(
        "   confusion",
        row["pair_confusion"],
        "|",
        report.get("why_not"),
        "|",
        report.get("limits"),
        report.get("clocks"),
    )
    for job in truth["jobs"]:
        print("   true", job["id"], len(job["members"]), job["parallel"], job["steps"]["n"], "steps")
    for job in report["jobs"]:
        steps = job["steps"]
        print("   found", len(job["members"]), job["parallelism"], len(steps), "steps", job.get("paced_by"))
        for x in job["diagnoses"]:
            print("     ", json.dumps({k: v for k, v in x.items() if k not in ("members",)})[:300])
    for x in report["diagnoses"]:
        print("   fabric", json.dumps(x)[:300])
    for x in truth["problems"]:
        print("   truth", json.dumps({k: v for k, v in x.items() if k != "groups"})[:220])

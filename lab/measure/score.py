"""The only scorer: the program of the reference evidence, the goals, and means with intervals."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from lab.exams.job import Job
from lab.measure import public, recordings
from lab.measure.evidence import SHARED

#: Figures of one diagnosed job and their goals; None: no goal yet.
GOALS: dict[str, float | None] = {
    "event_f1": 0.93,
    "line_f1": 0.85,
    "node_top1": 0.97,
    "node_f1": 0.93,
    "category_ok": 0.95,
    "subcategory_ok": 0.90,
    "symptom_ok": 0.95,
    "stage_ok": 0.92,
    "iteration_hit": 0.95,
    "event_top1_root": None,
    "detected": None,
    "switch_named": None,
    "rank_ok": None,
    "outcome_ok": 0.95,
    "root_first": 0.85,
    "node_false_accusation": 0.0,
    "false_alarm": 0.0,
    "brier": 0.09,
    "overconfident": 0.03,
    "contradictions": 0.0,
}
#: Figures where less is better.
FLAWS = ("node_false_accusation", "false_alarm", "brier", "overconfident", "contradictions")
#: Figures that are not right or wrong for one job.
CONFIDENCE = ("brier", "overconfident")
#: Figures of public logs under the names of :data:`GOALS`.
_PUBLIC_FIGURES = {
    "seen": "detected",
    "outcome": "outcome_ok",
    "category": "category_ok",
    "leaf": "subcategory_ok",
    "root first": "root_first",
}
#: Real logs that say too little for an outcome.
_NOT_COUNTED = ("helper_log", "unlabelled_fragment", "truncated")


def scorer() -> ModuleType:
    """The scoring program as a module."""
    return _program("score")


@cache
def _program(name: str) -> ModuleType:
    """A program of the reference evidence as a module."""
    path = SHARED / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"the scorer was not found at {path}; set FAULTLINE_SHARED")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """The scorer's row; without figures on root lines if no line shows the cause. ``switch_named``, ``brier`` (of the
    subcategory) and ``overconfident`` are added here.
    """
    truth, logs = job.truth, told["logs"] or {}
    same = {k: scorer().norm for k in ("category", "subcategory", "symptom", "stage")}
    found: dict[str, Any] = scorer().score_log(truth, logs, same)
    if truth["healthy"]:
        return found
    if not truth["lines"].get("root"):
        found["event_f1"] = found["line_f1"] = found["event_top1_root"] = None
    if truth.get("switch") and "job.json" in job.files:
        found["switch_named"] = int(any(s["entity"] == truth["switch"] for s in told["suspects"]))
    if logs.get("confidence") is not None:
        found["brier"] = (logs["confidence"] - found["subcategory_ok"]) ** 2
        found["overconfident"] = logs["confidence"] - found["subcategory_ok"]
    return found


def real_row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """Of a real log: outcome, a root line first, false alarm."""
    logs = told["logs"] or {"outcome": "unknown", "is_failure": False, "lines": [], "nodes": []}
    truth, found = job.truth, dict[str, Any]()
    if truth["outcome"] == "success":
        found["false_alarm"] = int(logs["is_failure"] or any(n["suspect"] for n in logs["nodes"]))
    if truth["outcome"] not in _NOT_COUNTED:
        found["outcome_ok"] = int(logs["outcome"] in truth["accept_outcome"].split("|"))
        if truth["root_lines"]:
            found["root_first"] = int(bool(logs["lines"]) and logs["lines"][0]["line"] in truth["root_lines"])
    return found


def testbed_row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """Of a recording: the faulty node first, nobody accused where nobody is at fault."""
    if not job.truth["is_failure"]:
        return {"false_alarm": int(bool(told["logs"]) and told["logs"]["is_failure"])}
    nodes = [s for s in told["suspects"] if s["kind"] == "node"]
    if faulty := job.truth["faulty_nodes"]:
        return {"node_top1": int(bool(nodes) and nodes[0]["entity"] in faulty)}
    return {"node_false_accusation": int(any(s["suspect"] for s in nodes))}


def public_row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """Of a public log: the figures of :mod:`lab.measure.public` under the names of :data:`GOALS`."""
    figures = public.row(job.truth["label"], told)
    found = {name: figures[of] for of, name in _PUBLIC_FIGURES.items() if of in figures}
    if "quiet" in figures:
        found["false_alarm"] = 1 - figures["quiet"]
    return found


def case_row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """Of a small input: whether its program finds a fault in the answer."""
    faults, _ = _program("check_cases").judge(job.truth, told, "")
    return {"detected": int(not faults)}


def recording_row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """Of a recording: its condition, and whether who is named is at fault."""
    totals = recordings.Totals()
    recordings.judge(job.truth["recording"], told, totals)
    right = {name: int(all(values)) for name, values in totals.rows.items()}
    named = [right[name] for name in ("slow", "hung", "other", "uplink", "nobody", "above") if name in right]
    return {"outcome_ok": right["condition"], "node_top1": int(all(named))}


def quality(found: dict[str, Any]) -> float:
    """One number for one job, 0 to 1: the mean of its figures, flaws counted as their opposite."""
    values = [
        1.0 - found[name] if name in FLAWS else float(found[name])
        for name in GOALS
        if name not in CONFIDENCE and found.get(name) is not None
    ]
    return sum(values) / len(values) if values else 1.0


def interval(values: Sequence[float], groups: Sequence[str], *, draws: int = 2_000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean; members of one group (a course under several seeds) are drawn together.

    Deterministic. O(draws x groups).
    """
    sums: dict[str, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        held = sums.setdefault(group, [0.0, 0.0])
        held[0] += value
        held[1] += 1
    pairs, rng = list(sums.values()), random.Random(1)
    means = []
    for _ in range(draws):
        drawn = rng.choices(pairs, k=len(pairs))
        means.append(sum(p[0] for p in drawn) / sum(p[1] for p in drawn))
    means.sort()
    return means[int(0.025 * draws)], means[int(0.975 * draws)]

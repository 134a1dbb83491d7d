"""From flow records to the report's ``flows`` object: the order of LLMPrism's four phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diagnosis.flows.capture import Capture, load
from diagnosis.flows.jobs import JobFlows, recognise
from diagnosis.flows.pairs import DP, Pairs, classify
from diagnosis.flows.parallelism import Layout, find_layout, rings_of
from diagnosis.flows.slowness import (
    Episode,
    Slow,
    explain,
    late_members,
    lasting,
    narrowed,
    slow_steps,
    slow_transfers,
    uneven_stages,
)
from diagnosis.flows.stages import StageTimes, stage_times
from diagnosis.flows.steps import Steps, find_steps, rank_ends
from diagnosis.flows.transfers import Transfers, measure
from diagnosis.model import OnStage, Parsed, silent


@dataclass(slots=True)
class Analysed:
    """One job with everything found out about it."""

    job: JobFlows
    pairs: Pairs
    layout: Layout
    steps: Steps | None
    transfers: Transfers | None
    slow: list[Slow]
    stages: StageTimes | None = None


def analyse(capture: Capture, on_stage: OnStage = silent) -> tuple[list[Analysed], list[Slow], float]:
    """All four phases over a capture: jobs (largest first), findings of the fabric, background share."""
    recognition = recognise(capture)
    jobs: list[Analysed] = []
    total = len(recognition.jobs)
    for number, job in enumerate(recognition.jobs):
        on_stage("flows", number, total)
        pairs = classify(job, capture)
        steps = find_steps(job, pairs, capture)
        if steps is None and len(job.flows) < 0.01 * len(capture.flows):
            continue
        layout = find_layout(job, pairs, capture)
        jobs.append(Analysed(job, pairs, layout, steps, None, []))
    on_stage("flows", total, total)
    fabric = _slowness(jobs, capture)
    return jobs, fabric, recognition.background


def _slowness(jobs: list[Analysed], capture: Capture) -> list[Slow]:
    """Fills each job's findings; returns those of switches."""
    episodes: list[Episode] = []
    paced = [a for a in jobs if a.steps is not None]
    for number, a in enumerate(paced):
        assert a.steps is not None
        a.transfers = measure(a.job, a.pairs, rings_of(a.pairs, DP, len(capture.names)), a.steps, capture)
        _, usual, _ = slow_steps(a.steps)
        times = a.stages = stage_times(a.job, a.pairs, a.layout, a.steps, capture) if a.layout.pp > 1 else None
        a.slow = late_members(a.transfers, a.steps, a.layout, capture, usual)
        if times is not None:
            a.slow = narrowed(a.slow, times, a.steps, capture)
            a.slow.extend(uneven_stages(times, a.steps, capture))
        episodes.extend(slow_transfers(a.transfers, a.steps, number))
    fabric: list[Slow] = []
    tables = [a.transfers for a in paced if a.transfers is not None]
    for owner, slow in explain(episodes, tables, [a.layout for a in paced], capture):
        if owner is None:
            fabric.append(slow)
        else:
            paced[owner].slow.append(slow)
    for a in paced:
        a.slow.extend(lasting(a.steps, [*a.slow, *fabric], a.layout, a.stages, capture) if a.steps is not None else [])
        a.slow.extend(_unexplained(a, fabric))
    return fabric


def _unexplained(a: Analysed, fabric: list[Slow]) -> list[Slow]:
    """Slow steps that no slow group or switch accounts for."""
    assert a.steps is not None
    mask, usual, limit = slow_steps(a.steps)
    found: list[Slow] = []
    for k in np.flatnonzero(mask):
        t0, t1 = float(a.steps.start[k]), float(a.steps.end[k])
        whole = 0.9 * (float(a.steps.end[-1]) - float(a.steps.start[0]))
        known = [s for s in [*a.slow, *fabric] if s.t1 - s.t0 < whole]
        if any(s.t0 < t1 - 0.3 * (t1 - t0) and s.t1 > t0 + 0.3 * (t1 - t0) for s in known):
            continue
        reason = f"Step {k + 1} took {t1 - t0:.3f} s; the usual is {usual:.3f} s, the limit {limit:.3f} s."
        found.append(Slow("slow_step", t0, t1, reason, factor=(t1 - t0) / usual, confidence=0.9, step=int(k)))
    return found


def diagnose_flows(
    parsed: Sequence[Parsed], *, inventory: Sequence[Mapping[str, Any]] = (), on_stage: OnStage = silent
) -> dict[str, Any]:
    """The report's ``flows`` object plus ``suspects``.

    ``inventory`` rows hold ``ip`` and any of ``node``, ``gpu``, ``switch`` or ``leaf``; without it machines stay unknown.
    """
    capture = load(parsed, inventory)
    if capture is None:
        return {
            "usable_for_timeline": False,
            "why_not": "No flow records.",
            "jobs": [],
            "diagnoses": [],
            "suspects": [],
        }
    jobs, fabric, background = analyse(capture, on_stage)
    report = [_job(a, n, capture) for n, a in enumerate(jobs)]
    return {
        "usable_for_timeline": any(j["steps"] for j in report),
        "why_not": None if any(j["steps"] for j in report) else "No traffic repeats in steps.",
        "jobs": report,
        "diagnoses": [_slow(s, capture) for s in fabric],
        "suspects": [],
    }


def _job(a: Analysed, number: int, capture: Capture) -> dict[str, Any]:
    """One job's part of the report."""
    names = capture.names
    steps = a.steps

    def groups(of: list[Any]) -> list[list[str]]:
        return [[names[int(m)] for m in g] for g in of]

    return {
        "id": f"job-{number}",
        "members": [names[int(m)] for m in a.job.members],
        "parallelism": {"tp": a.layout.tp, "pp": a.layout.pp, "dp": a.layout.dp},
        "groups": {
            "pp": groups(a.layout.pp_groups),
            "dp": groups(a.layout.dp_groups),
            "ep": groups(a.layout.ep_groups),
        },
        "pairs": [
            {"a": names[int(x)], "b": names[int(y)], "type": kind}
            for x, y, kind in zip(a.pairs.a, a.pairs.b, a.pairs.type, strict=True)
        ],
        "steps": _steps(steps, capture) if steps is not None else [],
        "rank_steps": _rank_steps(a, capture) if steps is not None else {},
        "diagnoses": [_slow(s, capture) for s in sorted(a.slow, key=lambda s: s.t0)],
        "how": a.layout.how,
    }


def _steps(steps: Steps, capture: Capture) -> list[dict[str, float]]:
    return [
        {"start": capture.at(s), "end": capture.at(e), "confidence": round(float(c), 3)}
        for s, e, c in zip(steps.start, steps.end, steps.confidence, strict=True)
    ]


def _rank_steps(a: Analysed, capture: Capture) -> dict[str, list[dict[str, float]]]:
    """Per address: the end of its group's last pacing record in each step."""
    assert a.steps is not None
    count = len(capture.names)
    groups = a.layout.dp_groups or a.layout.pp_groups
    owner = np.full(count, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        owner[group] = number
    index = a.pairs.index(a.job.flows, count)
    flows = a.job.flows.take(
        a.pairs.of(a.steps.pace)[index] if a.steps.pace != "all" else np.ones(len(index), dtype=bool)
    )
    ends = rank_ends(flows, a.steps, owner[flows.src], len(groups))
    out: dict[str, list[dict[str, float]]] = {}
    for number, group in enumerate(groups):
        column = ends[:, number]
        rows = []
        before: float | None = None
        for k, end in enumerate(column):
            if np.isnan(end):
                before = None
                continue
            start = before if before is not None else float(a.steps.start[k])
            rows.append({"start": capture.at(start), "end": capture.at(end)})
            before = float(end)
        for member in group:
            out[capture.names[int(member)]] = rows
    return out


def _slow(slow: Slow, capture: Capture) -> dict[str, Any]:
    """One finding as JSON."""
    out: dict[str, Any] = {
        "kind": slow.kind,
        "t0": capture.at(slow.t0),
        "t1": capture.at(slow.t1),
        "reason": slow.reason,
        "factor": round(slow.factor, 3),
        "confidence": round(slow.confidence, 3),
    }
    if slow.kind == "slow_switch":
        out |= {"switch": slow.switch, "candidates": slow.candidates}
    if slow.members:
        out["members"] = [capture.names[m] for m in slow.members]
    if slow.culprits or slow.nodes:
        out["culprits"] = [*(capture.names[m] for m in slow.culprits), *slow.nodes]
    if slow.step is not None:
        out["step"] = slow.step + 1
    return out

"""Stretches of slow steps, their cost, and whether the cost is high enough to report. Logs and flows both count steps.
A stretch in both is one stretch, with the step numbers of the logs, because those are the job's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from diagnosis.conclusion.model import Slowdown

#: GPU-seconds beyond the usual from which a slowdown is reported; the site may set another value.
LEAST_LOST_GPU_S: Final = 20.0
#: Slow steps with at most this many usual ones between them belong to one stretch.
BETWEEN: Final = 2
#: A stretch of this many slow steps is no noise; fewer must take as long as this many usual steps.
LASTING: Final = 3
STANDSTILL: Final = 8.0
#: Half as long is enough if flows show who caused it.
STANDSTILL_NAMED: Final = 4.0


def of_flows(flows: Mapping[str, Any] | None, gpus: int | None) -> list[Slowdown]:
    """The slow steps of each job of the capture as stretches. O(steps)."""
    found: list[Slowdown] = []
    for job in (flows or {}).get("jobs") or ():
        steps = job.get("steps") or []
        rows = [d for d in job.get("diagnoses") or () if d.get("kind") in ("slow_step", "slow_group")]
        rows += (flows or {}).get("diagnoses") or ()  # of switches
        slow = _slow_numbers(steps, rows)
        if not slow:
            continue
        lengths = np.array([float(s["end"]) - float(s["start"]) for s in steps])
        usual = float(np.median(np.delete(lengths, slow))) if len(slow) < len(lengths) else float(np.median(lengths))
        ranks = gpus or len(job.get("members") or ()) or None
        named = set(_slow_numbers(steps, [d for d in rows if d.get("kind") != "slow_step"]))
        for part in _parts(slow):
            standstill = STANDSTILL_NAMED if named & set(part) else STANDSTILL
            found.append(_stretch(part, steps, lengths, usual, gpus=ranks, standstill=standstill))
    return found


def of_logs(
    phase: tuple[int, int, float] | None, iterations: Sequence[Mapping[str, Any]], gpus: int | None
) -> list[Slowdown]:
    """The stretch that the logs' iterations show. ``phase``: first, last iteration and factor."""
    if phase is None:
        return []
    first, last, factor = phase
    rows = [r for r in iterations if first <= int(r["n"]) <= last]
    outside = [float(r["seconds"]) for r in iterations if r.get("seconds") and not first <= int(r["n"]) <= last]
    times = [float(r["t"]) for r in rows if r.get("t") is not None]
    count = last - first + 1
    usual = float(np.median(outside)) if outside else 0.0
    lost = max(0.0, usual * (factor - 1.0) * count)
    later = any(int(r["n"]) > last for r in iterations)
    return [
        Slowdown(
            "logs",
            (first, last),
            count,
            factor,
            lost,
            None if gpus is None else lost * gpus,
            min(times, default=None),
            max(times, default=None),
            is_over=later,
            is_standstill=count == 1,
        )
    ]


def reported(logs: Iterable[Slowdown], flows: Iterable[Slowdown], least_gpu_s: float) -> tuple[Slowdown, ...]:
    """The stretches to report, largest loss first: those of the logs, and those of the flows that the logs lack."""
    kept = [s for s in logs if is_worth(s, least_gpu_s)]
    for stretch in flows:
        if is_worth(stretch, least_gpu_s) and not any(_overlap(stretch, other) for other in kept):
            kept.append(stretch)
    return tuple(sorted(kept, key=lambda s: (-s.lost_s, s.steps)))


def is_worth(stretch: Slowdown, least_gpu_s: float) -> bool:
    """Whether a stretch is reported: it is long enough to be no noise, and costs enough."""
    lost = stretch.lost_s if stretch.lost_gpu_s is None else stretch.lost_gpu_s
    return (stretch.count >= LASTING or stretch.is_standstill) and lost >= least_gpu_s


def _slow_numbers(steps: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of the steps that a finding covers for the greater part."""
    if not steps or not rows:
        return []
    start = np.array([float(s["start"]) for s in steps])
    end = np.array([float(s["end"]) for s in steps])
    covered = np.zeros(len(steps), dtype=bool)
    for row in rows:
        inside = np.minimum(end, float(row["t1"])) - np.maximum(start, float(row["t0"]))
        covered |= inside > 0.5 * (end - start)
    lengths = end - start
    limit = 1.15 * float(np.median(lengths))
    return [int(k) for k in np.flatnonzero(covered & (lengths > limit))]


def _parts(slow: Sequence[int]) -> list[list[int]]:
    parts: list[list[int]] = [[slow[0]]]
    for k in slow[1:]:
        if k - parts[-1][-1] <= BETWEEN + 1:
            parts[-1].append(k)
        else:
            parts.append([k])
    return parts


def _stretch(
    part: Sequence[int],
    steps: Sequence[Mapping[str, Any]],
    lengths: np.ndarray,
    usual: float,
    *,
    gpus: int | None,
    standstill: float,
) -> Slowdown:
    mine = lengths[list(part)]
    lost = float(np.maximum(mine - usual, 0.0).sum())
    return Slowdown(
        "flows",
        (part[0] + 1, part[-1] + 1),
        len(part),
        float(mine.mean() / usual) if usual > 0 else 1.0,
        lost,
        None if gpus is None else lost * gpus,
        float(steps[part[0]]["start"]),
        float(steps[part[-1]]["end"]),
        is_over=part[-1] + 1 < len(steps),
        is_standstill=bool(usual > 0 and mine.max() >= standstill * usual),
    )


def _overlap(one: Slowdown, other: Slowdown) -> bool:
    """By time if both have times, else by the numbers of the steps."""
    if None not in (one.at, one.until, other.at, other.until):
        slack = 0.1 * (one.until - one.at)  # type: ignore[operator]
        return bool(one.at - slack <= other.until and other.at - slack <= one.until)  # type: ignore[operator]
    return one.steps[0] <= other.steps[1] and other.steps[0] <= one.steps[1]

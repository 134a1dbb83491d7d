"""Stretches of slow steps, their cost, and whether the cost is high enough to report. Logs and flows both count steps.
A stretch in both is one stretch, with the step numbers of the logs, because those are the job's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from diagnosis import thresholds
from diagnosis.conclusion.model import Slowdown
from diagnosis.evidence import FlowFinding, FlowJob, Interval, SlowFinding
from diagnosis.stats import spread

THRESHOLDS: Final = thresholds.of("slowdowns")


class _Timeline:
    """The steps of one job of flows, as arrays."""

    def __init__(self, steps: Sequence[Interval]) -> None:
        self.start = np.array([step.start for step in steps])
        self.end = np.array([step.end for step in steps])
        self.seconds = self.end - self.start

    def __len__(self) -> int:
        return len(self.seconds)

    def steps_of(self, row: SlowFinding) -> list[int]:
        """Indices of the steps that one finding covers for the greater part."""
        inside = np.minimum(self.end, row.end) - np.maximum(self.start, row.start)
        return [int(k) for k in np.flatnonzero(inside > THRESHOLDS.covered * self.seconds)]

    def longer_steps(self, rows: Sequence[SlowFinding]) -> list[int]:
        """Indices of the longer steps that one of the findings covers."""
        if not len(self) or not rows:
            return []
        covered = sorted({k for row in rows for k in self.steps_of(row)})
        limit = THRESHOLDS.longer * float(np.median(self.seconds))
        return [k for k in covered if self.seconds[k] > limit]

    def usual_s(self, slow: Sequence[int]) -> float:
        """The median of the steps that are not slow, of all steps if all are."""
        others = np.delete(self.seconds, slow) if len(slow) < len(self) else self.seconds
        return float(np.median(others))


def of_flows(flows: FlowFinding, gpus: int | None, iterations: Sequence[Mapping[str, Any]] = ()) -> list[Slowdown]:
    """The slow steps of each job of the capture as stretches, in the numbers of the logs' ``iterations`` if these have
    times. O(steps · (findings + iterations)).

    A stretch for which flows name a machine or a switch is whole, with the usual steps in it: a fault that comes and
    goes is one fault.
    """
    found: list[Slowdown] = []
    for job in flows.jobs:
        rows = _stretches(job, flows.fabric, gpus or len(job.members) or None)
        shift = step_offset(job.steps, iterations) if rows else 0
        found += [replace(row, steps=(row.steps[0] + shift, row.steps[1] + shift)) for row in rows]
    return found


def _stretches(job: FlowJob, fabric: Sequence[SlowFinding], gpus: int | None) -> list[Slowdown]:
    """The slow steps of one job as stretches, numbered from 1. ``fabric``: what is slow outside the job."""
    own = [row for row in job.slow if row.kind in ("slow_step", "slow_group") and not row.is_planned]
    rows = [*own, *fabric]
    timeline = _Timeline(job.steps)
    slow = timeline.longer_steps(rows)
    if not slow:
        return []
    usual = timeline.usual_s(slow)
    named = [row for row in rows if row.kind != "slow_step"]
    spans = _spans(timeline, named)
    sure = set(timeline.longer_steps([row for row in named if row.shares]))
    found = []
    for part in _parts(slow, spans):
        whole = _whole(part, spans)
        # While a job starts, connections and caches warm up, which looks like slow transfers: no name counts there.
        is_named = bool(sure.intersection(part)) and whole[0] > 0
        found.append(_stretch(whole, part, timeline, usual, gpus=gpus, is_named=is_named))
    return found


def _spans(timeline: _Timeline, named: Sequence[SlowFinding]) -> list[tuple[int, int]]:
    """First and last step of each finding that is about a stretch of the job, not about all of it."""
    covered = [timeline.steps_of(row) for row in named]
    most = THRESHOLDS.span * len(timeline)
    return [(steps[0], steps[-1]) for steps in covered if steps and len(steps) <= most]


def _whole(part: Sequence[int], spans: Sequence[tuple[int, int]]) -> range:
    """A part with all steps of the findings that overlap it."""
    overlapping = [span for span in spans if span[0] <= part[-1] and part[0] <= span[1]]
    first = min([part[0], *(span[0] for span in overlapping)])
    last = max([part[-1], *(span[1] for span in overlapping)])
    return range(first, last + 1)


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


def merge_slowdowns(logs: Iterable[Slowdown], flows: Iterable[Slowdown], min_gpu_s: float) -> tuple[Slowdown, ...]:
    """The stretches to report, largest loss first. A stretch that both show is one, with the times of the flows, which
    see each step end; that of the logs remains if the flows show only a part of it: a capture may be shorter than the
    job.
    """
    kept = [s for s in logs if is_reportable(s, min_gpu_s)]
    for stretch in flows:
        same = [other for other in kept if other.source == "logs" and _overlap(stretch, other)]
        lead = max(same, key=lambda s: s.lost_s, default=None)
        if lead is not None and stretch.count >= THRESHOLDS.seen * lead.count:
            kept[kept.index(lead)] = replace(stretch, is_over=lead.is_over and stretch.is_over)
        elif lead is None and is_reportable(stretch, min_gpu_s) and not any(_overlap(stretch, other) for other in kept):
            kept.append(stretch)
    return tuple(sorted(kept, key=lambda s: (-s.lost_s, s.steps)))


def step_offset(steps: Sequence[Interval], iterations: Sequence[Mapping[str, Any]]) -> int:
    """What to add to the numbers of the flows' steps to get the iterations of the logs: each is the step that ended at
    its time. 0 if the times are too coarse to tell, or the difference is one.
    """
    ends = np.array([step.end for step in steps])
    rows = [(int(r["n"]), float(r["t"])) for r in iterations if r.get("t") is not None]
    if min(len(ends), len(rows)) < THRESHOLDS.matched:
        return 0
    n, t = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    if np.all(t == np.floor(t)):
        t = t + 1 / 2  # stamps without a fraction
    inside = (t >= ends[0]) & (t <= ends[-1])
    if inside.sum() < THRESHOLDS.matched:
        return 0
    nearest = np.abs(ends[None, :] - t[inside][:, None]).argmin(axis=1) + 1
    differences = n[inside] - nearest
    middle = float(np.median(differences))
    steady = spread(differences) <= THRESHOLDS.steady and abs(middle) > 1.0  # a line may be printed late
    return round(middle) if steady else 0


def is_reportable(stretch: Slowdown, min_gpu_s: float) -> bool:
    """Whether a stretch is reported: it is long enough to be no noise, and costs enough. A quarter of the cost is
    enough if flows show who caused it.
    """
    lost = stretch.lost_s if stretch.lost_gpu_s is None else stretch.lost_gpu_s
    least = min_gpu_s * (THRESHOLDS.named_cost if stretch.is_named else 1.0)
    return (stretch.count >= THRESHOLDS.steps or stretch.is_standstill) and lost >= least


def _parts(slow: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Slow steps that belong together: with few usual ones between them, or within one finding (``spans``)."""
    parts: list[list[int]] = [[slow[0]]]
    for k in slow[1:]:
        before = parts[-1][-1]
        if k - before <= THRESHOLDS.usual_between + 1 or any(span[0] <= before and k <= span[1] for span in spans):
            parts[-1].append(k)
        else:
            parts.append([k])
    return parts


def _stretch(
    whole: range, part: Sequence[int], timeline: _Timeline, usual: float, *, gpus: int | None, is_named: bool
) -> Slowdown:
    slow = timeline.seconds[list(part)]
    lost = float(np.maximum(timeline.seconds[list(whole)] - usual, 0.0).sum())
    standstill = THRESHOLDS.standstill_named if is_named else THRESHOLDS.standstill
    return Slowdown(
        "flows",
        (whole[0] + 1, whole[-1] + 1),
        len(part),
        float(slow.mean() / usual) if usual > 0 else 1.0,
        lost,
        None if gpus is None else lost * gpus,
        float(timeline.start[whole[0]]),
        float(timeline.end[whole[-1]]),
        is_over=whole[-1] + 1 < len(timeline),
        is_standstill=bool(usual > 0 and slow.max() >= standstill * usual),
        is_named=is_named,
    )


def _overlap(one: Slowdown, other: Slowdown) -> bool:
    """By time if both have times, else by the numbers of the steps."""
    if None not in (one.at, one.until, other.at, other.until):
        slack = THRESHOLDS.slack * (one.until - one.at)  # type: ignore[operator]
        return bool(one.at - slack <= other.until and other.at - slack <= one.until)
    return one.steps[0] <= other.steps[1] and other.steps[0] <= one.steps[1]

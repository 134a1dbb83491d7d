"""Stretches of slow steps, their cost, and whether the cost is high enough to report. Logs and
flows both count steps. A stretch in both is one stretch, with the step numbers of the logs, because
those are the job's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.conclusion.model import Slowdown
from diagnosis.evidence import FlowFinding, FlowJob, Interval, SlowFinding
from diagnosis.facts import trends
from diagnosis.records.timeline_rows import IterationRow
from diagnosis.values.stats import spread

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
        covered: list[int] = np.flatnonzero(inside > THRESHOLDS.covered * self.seconds).tolist()
        return covered

    def longer_steps(self, rows: Sequence[SlowFinding]) -> list[int]:
        """Indices of the longer steps that one of the findings covers."""
        covered = set(itertools.chain.from_iterable(map(self.steps_of, rows)))
        if not covered:
            return []
        limit = THRESHOLDS.longer * float(np.median(self.seconds))
        return [k for k in sorted(covered) if self.seconds[k] > limit]

    def usual_s(self, slow: Sequence[int]) -> float:
        """The median of the steps that are not slow, of all steps if all are."""
        others = np.delete(self.seconds, slow)
        return float(np.median(others if others.size else self.seconds))


def of_flows(flows: FlowFinding, gpus: int | None, iterations: Sequence[IterationRow] = ()) -> list[Slowdown]:
    """The slow steps of each job of the capture as stretches, in the numbers of the logs'
    ``iterations`` if these have times. O(steps · (findings + iterations)).

    A stretch for which flows name a machine or a switch is whole, with the usual steps in it: a
    fault that comes and goes is one fault.
    """
    found: list[Slowdown] = []
    for job in flows.jobs:
        stretches = _stretches(job, flows.fabric, gpus or len(job.members) or None, iterations)
        shift = step_offset(job.steps, iterations) if stretches else 0
        for one in stretches:
            first, last = one.steps
            found.append(replace(one, steps=(first + shift, last + shift)))
    return found


def _warm_up_steps(timeline: _Timeline, job: FlowJob, iterations: Sequence[IterationRow]) -> int:
    """How many of the first steps warmed up; 0 if the job began before the capture."""
    count = trends.warm_up_steps(timeline.seconds)
    return 0 if count and step_offset(job.steps, iterations) else count


def _stretches(
    job: FlowJob, fabric: Sequence[SlowFinding], gpus: int | None, iterations: Sequence[IterationRow]
) -> list[Slowdown]:
    """The slow steps of one job as stretches, numbered from 1. ``fabric``: what is slow outside the
    job. A start that warms up is none, unless flows name a place.
    """
    unplanned = [row for row in job.slow if not row.is_planned]
    rows = [row for row in unplanned if row.kind in ("slow_step", "slow_group")]
    rows += fabric
    timeline = _Timeline(job.steps)
    slow = timeline.longer_steps(rows)
    if not slow:
        return []
    usual = timeline.usual_s(slow)
    named = [row for row in rows if row.kind != "slow_step"]
    spans = _spans(timeline, named)
    sure = set(timeline.longer_steps([row for row in named if row.shares]))
    warm = _warm_up_steps(timeline, job, iterations)
    found = []
    for part in _parts(slow, spans):
        whole = _whole(part, spans)
        if whole[-1] <= warm and sure.isdisjoint(part):
            continue
        # While a job starts, connections and caches warm up, which looks like slow transfers: no name counts there.
        is_named = whole[0] > 0 and not sure.isdisjoint(part)
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
    phase: tuple[int, int, float] | None, iterations: Sequence[IterationRow], gpus: int | None
) -> list[Slowdown]:
    """The stretch that the logs' iterations show. ``phase``: first, last iteration and factor."""
    if phase is None:
        return []
    first, last, factor = phase
    inside = [row for row in iterations if first <= row.number <= last]
    others = [row for row in iterations if not first <= row.number <= last]
    stated = [row.seconds for row in others if row.seconds]
    times = [row.at for row in inside if row.at is not None]
    usual = float(np.median(stated)) if stated else 0.0
    count = last - first + 1
    lost = max(0.0, usual * (factor - 1.0) * count)
    stretch = Slowdown(
        "logs",
        (first, last),
        count,
        factor,
        lost,
        _times_gpus(lost, gpus),
        min(times, default=None),
        max(times, default=None),
        is_over=any(row.number > last for row in others),
        is_standstill=count == 1,
    )
    return [stretch]


def _times_gpus(seconds: float, gpus: int | None) -> float | None:
    return None if gpus is None else seconds * gpus


def merge_slowdowns(logs: Iterable[Slowdown], flows: Iterable[Slowdown], min_gpu_s: float) -> tuple[Slowdown, ...]:
    """The stretches to report, largest loss first. A stretch that both show is one, with the times
    of the flows, which see each step end; that of the logs remains if the flows show only a part of
    it: a capture may be shorter than the job.
    """
    kept = [stretch for stretch in logs if is_reportable(stretch, min_gpu_s)]
    for stretch in flows:
        overlapping = [other for other in kept if _overlap(stretch, other)]
        of_logs = [other for other in overlapping if other.source == "logs"]
        if of_logs:
            lead = max(of_logs, key=lambda other: other.lost_s)
            _replace(kept, lead, stretch)
        elif not overlapping and is_reportable(stretch, min_gpu_s):
            kept.append(stretch)
    return tuple(sorted(kept, key=lambda stretch: (-stretch.lost_s, stretch.steps)))


def _replace(kept: list[Slowdown], lead: Slowdown, stretch: Slowdown) -> None:
    """Put a stretch of the flows in the place of that of the logs, if it shows most of its steps."""
    if stretch.count >= THRESHOLDS.seen * lead.count:
        is_over = lead.is_over and stretch.is_over
        kept[kept.index(lead)] = replace(stretch, is_over=is_over)


def step_offset(steps: Sequence[Interval], iterations: Sequence[IterationRow]) -> int:
    """What to add to the numbers of the flows' steps to get the iterations of the logs: each is the
    step that ended at its time. 0 if the times are too coarse to tell, or the difference is one.
    """
    ends = np.array([step.end for step in steps])
    dated = [(row.number, row.at) for row in iterations if row.at is not None]
    if min(len(ends), len(dated)) < THRESHOLDS.matched:
        return 0
    numbers = np.array([number for number, _ in dated], dtype=float)
    times = np.array([at for _, at in dated], dtype=float)
    if np.all(times == np.floor(times)):
        times += 1 / 2  # stamps without a fraction
    inside = (times >= ends[0]) & (times <= ends[-1])
    if inside.sum() < THRESHOLDS.matched:
        return 0
    nearest = np.abs(ends[None, :] - times[inside][:, None]).argmin(axis=1) + 1
    differences = numbers[inside] - nearest
    middle = float(np.median(differences))
    is_near = abs(middle) <= 1.0  # a line may be printed late
    if is_near or spread(differences) > THRESHOLDS.steady:
        return 0
    return round(middle)


def is_reportable(stretch: Slowdown, min_gpu_s: float) -> bool:
    """Whether a stretch is reported: it is long enough to be no noise, and costs enough. A quarter
    of the cost is enough if flows show who caused it.
    """
    is_long = stretch.is_standstill or stretch.count >= THRESHOLDS.steps
    lost = stretch.lost_s if stretch.lost_gpu_s is None else stretch.lost_gpu_s
    share = THRESHOLDS.named_cost if stretch.is_named else 1.0
    return bool(is_long and lost >= min_gpu_s * share)


def _parts(slow: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Slow steps with few usual ones between them, or within one finding (``spans``)."""
    parts: list[list[int]] = [[slow[0]]]
    for before, k in pairwise(slow):
        is_near = k - before <= THRESHOLDS.usual_between + 1
        is_of_one = any(first <= before and k <= last for first, last in spans)
        if is_near or is_of_one:
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
    factor = float(slow.mean() / usual) if usual > 0 else 1.0
    return Slowdown(
        "flows",
        (whole[0] + 1, whole[-1] + 1),
        len(part),
        factor,
        lost,
        _times_gpus(lost, gpus),
        float(timeline.start[whole[0]]),
        float(timeline.end[whole[-1]]),
        is_over=whole[-1] + 1 < len(timeline),
        is_standstill=bool(usual > 0 and slow.max() >= standstill * usual),
        is_named=is_named,
    )


def _overlap(one: Slowdown, other: Slowdown) -> bool:
    """By time if both have times, else by the numbers of the steps."""
    times = (one.at, one.until, other.at, other.until)
    if None in times:
        return one.steps[0] <= other.steps[1] and other.steps[0] <= one.steps[1]
    begin, end, other_begin, other_end = (float(at or 0.0) for at in times)
    slack = float(THRESHOLDS.slack) * (end - begin)
    return begin - slack <= other_end and other_begin - slack <= end

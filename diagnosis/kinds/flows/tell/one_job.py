"""Analyses each job of a capture by its own traffic, and several jobs in processes of their own.

What all jobs' traffic explains together (switches, uplinks) is judged afterwards, in :mod:`engine`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import EP, classify_pairs, clocks_disagree
from diagnosis.kinds.flows.jobs.successive_jobs import split_successive
from diagnosis.kinds.flows.layout.clock_offsets import correct_clocks
from diagnosis.kinds.flows.layout.grid import type_as_stated
from diagnosis.kinds.flows.layout.parallelism import find_layout
from diagnosis.kinds.flows.slow.exactness import exact_to_s
from diagnosis.kinds.flows.slow.late.late_in_exchange import late_in_exchanges
from diagnosis.kinds.flows.slow.late.late_members import late_members
from diagnosis.kinds.flows.slow.late.moving import find_uneven_work, that_stay
from diagnosis.kinds.flows.slow.late.slow_stages import (
    narrow_to_stage,
    uneven_stages,
    without_explained,
)
from diagnosis.kinds.flows.slow.late.slow_workers import slow_workers
from diagnosis.kinds.flows.slow.slowness import merge_findings, slow_steps
from diagnosis.kinds.flows.slow.stragglers import find_stragglers
from diagnosis.kinds.flows.steps.closing import close_steps
from diagnosis.kinds.flows.steps.planned import without_planned
from diagnosis.kinds.flows.steps.rank_lanes import begin_rows
from diagnosis.kinds.flows.steps.stage_times import StageTimes, stage_times
from diagnosis.kinds.flows.steps.step_work import with_work
from diagnosis.kinds.flows.steps.steps import find_steps
from diagnosis.kinds.flows.steps.transfers import divide_by_unit, measure_transfers
from diagnosis.kinds.flows.tell.analysed import JobAnalysis

LIMITS: Final = thresholds.limits("one_job")


def analyse_each(
    seen: Sequence[JobFlows],
    stated: Sequence[Mapping[str, int]],
    capture: Capture,
    *,
    steps: bool,
    has_tables: bool,
    without: frozenset[str],
) -> Iterator[list[JobAnalysis]]:
    """The analysed jobs of each recognised one (several where they ran one after another).

    With a runner, jobs of many records are analysed whole by its processes, each in the memory of
    one job. If one has most of the records, all stay here, and parts of them are shared instead.
    """
    counts = [len(job.flows) for job in seen]
    records, largest = sum(counts), max(counts, default=0)
    are_alike = len(seen) > 1 and largest <= LIMITS.apart_records * records
    is_apart = are_alike and records > pieces.PIECE_ROWS
    has_finder = "stragglers" not in without
    parts = [
        (job, capture, dict(known), steps, has_tables and not is_apart, has_finder)
        for job, known in zip(seen, stated, strict=True)
    ]
    if not is_apart:
        yield from (_analyse_alone(*part) for part in parts)
        return
    for job, found in zip(seen, run_parts(capture.flows.disk, _analyse_apart, parts), strict=True):
        for one in found:
            one.job = one.job if len(one.job.flows) else job
            if has_tables and one.steps is not None:
                one.rows = begin_rows(one.job, one.pairs, one.steps, capture)
        yield found


@partition
def _analyse_apart(seen: JobFlows, *given: Any) -> list[JobAnalysis]:
    """As :func:`_analyse_alone`; records that whoever asks has already are not in the answer."""
    found = _analyse_alone(seen, *given)
    for one in found:
        if one.job.flows is seen.flows:
            one.job = JobFlows(one.job.members, seen.flows.take(slice(0, 0)))
    return found


def _analyse_alone(
    seen: JobFlows,
    capture: Capture,
    known: Mapping[str, int],
    steps: bool,
    has_tables: bool,
    has_finder: bool,
) -> list[JobAnalysis]:
    """The jobs that ran one after another on the same addresses, each with its findings."""
    parts = split_successive(seen, capture) if steps else [seen]
    analyse = partial(_analyse_job, capture=capture, known=known, steps=steps, has_tables=has_tables)
    found = list(map(analyse, parts))
    if len(parts) > 1 and any(a.steps is None for a in found):
        found = [analyse(seen)]  # not every part trains
    for job in found:
        if job.steps is not None:
            _find_slow_members(job, capture)
            job.stragglers = find_stragglers(job.job, job.steps, capture) if has_finder else None
    return found


def _analyse_job(
    seen: JobFlows, capture: Capture, known: Mapping[str, int], *, steps: bool, has_tables: bool
) -> JobAnalysis:
    """Phases 2 and 3 of one job, on one clock."""
    pairs = classify_pairs(seen, capture)
    may_differ = steps and not pairs.exact_clock
    job, offsets = correct_clocks(seen, pairs, capture) if may_differ else (seen, [])
    if offsets:
        pairs = classify_pairs(job, capture)
    shown, pairs = pairs, type_as_stated(pairs, job.flows, len(capture.names), known)
    by_unit = divide_by_unit(job, pairs, capture) if steps else None
    found = find_steps(job, pairs, capture) if steps else None
    found = found and close_steps(found, job, pairs, capture)
    found = found and with_work(found, job, pairs, capture)
    pauses = ""
    if found is not None:
        found, pauses = without_planned(found, job)
    rows = begin_rows(job, pairs, found, capture) if found is not None and has_tables else None
    layout = find_layout(job, pairs, capture, known)
    if pairs.type != shown.type:
        layout.how.insert(0, _statement_text(known))
    rough = any(not o.exact for o in offsets)
    exact_s = exact_to_s(job, pairs, capture)
    notes = [pauses] if pauses else []
    own = JobAnalysis(job, pairs, layout, found, None, [], exact_s, rough=rough)
    return replace(own, divided=by_unit, rows=rows, offsets=offsets, notes=notes)


def _statement_text(known: Mapping[str, int]) -> str:
    """Why the types of pairs are not those that the records alone show."""
    sizes = ", ".join(f"{kind} {known[kind]}" for kind in ("tp", "pp", "dp") if kind in known)
    return f"The job states {sizes}; the pairs form these groups, so their types follow it."


def _find_slow_members(job: JobAnalysis, capture: Capture) -> None:
    """Fills the slow groups, members and stages of one job, from its own traffic alone."""
    assert job.steps is not None
    assert job.divided is not None
    measured = measure_transfers(job.divided, job.steps, capture)
    job.divided = None
    has_one_clock = not clocks_disagree(job.pairs)
    _, usual, _ = slow_steps(job.steps)
    job.stages = _stage_times(job, capture) if has_one_clock else None
    job.transfers = measured()
    if has_one_clock:
        job.slow = late_members(job.transfers, job.steps, job.layout, capture, usual)
        job.moving = find_uneven_work(job.transfers, job.stages, job.steps, job.layout, usual)
        if job.pairs.of(EP).any():
            job.slow += late_in_exchanges(job.job, job.pairs, job.steps, capture, usual)
    # where rounds are records, layers may count as steps: more work is late in several of them
    if job.moving is not None or job.pairs.exact_clock:
        job.slow = that_stay(job.slow, job.steps)
    if job.stages is not None:
        workers = slow_workers(job.stages, job.steps, job.layout, capture, usual)
        job.slow = without_explained(job.slow, workers, job.layout, job.stages, job.steps)
        job.slow = narrow_to_stage(job.slow, job.stages, job.steps, job.layout, capture)
        job.slow.extend([*workers, *uneven_stages(job.stages, job.steps, capture)])
    job.slow = merge_findings(job.slow)
    if job.moving is not None:
        job.slow.append(job.moving.slow)


def _stage_times(job: JobAnalysis, capture: Capture) -> StageTimes | None:
    """The times of a pipeline's stages, for the usual work of a step; None if they look alike."""
    assert job.steps is not None
    is_pipeline = job.layout.pp > 1 and job.layout.ends == 1
    if not is_pipeline or job.rough:
        return None
    times = stage_times(job.job, job.pairs, job.layout, job.steps, capture)
    if times is None or job.steps.work is None:
        return times
    return replace(times, seconds=times.seconds / job.steps.work)

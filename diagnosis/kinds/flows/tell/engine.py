"""Makes the report's ``flows`` object from flow records, in the order of LLMPrism's four phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.inventory import Machine
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Capture, load_capture
from diagnosis.kinds.flows.jobs.chapters import split_chapters
from diagnosis.kinds.flows.jobs.clock_offsets import correct_clocks, merge_offsets
from diagnosis.kinds.flows.jobs.grid import type_as_stated
from diagnosis.kinds.flows.jobs.jobs import JobFlows, recognise
from diagnosis.kinds.flows.jobs.pairs import classify_pairs, clocks_disagree
from diagnosis.kinds.flows.jobs.parallelism import find_layout
from diagnosis.kinds.flows.jobs.stated import StatedLayout, statement_of
from diagnosis.kinds.flows.slow.exactness import drop_unclear, exact_to_s
from diagnosis.kinds.flows.slow.lasting_slow import find_lasting_slowness
from diagnosis.kinds.flows.slow.moving import find_uneven_work, that_stay
from diagnosis.kinds.flows.slow.slow_reasons import explain
from diagnosis.kinds.flows.slow.slow_stages import (
    lasting_slow_stages,
    narrow_to_stage,
    uneven_stages,
    without_explained,
)
from diagnosis.kinds.flows.slow.slow_workers import slow_workers
from diagnosis.kinds.flows.slow.slowness import (
    Episode,
    SlowReport,
    late_members,
    merge_findings,
    slow_steps,
    slow_transfers,
)
from diagnosis.kinds.flows.slow.stragglers import StragglerResult, drop_unexplained, find_stragglers, join_findings
from diagnosis.kinds.flows.steps.closing import close_steps
from diagnosis.kinds.flows.steps.pipeline_stages import StageTimes, stage_times
from diagnosis.kinds.flows.steps.planned import PLANNED, without_planned
from diagnosis.kinds.flows.steps.rank_lanes import begin_rows
from diagnosis.kinds.flows.steps.step_work import with_work
from diagnosis.kinds.flows.steps.steps import Steps, find_steps
from diagnosis.kinds.flows.steps.transfers import divide_by_unit, measure_transfers
from diagnosis.kinds.flows.steps.windows import align_windows
from diagnosis.kinds.flows.tell.analysed import JobAnalysis
from diagnosis.kinds.flows.tell.contradictions import compare_stated
from diagnosis.kinds.flows.tell.flow_report import capture_panel, describe, why_not_usable
from diagnosis.kinds.flows.tell.overlapping import drop_double_views
from diagnosis.kinds.flows.tell.ports import port_captures
from diagnosis.kinds.flows.tell.report_rows import FlowReport
from diagnosis.model import OnStage, Parsed, Runner, ignore_progress

THRESHOLDS: Final = thresholds.of("tell")
COUNTERS_ONLY_TEXT = (
    "Port counters show bandwidth over time, not which machines exchange data: "
    "add flow records to see jobs, steps and slow groups."
)


def analyse(
    capture: Capture,
    on_stage: OnStage = ignore_progress,
    *,
    steps: bool = True,
    has_tables: bool = False,
    stated: Sequence[StatedLayout] = (),
    without: frozenset[str] = frozenset(),
) -> tuple[list[JobAnalysis], list[SlowReport], float]:
    """All four phases over a capture: jobs (largest first), findings of the fabric, background share.

    ``steps`` False stops after jobs, pairs and layout, for captures that are too coarse for times. ``has_tables``:
    each job's rows for a table are begun. ``stated``: what is known of the jobs' layouts. ``without``: mechanisms to
    switch off, to measure the contribution of each.
    """
    recognition = recognise(capture)
    jobs: list[JobAnalysis] = []
    total = len(recognition.jobs)
    for number, seen in enumerate(recognition.jobs):
        on_stage("flows", number, total)
        parts = split_chapters(seen, capture) if steps else [seen]
        names = [capture.machine(int(m)) for m in seen.members]
        known = statement_of(stated, names, is_largest=number == 0)
        found = [_analyse_job(part, capture, known, steps=steps, has_tables=has_tables) for part in parts]
        if len(parts) > 1 and any(a.steps is None for a in found):
            whole = _analyse_job(seen, capture, known, steps=steps, has_tables=has_tables)
            found = [whole]  # not every part is a training job
        jobs += [
            a for a in found if a.steps is not None or len(a.job.flows) >= THRESHOLDS.part_records * len(capture.flows)
        ]
    on_stage("flows", total, total)
    fabric = _find_slowness(jobs, capture, without)
    return jobs, fabric, recognition.background


def _analyse_job(
    seen: JobFlows, capture: Capture, stated: StatedLayout | None, *, steps: bool, has_tables: bool
) -> JobAnalysis:
    """Phases 2 and 3 of one job, on one clock."""
    pairs = classify_pairs(seen, capture)
    job, offsets = correct_clocks(seen, pairs, capture) if steps else (seen, [])
    if offsets:
        capture.clocks = merge_offsets(capture.clocks, offsets)
        pairs = classify_pairs(job, capture)
    known = {} if stated is None else stated.as_json()
    shown, pairs = pairs, type_as_stated(pairs, job.flows, len(capture.names), known)
    by_unit = divide_by_unit(job, pairs, capture) if steps else None
    found = find_steps(job, pairs, capture) if steps else None
    found = found and close_steps(found, job, pairs, capture)
    found = found and with_work(found, job, pairs, capture)
    if found is not None:
        found, pauses = without_planned(found, job)
        capture.notes += [pauses] if pauses else []
    rows = begin_rows(job, pairs, found, capture) if found is not None and has_tables else None
    layout = find_layout(job, pairs, capture, known)
    if pairs.type != shown.type:
        sizes = ", ".join(f"{kind} {known[kind]}" for kind in ("tp", "pp", "dp") if kind in known)
        layout.how.insert(0, f"The job states {sizes}; the pairs form these groups, so their types follow it.")
    rough = any(not o.exact for o in offsets)
    exact_s = exact_to_s(job, pairs, capture)
    return JobAnalysis(job, pairs, layout, found, None, [], exact_s, rough=rough, divided=by_unit, rows=rows)


def _find_slowness(jobs: list[JobAnalysis], capture: Capture, without: frozenset[str]) -> list[SlowReport]:
    """Fills each job's findings; returns those of switches."""
    stepped = [job for job in jobs if job.steps is not None]
    for job in stepped:
        _find_slow_members(job, capture)
    fabric = _share_explanations(stepped, capture)
    for job in stepped:
        fabric = _join_stragglers(job, fabric, capture, without)
        fabric = _drop_unclear(job, fabric, capture)
        job.slow.extend(_unexplained_steps(job, fabric))
    return fabric


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
    if job.moving is not None:
        job.slow = that_stay(job.slow, job.steps)
    if job.stages is not None:
        workers = slow_workers(job.stages, job.steps, job.layout, capture, usual)
        job.slow = without_explained(job.slow, workers, job.layout)
        job.slow = narrow_to_stage(job.slow, job.stages, job.steps, job.layout, capture)
        job.slow.extend([*workers, *uneven_stages(job.stages, job.steps, capture)])
    job.slow = merge_findings(job.slow)
    if job.moving is not None:
        job.slow.append(job.moving.slow)


def _stage_times(job: JobAnalysis, capture: Capture) -> StageTimes | None:
    """The times of a pipeline's stages, for the usual work of a step; None if they cannot be told apart."""
    assert job.steps is not None
    is_pipeline = job.layout.pp > 1 and job.layout.ends == 1
    if not is_pipeline or job.rough:
        return None
    times = stage_times(job.job, job.pairs, job.layout, job.steps, capture)
    if times is None or job.steps.work is None:
        return times
    return replace(times, seconds=times.seconds / job.steps.work)


def _share_explanations(stepped: list[JobAnalysis], capture: Capture) -> list[SlowReport]:
    """Gives each job its slow groups, which all jobs' traffic explains; returns those of switches."""
    tables = [job.transfers for job in stepped if job.transfers is not None]
    episodes: list[Episode] = []
    for number, job in enumerate(stepped):
        assert job.steps is not None
        assert job.transfers is not None
        episodes.extend(slow_transfers(job.transfers, job.steps, number))
    fabric: list[SlowReport] = []
    for owner, slow in explain(episodes, tables, [job.layout for job in stepped], capture):
        found = fabric if owner is None else stepped[owner].slow
        found.append(slow)
    for job in stepped:
        assert job.steps is not None
        assert job.transfers is not None
        _, usual, _ = slow_steps(job.steps)
        for is_switch, slow in find_lasting_slowness(job.transfers, job.steps, job.layout, usual, capture):
            (fabric if is_switch else job.slow).append(slow)
    return fabric


def _join_stragglers(
    job: JobAnalysis, fabric: list[SlowReport], capture: Capture, without: frozenset[str]
) -> list[SlowReport]:
    """Joins a job's findings with its stragglers and lasting slow stages; returns those of switches."""
    assert job.steps is not None
    stragglers = StragglerResult([], shows_turns=False)
    if "stragglers" not in without:
        stragglers = find_stragglers(job.job, job.steps, capture)
        joined = join_findings([*job.slow, *fabric], stragglers)
        job.slow = [slow for slow in joined if slow.kind != "slow_switch"]
        fabric = [slow for slow in joined if slow.kind == "slow_switch"]
    if job.moving is None:
        known = [*job.slow, *fabric]
        lasting = lasting_slow_stages(job.steps, known, job.layout, job.stages, capture)
        job.slow.extend(drop_unexplained(lasting, stragglers))
    return fabric


def _drop_unclear(job: JobAnalysis, fabric: list[SlowReport], capture: Capture) -> list[SlowReport]:
    """Leaves out what the times of the job's records are too coarse for, with a note; returns what is left of the
    switches' findings.
    """
    assert job.steps is not None
    _, usual, _ = slow_steps(job.steps)
    found = [*job.slow, *fabric]
    kept = drop_unclear(found, usual, job.exact_s)
    if len(kept) < len(found):
        capture.notes.append(
            f"Times are exact to {job.exact_s:g} s. Somebody seemed slow by less, and the flows cannot say who."
        )
        job.slow = [slow for slow in kept if slow.kind != "slow_switch"]
        job.moving = job.moving if job.moving is not None and job.moving.slow in kept else None
    return [slow for slow in kept if slow.kind == "slow_switch"]


def _unexplained_steps(a: JobAnalysis, fabric: list[SlowReport]) -> list[SlowReport]:
    """Slow steps that no slow group or switch explains."""
    assert a.steps is not None
    mask, usual, limit = slow_steps(a.steps)
    if a.moving is not None:
        mask = mask & ~a.moving.explains(a.steps, usual)
    found = [_planned_pause(a.steps, k) for k in a.steps.planned]
    for k in np.flatnonzero(mask):
        t0, t1 = float(a.steps.start[k]), float(a.steps.end[k])
        whole = THRESHOLDS.whole * (float(a.steps.end[-1]) - float(a.steps.start[0]))
        known = [s for s in [*a.slow, *fabric] if s.t1 - s.t0 < whole]
        covered = THRESHOLDS.overlap * (t1 - t0)
        if any(s.t0 < t1 - covered and s.t1 > t0 + covered for s in known):
            continue
        work = 1.0 if a.steps.work is None else float(a.steps.work[k])
        begun = float(a.job.flows.start[np.searchsorted(a.job.flows.start, t0)]) - t0
        for_work = "" if a.steps.work is None else " for sequences of its length"
        reason = (
            f"Step {k + 1} took {t1 - t0:.3f} s; the usual{for_work} is {usual * work:.3f} s, "
            f"the limit {limit * work:.3f} s."
        )
        factor = (t1 - t0) / (usual * work)
        if begun > max(1.0, THRESHOLDS.standstill * usual):
            reason = (
                f"No traffic for {begun:.1f} s before step {k + 1}: the job stood still (restarted, evaluating on its "
                "own, or writing a checkpoint)."
            )
        found.append(
            SlowReport("slow_step", t0, t1, reason, factor=factor, confidence=THRESHOLDS.step_confidence, step=int(k))
        )
    return found


def _planned_pause(steps: Steps, k: int) -> SlowReport:
    """A planned pause before a step: it is told, and is no slowness of the job."""
    t0, t1 = float(steps.end[k - 1] if k else steps.start[k]), float(steps.end[k])
    begun = float(steps.start[k]) - t0
    reason = f"Nobody sent for {begun:.1f} s before step {k + 1}, as before others at even distances: a planned pause."
    factor = (t1 - t0) / max(1e-9, float(steps.seconds[k]))
    return SlowReport(
        "slow_step", t0, t1, reason, factor=factor, confidence=THRESHOLDS.step_confidence, step=k, measure=PLANNED
    )


def diagnose_flows(
    parsed: Sequence[Parsed],
    *,
    inventory: Sequence[Machine] = (),
    stated: Sequence[StatedLayout] = (),
    on_stage: OnStage = ignore_progress,
    tables: Path | None = None,
    scratch: Path | None = None,
    runner: Runner | None = None,
    without: frozenset[str] = frozenset(),
) -> FlowReport:
    """The report's ``flows`` object plus ``suspects``.

    Without ``inventory`` machines stay unknown. ``stated``: what the jobs' own words say of their layouts.
    ``without``: "stragglers" switches these off. With ``tables`` a table of every rank's phases in every
    step is written there for each job (see ``timeline``); the report names it. ``scratch``: where more than a piece of
    records lie meanwhile; default: ``tables``, and without these memory. ``runner``: does parts of records that lie
    there; the report depends neither on it nor on where they lie.
    """
    usable = [p for p in parsed if p.skipped is None]
    why_not = why_not_usable(usable)
    panel = capture_panel(parsed)
    usable, twice = drop_double_views(usable)
    folder = scratch or tables
    capture = load_capture(usable, inventory, None if folder is None else pieces.Disk(folder, runner))
    if capture is not None and why_not is None:
        capture = align_windows(capture)
    ports = port_captures(parsed, tables)
    if capture is None:
        reasons = [p.skipped for p in parsed if p.skipped]
        reasons.append(COUNTERS_ONLY_TEXT if ports else "There are no flow records.")
        return FlowReport(why_not=why_not or reasons[0], captures=panel, ports=ports)
    capture.notes.extend(twice)
    has_tables = tables is not None
    jobs, fabric, background = analyse(
        capture, on_stage, steps=why_not is None, has_tables=has_tables, stated=stated, without=without
    )
    report = describe(capture, jobs, fabric, background=background, panel=panel, why_not=why_not, tables=tables)
    report.ports = ports
    compare_stated(report, stated, {capture.names[m]: capture.machine(m) for m in capture.places})
    return report

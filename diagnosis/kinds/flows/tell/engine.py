"""Makes the report's ``flows`` object from flow records, in the order of LLMPrism's four phases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.evidence.inventory import Machine
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Capture, load_capture
from diagnosis.kinds.flows.jobs.jobs import JobFlows, recognise
from diagnosis.kinds.flows.layout.clock_offsets import merge_offsets
from diagnosis.kinds.flows.layout.stated import StatedLayout, statement_of
from diagnosis.kinds.flows.slow.exactness import drop_unclear
from diagnosis.kinds.flows.slow.lasting_slow import find_lasting_slowness
from diagnosis.kinds.flows.slow.late.slow_stages import lasting_slow_stages
from diagnosis.kinds.flows.slow.slow_reasons import explain
from diagnosis.kinds.flows.slow.slowness import (
    Episode,
    SlowReport,
    slow_steps,
    slow_transfers,
)
from diagnosis.kinds.flows.slow.stragglers import StragglerResult, drop_unexplained, join_findings
from diagnosis.kinds.flows.steps.planned import PLANNED
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.windows import align_windows
from diagnosis.kinds.flows.tell.analysed import JobAnalysis
from diagnosis.kinds.flows.tell.contradictions import compare_stated
from diagnosis.kinds.flows.tell.flow_report import capture_panel, describe, why_not_usable
from diagnosis.kinds.flows.tell.one_job import analyse_each
from diagnosis.kinds.flows.tell.overlapping import drop_double_views
from diagnosis.kinds.flows.tell.ports import port_captures
from diagnosis.kinds.flows.tell.report_rows import FlowReport
from diagnosis.model import OnStage, Parsed, Runner, ignore_progress
from diagnosis.values.plain import duration

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
    known = [_stated_sizes(number, seen, capture, stated) for number, seen in enumerate(recognition.jobs)]
    answers = analyse_each(recognition.jobs, known, capture, steps=steps, has_tables=has_tables, without=without)
    for number in range(total):
        on_stage("flows", number, total)
        for job in next(answers):
            if job.steps is None and len(job.job.flows) < THRESHOLDS.part_records * len(capture.flows):
                continue
            jobs.append(job)
            capture.clocks = merge_offsets(capture.clocks, job.offsets)
            capture.notes += job.notes
    on_stage("flows", total, total)
    fabric = _find_slowness(jobs, capture)
    return jobs, fabric, recognition.background


def _stated_sizes(number: int, seen: JobFlows, capture: Capture, stated: Sequence[StatedLayout]) -> dict[str, int]:
    """What is stated of the sizes of a job; ``number`` 0 is the largest."""
    names = [capture.machine(int(m)) for m in seen.members]
    known = statement_of(stated, names, is_largest=number == 0)
    return {} if known is None else known.as_json()


def _find_slowness(jobs: list[JobAnalysis], capture: Capture) -> list[SlowReport]:
    """Completes each job's findings by what all jobs show; returns those of switches."""
    stepped = [job for job in jobs if job.steps is not None]
    fabric = _share_explanations(stepped, capture)
    for job in stepped:
        fabric = _join_stragglers(job, fabric, capture)
        fabric = _drop_unclear(job, fabric, capture)
        job.slow.extend(_unexplained_steps(job, fabric))
    return fabric


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
        fabric += _add_lasting(job, capture)
    return fabric


def _add_lasting(job: JobAnalysis, capture: Capture) -> list[SlowReport]:
    """Replaces what lasting slowness explains in a job's findings; returns those of switches."""
    assert job.steps is not None
    assert job.transfers is not None
    _, usual, _ = slow_steps(job.steps)
    lasting = find_lasting_slowness(job.transfers, job.steps, job.layout, usual, capture)
    job.slow = [slow for slow in job.slow if not lasting.explains(slow, job.steps, capture)]
    job.slow += [slow for is_switch, slow in lasting.found if not is_switch]
    return [slow for is_switch, slow in lasting.found if is_switch]


def _join_stragglers(job: JobAnalysis, fabric: list[SlowReport], capture: Capture) -> list[SlowReport]:
    """Joins a job's findings with its stragglers and lasting slow stages; returns those of switches."""
    assert job.steps is not None
    stragglers = job.stragglers or StragglerResult([], shows_turns=False)
    if job.stragglers is not None:
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
            f"Times are exact to {duration(job.exact_s)}. Shorter delays were seen; whose, flows cannot show."
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
            f"Step {k + 1} took {duration(t1 - t0)}; the usual{for_work} is {duration(usual * work)}, "
            f"the limit {duration(limit * work)}."
        )
        factor = (t1 - t0) / (usual * work)
        if begun > max(1.0, THRESHOLDS.standstill * usual):
            reason = (
                f"No traffic for {duration(begun)} before step {k + 1}: the job stood still (restarted, "
                "evaluating on its own, or writing a checkpoint)."
            )
        found.append(
            SlowReport("slow_step", t0, t1, reason, factor=factor, confidence=THRESHOLDS.step_confidence, step=int(k))
        )
    return found


def _planned_pause(steps: Steps, k: int) -> SlowReport:
    """A planned pause before a step: it is told, and is no slowness of the job."""
    t0, t1 = float(steps.end[k - 1] if k else steps.start[k]), float(steps.end[k])
    begun = float(steps.start[k]) - t0
    reason = f"Nothing was sent for {duration(begun)} before step {k + 1}. Its pauses are evenly spaced: a planned one."
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

"""`Diagnosis` as JSON: the report, version 2. Every field is explained in docs/report.md."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from msgspec import UNSET

from diagnosis.conclusion.invariants import violations
from diagnosis.evidence import Suspect
from diagnosis.plain import plain
from diagnosis.report_records import (
    ClueRow,
    EventRow,
    IndicatorRow,
    LinePlace,
    LineRow,
    LogsReport,
    NodeScore,
    RunnerUp,
    SuspectRow,
)
from diagnosis.result import Clue, Diagnosis, Indicator, LineRef, LogDiagnosis, LogEvent

VERSION = 2
log = logging.getLogger(__name__)


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The report as plain dicts, lists, strings and finite numbers; the same diagnosis gives the same bytes.

    A report with contradictions is still returned, and each contradiction is logged as an error.
    """
    report: dict[str, Any] = {
        "version": VERSION,
        "engine": diagnosis.engine,
        "headline": diagnosis.headline,
        "inputs": msgspec.to_builtins(diagnosis.inputs),
        "job": msgspec.to_builtins(diagnosis.job, enc_hook=plain),
        "conclusion": diagnosis.conclusion,
        "suspects": msgspec.to_builtins([_suspect(s) for s in diagnosis.suspects], enc_hook=plain),
        "missing": list(diagnosis.missing),
        "observed": list(diagnosis.observed),
        "inferred": list(diagnosis.inferred),
        "clocks": list(diagnosis.clocks),
        "history": msgspec.to_builtins(diagnosis.history),
    }
    if diagnosis.logs is not None:
        report["logs"] = logs_json(diagnosis.logs, diagnosis.advice)
    if diagnosis.flows is not None:
        report["flows"] = diagnosis.flows
    if diagnosis.stacks is not None:
        report["stacks"] = diagnosis.stacks
    if diagnosis.facts is not None:
        report["facts"] = msgspec.to_builtins(diagnosis.facts)
    if diagnosis.advice is not None:
        report["advice"] = diagnosis.advice
    out: dict[str, Any] = plain(report)
    for text in violations(out) if diagnosis.conclusion else ():
        log.error("The report contradicts itself: %s.", text)
    return out


def logs_json(logs: LogDiagnosis, advice: dict[str, Any] | None = None) -> dict[str, Any]:
    """The ``logs`` object of the report as JSON."""
    stored: dict[str, Any] = msgspec.to_builtins(_logs_report(logs, advice), enc_hook=plain)
    return stored


def _logs_report(logs: LogDiagnosis, advice: dict[str, Any] | None) -> LogsReport:
    verdict = logs.verdict
    second = verdict.runner_up
    return LogsReport(
        is_failure=logs.is_failure,
        outcome=logs.outcome,
        category=verdict.category,
        subcategory=verdict.subcategory,
        id=verdict.id,
        confidence=round(verdict.confidence, 4),
        runner_up=RunnerUp(second[0], round(second[1], 4)) if second else None,
        labels=list(verdict.labels),
        symptom=logs.symptom,
        stage=logs.stage,
        iteration=logs.iteration,
        nodes=[NodeScore(n.node, round(n.score, 4), n.is_suspect, list(n.reasons)) for n in logs.nodes],
        answer=logs.answer,
        events=[_event(event) for event in logs.events],
        lines=[LinePlace(ref.file, ref.line) for ref in logs.lines],
        indicators=[_indicator(indicator) for indicator in logs.indicators],
        clues=[_clue(clue) for clue in logs.clues],
        fingerprint=logs.fingerprint,
        attempt=logs.attempt,
        advice=advice,
        timeline=logs.timeline,
    )


def _indicator(i: Indicator) -> IndicatorRow:
    return IndicatorRow(i.text, i.file, i.line, i.parameters, list(map(list, i.spans)))


def _clue(c: Clue) -> ClueRow:
    return ClueRow(c.detector, c.about, c.subject, round(c.weight, 4), c.reason, c.why)


def _event(e: LogEvent) -> EventRow:
    return EventRow(
        id=e.id,
        template=e.template,
        role=e.role,
        signature=e.signature or None,
        category=e.category or None,
        level=e.level,
        count=e.count,
        nodes=e.nodes,
        of_nodes=e.of_nodes,
        node_names=list(e.node_names),
        jobs_with_it=e.jobs_with_it,
        healthy_jobs=e.healthy_jobs,
        first_at=e.first_at,
        last_at=e.last_at,
        is_stamped=e.is_stamped,
        example=e.example,
        recovered=e.recovered,
        score=round(e.score, 4),
        lines=[_line(ref) for ref in e.lines],
    )


def _line(ref: LineRef) -> LineRow:
    return LineRow(ref.file, ref.line, ref.offset, ref.length, ref.node, ref.rank, ref.at)


def _suspect(s: Suspect) -> SuspectRow:
    ranks = list(s.ranks) or UNSET
    return SuspectRow(s.entity, s.kind, round(s.score, 4), s.is_suspect, list(s.sources), list(s.reasons), ranks)

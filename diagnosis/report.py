"""The whole report, version 2, as a record and as JSON; docs/report.md explains every field."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from diagnosis.conclusion.conclusion_records import ConclusionReport
from diagnosis.conclusion.invariants import Answered, violations
from diagnosis.evidence import FactSummary, Suspect
from diagnosis.records.advice_records import Advice
from diagnosis.records.report_records import HistoryRow, InputRow, JobRow, LinePlace, LogsReport, RunnerUp, SuspectRow
from diagnosis.records.result import LogDiagnosis
from diagnosis.records.timeline_rows import ClockRow
from diagnosis.values.plain import plain

VERSION: Final = 2
log = logging.getLogger(__name__)


class Diagnosis(msgspec.Struct, frozen=True):
    """One job's diagnosis. ``flows`` and ``stacks`` are the report records of these kinds."""

    engine: str
    inputs: tuple[InputRow, ...]
    job: JobRow
    headline: str
    logs: LogDiagnosis | None = None
    flows: msgspec.Struct | None = None
    stacks: msgspec.Struct | None = None
    suspects: tuple[Suspect, ...] = ()
    conclusion: ConclusionReport | None = None
    advice: Advice | None = None
    missing: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    clocks: tuple[ClockRow, ...] = ()
    history: HistoryRow = msgspec.field(default_factory=HistoryRow)
    facts: FactSummary | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report; what there is no evidence of is left out."""

    version: int = VERSION
    engine: str
    headline: str
    inputs: tuple[InputRow, ...]
    job: JobRow
    conclusion: ConclusionReport | None
    suspects: list[SuspectRow]
    missing: tuple[str, ...]
    observed: tuple[str, ...]
    inferred: tuple[str, ...]
    clocks: tuple[ClockRow, ...]
    history: HistoryRow
    logs: LogsReport | UnsetType = UNSET
    flows: msgspec.Struct | UnsetType = UNSET
    stacks: msgspec.Struct | UnsetType = UNSET
    facts: FactSummary | UnsetType = UNSET
    advice: Advice | UnsetType = UNSET


def report_of(diagnosis: Diagnosis) -> Report:
    """The report of a diagnosis."""
    return Report(
        engine=diagnosis.engine,
        headline=diagnosis.headline,
        inputs=diagnosis.inputs,
        job=diagnosis.job,
        conclusion=diagnosis.conclusion,
        suspects=[_suspect(suspect) for suspect in diagnosis.suspects],
        missing=diagnosis.missing,
        observed=diagnosis.observed,
        inferred=diagnosis.inferred,
        clocks=diagnosis.clocks,
        history=diagnosis.history,
        logs=logs_report(diagnosis.logs, diagnosis.advice) if diagnosis.logs else UNSET,
        flows=_or_left_out(diagnosis.flows),
        stacks=_or_left_out(diagnosis.stacks),
        facts=_or_left_out(diagnosis.facts),
        advice=_or_left_out(diagnosis.advice),
    )


def _or_left_out[Record](part: Record | None) -> Record | UnsetType:
    return UNSET if part is None else part


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The report as plain dicts, lists, strings and finite numbers; the same diagnosis gives the same bytes.

    A report with contradictions is still returned, and each contradiction is logged as an error.
    """
    report = report_of(diagnosis)
    answered = Answered(diagnosis.headline, diagnosis.conclusion, diagnosis.advice)
    for text in violations(answered) if diagnosis.conclusion else ():
        log.error("The report contradicts itself: %s.", text)
    return dict(plain(msgspec.to_builtins(report, enc_hook=plain)))


def logs_report(logs: LogDiagnosis, advice: Advice | None = None) -> LogsReport:
    """The ``logs`` object of the report."""
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
        nodes=[msgspec.structs.replace(node, score=round(node.score, 4)) for node in logs.nodes],
        answer=logs.answer,
        events=logs.events,
        lines=[LinePlace(ref.file, ref.line) for ref in logs.lines],
        indicators=logs.indicators,
        clues=logs.clues,
        fingerprint=logs.fingerprint,
        attempt=logs.attempt,
        advice=advice,
        timeline=logs.timeline,
        help=logs.help,
    )


def _suspect(s: Suspect) -> SuspectRow:
    ranks = list(s.ranks) or UNSET
    return SuspectRow(s.entity, s.kind, round(s.score, 4), s.is_suspect, list(s.sources), list(s.reasons), ranks)

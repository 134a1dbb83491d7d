"""`Diagnosis` as JSON: the report, version 2. Every field is explained in docs/report.md."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from diagnosis.conclusion.invariants import violations
from diagnosis.evidence import Suspect
from diagnosis.plain import plain
from diagnosis.result import Diagnosis, LineRef, LogDiagnosis, LogEvent

VERSION = 2
log = logging.getLogger(__name__)
_CLUE = ("detector", "about", "subject", "weight", "reason", "why")


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The report as plain dicts, lists, strings and finite numbers; the same diagnosis gives the same bytes.

    A report with contradictions is still returned, and each contradiction is logged as an error.
    """
    report: dict[str, Any] = {
        "version": VERSION,
        "engine": diagnosis.engine,
        "headline": diagnosis.headline,
        "inputs": list(diagnosis.inputs),
        "job": diagnosis.job,
        "conclusion": diagnosis.conclusion,
        "suspects": [_suspect(s) for s in diagnosis.suspects],
        "missing": list(diagnosis.missing),
        "observed": list(diagnosis.observed),
        "inferred": list(diagnosis.inferred),
        "clocks": list(diagnosis.clocks),
        "history": diagnosis.history,
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
    """The ``logs`` object of the report."""
    v = logs.verdict
    return {
        "is_failure": logs.is_failure,
        "outcome": logs.outcome,
        "category": v.category,
        "subcategory": v.subcategory,
        "id": v.id,
        "confidence": round(v.confidence, 4),
        "runner_up": {"id": v.runner_up[0], "confidence": round(v.runner_up[1], 4)} if v.runner_up else None,
        "labels": list(v.labels),
        "symptom": logs.symptom,
        "stage": logs.stage,
        "iteration": logs.iteration,
        "nodes": [
            {"node": n.node, "score": round(n.score, 4), "suspect": n.is_suspect, "reasons": list(n.reasons)}
            for n in logs.nodes
        ],
        "answer": logs.answer,
        "events": [_event(e) for e in logs.events],
        "lines": [{"file": ref.file, "line": ref.line} for ref in logs.lines],
        "indicators": [
            {
                "text": i.text,
                "file": i.file,
                "line": i.line,
                "parameters": i.parameters,
                "spans": [list(s) for s in i.spans],
            }
            for i in logs.indicators
        ],
        "clues": [{**{name: getattr(c, name) for name in _CLUE}, "weight": round(c.weight, 4)} for c in logs.clues],
        "fingerprint": logs.fingerprint,
        "attempt": logs.attempt,
        "advice": advice,
        "timeline": logs.timeline,
    }


def _event(e: LogEvent) -> dict[str, Any]:
    return {
        "id": e.id,
        "template": e.template,
        "role": e.role,
        "signature": e.signature or None,
        "category": e.category or None,
        "level": e.level,
        "count": e.count,
        "nodes": e.nodes,
        "of_nodes": e.of_nodes,
        "node_names": list(e.node_names),
        "jobs_with_it": e.jobs_with_it,
        "healthy_jobs": e.healthy_jobs,
        "first_at": e.first_at,
        "last_at": e.last_at,
        "is_stamped": e.is_stamped,
        "example": e.example,
        "recovered": e.recovered,
        "score": round(e.score, 4),
        "lines": [_line(ref) for ref in e.lines],
    }


def _line(ref: LineRef) -> dict[str, Any]:
    return {
        "file": ref.file,
        "line": ref.line,
        "offset": ref.offset,
        "length": ref.length,
        "node": ref.node,
        "rank": ref.rank,
        "time": ref.at,
    }


def _suspect(s: Suspect) -> dict[str, Any]:
    out: dict[str, Any] = {
        "entity": s.entity,
        "kind": s.kind,
        "score": round(s.score, 4),
        "suspect": s.is_suspect,
        "from": list(s.sources),
        "reasons": list(s.reasons),
    }
    if s.ranks:
        out["ranks"] = list(s.ranks)
    return out

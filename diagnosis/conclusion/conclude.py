"""Makes one conclusion from the findings of all evidence. Pure and deterministic; linear in the findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from diagnosis import thresholds
from diagnosis.conclusion import category as categories
from diagnosis.conclusion import disagreements, findings, slowdowns
from diagnosis.conclusion import fault as faults
from diagnosis.conclusion.condition import Situation, condition, outcome
from diagnosis.conclusion.model import Conclusion, Fault, Moment, Slowdown
from diagnosis.conclusion.ordering import causal_order
from diagnosis.conclusion.sentence import sentence
from diagnosis.evidence import Finding, FlowFinding, Result, StackFinding, Suspect
from diagnosis.model import JobHints
from diagnosis.result import LogDiagnosis

THRESHOLDS: Final = thresholds.of("conclude")

#: Links of the chain.
MAX_CHAIN: Final = 40


def conclude(
    logs: LogDiagnosis | None,
    flows: FlowFinding,
    stacks: StackFinding,
    suspects: Sequence[Suspect],
    *,
    hints: JobHints | None = None,
    gpus: int | None = None,
    min_gpu_s: float = slowdowns.THRESHOLDS.lost_gpu_s,
    results: Sequence[Result] = (),
) -> Conclusion:
    """Join the findings of logs, flows, stacks and the uploader.

    Args:
        logs: the findings of the logs; None without log lines.
        flows: the findings of the flows, empty without any.
        stacks: the findings of the stacks, empty without any.
        suspects: the fused ranking.
        hints: the uploader's description of the job.
        gpus: GPUs of the job, for the cost of slow steps.
        min_gpu_s: GPU-seconds beyond the usual from which a slowdown is reported.
        results: outcomes of checks; the ``suspects`` are already weighed by them.

    The caller adds advice and further checks.
    """
    hints = hints or JobHints()
    iterations = list(logs.timeline.get("iterations") or ()) if logs is not None else []
    of_logs = slowdowns.of_logs(logs.slow_phase if logs is not None else None, iterations, gpus)
    slow = slowdowns.merge_slowdowns(of_logs, slowdowns.of_flows(flows, gpus, iterations), min_gpu_s)
    situation = Situation(logs, flows, stacks, slow, hints.outcome, hints.alarms, tuple(results))
    name, why = condition(situation)
    slow_places = _findings_in_stretches(findings.of_flows(flows), name, slow)
    if name == "degraded" and not _covers_a_stretch(slow_places, slow):
        suspects = [s for s in suspects if s.sources != ("flows",)]
    accused: tuple[Fault, ...] = ()
    if name not in categories.CONDITIONS_WITHOUT_PROBLEM:
        accused = faults.find_faults(suspects, name, faults.node_of_ranks(logs, stacks), faults.root_writers(logs))
    found = [
        *findings.of_logs(logs),
        *slow_places,
        *findings.of_slowdowns(slow),
        *(findings.of_last_messages(flows, is_hung=name == "hung") if name in ("hung", "failed") else ()),
        *findings.of_stacks(stacks),
        *findings.of_checks(results),
        *findings.of_uploader(hints),
        *findings.of_alarms(hints),
    ]
    shares = categories.shares(name, logs, found, stacks, results)
    leaf, sure = shares[0]
    top, sub = categories.category_and_subcategory(leaf)
    ended = outcome(name, situation)
    chain = _chain(found, ended)
    return Conclusion(
        condition=name,
        id=leaf,
        category=top,
        subcategory=sub,
        confidence=sure,
        sentence=sentence(situation, name, accused),
        alternatives=tuple(shares),
        seen=faults.places_seen(logs, stacks, accused, slow_places if name == "degraded" else ()),
        fault=accused,
        moment=_moment(name, why, logs, slow, chain),
        chain=chain,
        disagreements=disagreements.find_disagreements(found, logs, suspects, results, flows),
        slowdowns=slow,
        outcome=ended,
    )


def _chain(found: Sequence[Finding], outcome: str) -> tuple[Finding, ...]:
    """The causal chain: dated findings by time, undated ones of the cause before them. It ends with the conclusion's
    outcome.
    """
    kept = [
        msgspec.structs.replace(f, text=outcome) if f.what == "outcome" else f for f in found if f.source != "uploader"
    ]
    return tuple(causal_order(kept, lambda f: (f.at, f.what, f.text))[:MAX_CHAIN])


def _findings_in_stretches(rows: Sequence[Finding], condition: str, slow: Sequence[Slowdown]) -> list[Finding]:
    """Findings of flows about slow machines within the reported stretches only: healthy jobs have slow steps too."""
    if condition == "degraded" and not any(s.at is not None for s in slow):
        return list(rows)
    spans = [(s.at, s.until or s.at) for s in slow if s.at is not None]
    return [f for f in rows if any(t <= (f.until or f.at or 0.0) and (f.at or 0.0) <= u for t, u in spans)]


def _covers_a_stretch(rows: Sequence[Finding], slow: Sequence[Slowdown]) -> bool:
    """Whether the findings about places last for at least half of one of the stretches that flows show: who delayed a
    smaller part of all of them is not who made the job slow. True without such stretches.
    """
    spans = [(s.at, s.until) for s in slow if s.source == "flows" and s.at is not None and s.until is not None]
    if not spans or not rows:
        return True
    for begin, end in spans:
        covered, until = 0.0, begin
        for t, u in sorted((f.at or 0.0, f.until or f.at or 0.0) for f in rows):
            covered += max(0.0, min(u, end) - max(t, until))
            until = max(until, min(u, end))
        if covered >= THRESHOLDS.covered * (end - begin):
            return True
    return False


def _moment(
    name: str, why: str, logs: LogDiagnosis | None, slow: Sequence[Slowdown], chain: Sequence[Finding]
) -> Moment | None:
    """The start of the failure, the source of that time, the stage and the iteration."""
    if name in ("healthy", "running", "unknown"):
        return None
    stage = logs.stage if logs is not None else None
    iteration = logs.iteration if logs is not None else None
    if name == "degraded" and slow:
        first = min(slow, key=lambda s: (s.at is None, s.at or 0.0, s.steps))
        until = first.until if first.is_over else None
        return Moment(first.at, until, stage or "training", first.steps[0], "the first slow step", why)
    at, how = _beginning(chain)
    return Moment(at, None, stage, iteration, how, why)


def _beginning(chain: Sequence[Finding]) -> tuple[float | None, str]:
    """When the failure began, and how that is known."""
    lead = next((f for f in chain if f.what == "root" and f.at is not None), None)
    if lead is not None:
        return lead.at, "the first line of the cause"
    last = next((f for f in chain if f.what == "progress"), None)
    if last is not None:
        return last.at, "the last progress"
    return next((f.at for f in chain if f.at is not None), None), "the first dated finding"


def to_json(c: Conclusion) -> dict[str, Any]:
    """The report's ``conclusion`` object (``docs/conclusion.md``)."""
    return {
        "condition": c.condition,
        "outcome": c.outcome,
        "id": c.id,
        "category": c.category,
        "subcategory": c.subcategory,
        "confidence": round(c.confidence, 4),
        "sentence": c.sentence,
        "alternatives": [{"id": name, "p": p} for name, p in c.alternatives],
        "seen": [{"kind": p.kind, "name": p.name, "rank": p.rank, "why": why} for p, why in c.seen],
        "fault": [_fault(f) for f in c.fault],
        "moment": None if c.moment is None else msgspec.to_builtins(c.moment),
        "chain": [_finding(f) for f in c.chain],
        "slowdowns": [_slowdown(s) for s in c.slowdowns],
        "checks": list(c.checks),
        "advice": c.advice,
        "disagreements": list(c.disagreements),
    }


def _fault(f: Fault) -> dict[str, Any]:
    return {
        "kind": f.place.kind,
        "name": f.place.name,
        "rank": f.place.rank,
        "p": f.p,
        "reasons": list(f.reasons),
        "why": f.reasons[0] if f.reasons else "",
        "from": list(f.sources),
    }


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "source": f.source,
        "what": f.what,
        "text": f.text,
        "t": f.at,
        "until": f.until,
        "is_stamped": f.is_stamped,
        "places": [{"kind": p.kind, "name": p.name, "rank": p.rank} for p in f.places],
        "first_hand": f.first_hand,
        "category": f.category or None,
        "amount": f.amount,
        "steps": list(f.steps) if f.steps else None,
        "evidence": list(f.evidence),
    }


def _slowdown(s: Slowdown) -> dict[str, Any]:
    return {
        "source": s.source,
        "first": s.steps[0],
        "last": s.steps[1],
        "count": s.count,
        "factor": round(s.factor, 3),
        "lost_s": round(s.lost_s, 3),
        "lost_gpu_s": None if s.lost_gpu_s is None else round(s.lost_gpu_s, 3),
        "t": s.at,
        "until": s.until,
        "is_over": s.is_over,
    }

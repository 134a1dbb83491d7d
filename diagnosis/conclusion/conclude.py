"""Makes one conclusion from the findings of all evidence. Pure and deterministic; linear in the
findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.conclusion import category as categories
from diagnosis.conclusion import disagreements, findings, slowdowns
from diagnosis.conclusion import fault as faults
from diagnosis.conclusion.condition import Situation, condition, outcome
from diagnosis.conclusion.model import Conclusion, Fault, Moment, Slowdown
from diagnosis.conclusion.ordering import causal_order
from diagnosis.conclusion.sentences.sentence import sentence
from diagnosis.evidence import (
    COURSE_KINDS,
    NO_FACTS,
    FactSummary,
    Finding,
    FlowFinding,
    Result,
    StackFinding,
    Suspect,
)
from diagnosis.model import JobHints
from diagnosis.records.result import NO_LOGS, LogDiagnosis

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
    facts: FactSummary = NO_FACTS,
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
        facts: how many facts were read of reports, and how many of them differ between places.

    The caller adds advice and further checks.
    """
    known = logs or NO_LOGS
    told = hints or JobHints()
    iterations = known.timeline.iterations
    of_logs = slowdowns.of_logs(known.slow_phase, iterations, gpus)
    of_flows = slowdowns.of_flows(flows, gpus, iterations)
    slow = slowdowns.merge_slowdowns(of_logs, of_flows, min_gpu_s)
    situation = Situation(known, flows, stacks, slow, told.outcome, told.alarms, tuple(results), facts)
    name, why = condition(situation)
    slow_places = _findings_in_stretches(findings.of_flows(flows), name, slow)
    blamed = _blamed(suspects, name, is_whole=_covers_a_stretch(slow_places, slow))
    accused: tuple[Fault, ...] = ()
    if name not in categories.CONDITIONS_WITHOUT_PROBLEM:
        node_of = faults.node_of_ranks(known, stacks)
        accused = faults.find_faults(blamed, node_of, faults.root_writers(known))
    found = [
        *findings.of_logs(known),
        *slow_places,
        *findings.of_slowdowns(slow),
        *findings.of_last_messages(flows, name),
        *findings.of_stacks(stacks),
        *findings.of_checks(results),
        *findings.of_uploader(told),
        *findings.of_alarms(told),
    ]
    shares = categories.shares(name, known, found, stacks, results)
    leaf, sure = shares[0]
    top, sub = categories.category_and_subcategory(leaf)
    ended = outcome(name, situation)
    chain = _chain(found, ended)
    seen_slow = slow_places if name == "degraded" else ()
    return Conclusion(
        condition=name,
        id=leaf,
        category=top,
        subcategory=sub,
        confidence=sure,
        sentence=sentence(situation, name, accused, leaf),
        alternatives=tuple(shares),
        seen=faults.places_seen(known, stacks, accused, seen_slow),
        fault=accused,
        moment=_moment(name, why, situation, chain),
        chain=chain,
        disagreements=disagreements.find_disagreements(found, known, blamed, results, flows),
        slowdowns=slow,
        outcome=ended,
    )


def _blamed(suspects: Sequence[Suspect], condition: str, *, is_whole: bool) -> list[Suspect]:
    """The suspects without those of the flows alone if their findings last for a small part
    (``is_whole`` False) of what made the job slow.
    """
    if is_whole or condition != "degraded":
        return list(suspects)
    return [suspect for suspect in suspects if suspect.sources != ("flows",)]


def _chain(found: Sequence[Finding], outcome: str) -> tuple[Finding, ...]:
    """The causal chain: dated findings by time, undated ones of the cause before them. It ends with
    the conclusion's outcome.
    """
    kept = []
    for finding in found:
        if finding.source == "uploader":
            continue
        is_outcome = finding.what == "outcome"
        kept.append(msgspec.structs.replace(finding, text=outcome) if is_outcome else finding)
    return tuple(causal_order(kept, lambda f: (f.at, f.what, f.text))[:MAX_CHAIN])


def _findings_in_stretches(rows: Sequence[Finding], condition: str, slow: Sequence[Slowdown]) -> list[Finding]:
    """Slow machines within the reported stretches only: healthy jobs have slow steps too."""
    spans = [(s.at, s.until or s.at) for s in slow if s.at is not None]
    if condition == "degraded" and not spans:
        return list(rows)
    return [row for row in rows if _is_in_one(row, spans)]


def _is_in_one(row: Finding, spans: Sequence[tuple[float, float]]) -> bool:
    """Whether a finding overlaps one of these spans of time."""
    begin, end = _span(row)
    return any(since <= end and begin <= until for since, until in spans)


def _span(row: Finding) -> tuple[float, float]:
    begin = row.at or 0.0
    return begin, row.until or begin


def _covers_a_stretch(rows: Sequence[Finding], slow: Sequence[Slowdown]) -> bool:
    """Whether the findings about places last for at least half of one of the stretches that flows
    show: who delayed a smaller part of all of them is not who made the job slow. True without such
    stretches.
    """
    of_flows = [(s.at, s.until) for s in slow if s.source == "flows"]
    spans = [(at, until) for at, until in of_flows if at is not None and until is not None]
    if not spans or not rows:
        return True
    parts = sorted(map(_span, rows))
    return any(_covered_s(parts, at, until) >= THRESHOLDS.covered * (until - at) for at, until in spans)


def _covered_s(parts: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """How many seconds of a stretch these spans cover together. ``parts`` sorted."""
    covered, reached = 0.0, begin
    for since, until in parts:
        last = min(until, end)
        covered += max(0.0, last - max(since, reached))
        reached = max(reached, last)
    return covered


def _moment(name: str, why: str, situation: Situation, chain: Sequence[Finding]) -> Moment | None:
    """The start of the failure, the source of that time, the stage and the iteration."""
    if name in ("healthy", "running", "unknown"):
        return None
    if name == "degraded":
        return _start_of_degradation(why, situation, chain)
    at, how = _beginning(chain)
    return Moment(at, None, situation.logs.stage, situation.logs.iteration, how, why)


def _start_of_degradation(why: str, situation: Situation, chain: Sequence[Finding]) -> Moment:
    """The first slow step, the first iteration that shows what is wrong, else the first finding of
    it: the last progress is the end of the evidence, not the beginning of what is wrong.
    """
    logs, slow = situation.logs, situation.slowdowns
    if slow:
        first = min(slow, key=lambda s: (s.at is None, s.at or 0.0, s.steps))
        until = first.until if first.is_over else None
        stage = logs.stage or "training"
        return Moment(first.at, until, stage, first.steps[0], "the first slow step", why)
    since = situation.shown_since
    if since is not None:
        at = logs.timeline.time_of(since)
        how = "the first iteration that shows it"
        return Moment(at, None, "training", since, how, why)
    at, how = _beginning([finding for finding in chain if finding.what not in COURSE_KINDS])
    return Moment(at, None, None, None, how, why)


def _beginning(chain: Sequence[Finding]) -> tuple[float | None, str]:
    """When the failure began, and how that is known."""
    dated = [finding for finding in chain if finding.at is not None]
    roots = [finding for finding in dated if finding.what == "root"]
    if roots:
        return roots[0].at, "the first line of the cause"
    progress = [finding for finding in chain if finding.what == "progress"]
    if progress:
        return progress[0].at, "the last progress"
    first = next((one.at for one in dated), None)
    return first, "the first dated finding"

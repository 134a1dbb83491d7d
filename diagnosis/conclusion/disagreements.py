"""Contradictions between two kinds of evidence: one sentence with both sides. Every contradiction
is shown.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from diagnosis.conclusion.model import Disagreement, Side
from diagnosis.evidence import Finding, FlowFinding, Result, Suspect
from diagnosis.records.result import LogDiagnosis

#: The uploader's possible outcomes, and the outcomes of the logs that agree with each. Logs that run to their last line
#: show no end: they contradict none.
AGREEING_OUTCOMES: Final = {
    "succeeded": ("succeeded", "unknown", "running"),
    "failed": ("failed", "unknown", "running", "cancelled"),
    "cancelled": ("cancelled", "unknown", "running", "failed"),
    "running": ("running", "unknown"),
}
_OUTCOME_WORDS: Final = {
    "succeeded": "ended well",
    "failed": "failed",
    "cancelled": "was cancelled",
    "running": "is still running",
    "hung": "hung",
}
MAX_LISTED: Final = 4


def find_disagreements(
    findings: Iterable[Finding],
    logs: LogDiagnosis,
    suspects: Sequence[Suspect],
    results: Sequence[Result],
    flows: FlowFinding,
) -> tuple[Disagreement, ...]:
    """Each contradiction, the uploader's first."""
    return (
        *_outcome(findings, logs),
        *_layout(flows),
        *_places(suspects),
        *_cleared_nodes(logs, results),
    )


def _layout(flows: FlowFinding) -> list[Disagreement]:
    """Parallel sizes and groups that the job states and its flows contradict."""
    differing = [job.apart for job in flows.jobs if job.apart is not None]
    return [
        _disagreement("layout", ("the job", f"states {one.stated}"), ("flows", f"show {one.shown}"))
        for one in differing[:MAX_LISTED]
    ]


def _cleared_nodes(logs: LogDiagnosis, results: Sequence[Result]) -> list[Disagreement]:
    """Machines that the logs accuse and a check clears."""
    accused = {node.node for node in logs.nodes if node.is_suspect}
    cleared = [result for result in results if result.kind == "node" and result.outcome.ratio < 1.0]
    return [
        _disagreement(
            "fault",
            ("the logs", f"accuse {result.target}"),
            ("a check", f"says of it: {result.outcome.says}"),
        )
        for result in cleared
        if result.target in accused
    ][:MAX_LISTED]


def _outcome(findings: Iterable[Finding], logs: LogDiagnosis) -> list[Disagreement]:
    stated = [f.text for f in findings if f.source == "uploader" and f.what == "outcome"]
    if not stated or not logs.has_evidence:
        return []
    if logs.outcome in AGREEING_OUTCOMES.get(stated[0], (logs.outcome,)):
        return []
    says = f"says that the job {_OUTCOME_WORDS.get(stated[0], stated[0])}"
    say = f"say that it {_OUTCOME_WORDS.get(logs.outcome, logs.outcome)}"
    return [_disagreement("outcome", ("the uploader", says), ("the logs", say))]


def _places(suspects: Sequence[Suspect]) -> list[Disagreement]:
    """Two kinds of evidence that accuse nodes, and no node together."""
    accused: dict[str, set[str]] = defaultdict(set)
    for suspect in suspects:
        if suspect.kind == "node" and suspect.is_suspect:
            for source in suspect.sources:
                accused[source].add(suspect.entity)
    return [
        _disagreement("fault", (one, _accuse_text(accused[one])), (other, _accuse_text(accused[other])))
        for one, other in itertools.combinations(sorted(accused), 2)
        if accused[one].isdisjoint(accused[other])
    ]


def _accuse_text(nodes: Iterable[str]) -> str:
    return f"accuse {', '.join(sorted(nodes)[:MAX_LISTED])}"


def _disagreement(about: str, one: tuple[str, str], other: tuple[str, str]) -> Disagreement:
    text = f"The evidence disagrees: {one[0]} {one[1]}, {other[0]} {other[1]}."
    return Disagreement(about, (Side(*one), Side(*other)), text)

"""Contradictions between two kinds of evidence: one sentence with both sides. Every contradiction is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from diagnosis.evidence import Finding, FlowFinding, Result, Suspect
from diagnosis.result import LogDiagnosis

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
    logs: LogDiagnosis | None,
    suspects: Sequence[Suspect],
    results: Sequence[Result],
    flows: FlowFinding,
) -> tuple[dict[str, Any], ...]:
    """``{"about", "sides": [{"source", "says"}, …], "text"}`` for each contradiction, the uploader's first."""
    out = [*_outcome(findings, logs), *_layout(flows), *_places(suspects), *_cleared_nodes(logs, results)]
    return tuple(out)


def _layout(flows: FlowFinding) -> list[dict[str, Any]]:
    """Parallel sizes and groups that the job states and its flows contradict."""
    differing = [job.apart for job in flows.jobs if job.apart is not None]
    return [
        _disagreement("layout", ("the job", f"states {one.stated}"), ("flows", f"show {one.shown}"))
        for one in differing[:MAX_LISTED]
    ]


def _cleared_nodes(logs: LogDiagnosis | None, results: Sequence[Result]) -> list[dict[str, Any]]:
    """Machines that the logs accuse and a check clears."""
    accused = {n.node for n in logs.nodes if n.is_suspect} if logs is not None and logs.is_failure else set()
    return [
        _disagreement("fault", ("the logs", f"accuse {r.target}"), ("a check", f"says of it: {r.outcome.says}"))
        for r in results
        if r.kind == "node" and r.target in accused and r.outcome.ratio < 1.0
    ][:MAX_LISTED]


def _outcome(findings: Iterable[Finding], logs: LogDiagnosis | None) -> list[dict[str, Any]]:
    stated = next((f.text for f in findings if f.source == "uploader" and f.what == "outcome"), "")
    if not stated or logs is None or logs.outcome in AGREEING_OUTCOMES.get(stated, (logs.outcome,)):
        return []
    return [
        _disagreement(
            "outcome",
            ("the uploader", f"says that the job {_OUTCOME_WORDS.get(stated, stated)}"),
            ("the logs", f"say that it {_OUTCOME_WORDS.get(logs.outcome, logs.outcome)}"),
        )
    ]


def _places(suspects: Sequence[Suspect]) -> list[dict[str, Any]]:
    accused: dict[str, list[str]] = {}
    for suspect in suspects:
        if suspect.kind == "node" and suspect.is_suspect:
            for source in suspect.sources:
                accused.setdefault(source, []).append(suspect.entity)
    rows = sorted(accused.items())
    out = []
    for n, (source, nodes) in enumerate(rows):
        for other, other_nodes in rows[n + 1 :]:
            if not set(nodes) & set(other_nodes):
                sides = [
                    (s, f"accuse {', '.join(sorted(set(v))[:MAX_LISTED])}")
                    for s, v in ((source, nodes), (other, other_nodes))
                ]
                out.append(_disagreement("fault", *sides))
    return out


def _disagreement(about: str, one: tuple[str, str], other: tuple[str, str]) -> dict[str, Any]:
    sides = [{"source": source, "says": says} for source, says in (one, other)]
    text = f"The evidence disagrees: {one[0]} {one[1]}, {other[0]} {other[1]}."
    return {"about": about, "sides": sides, "text": text}

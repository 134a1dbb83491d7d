"""From a report (docs/report.md) to the rows that pages show. Pure: no queries, no clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from diagnosis.conclusion.model import PROBLEM_CONDITIONS, Answer, symptom_of
from diagnosis.evidence import decode
from triage.domain.finding_facts import FindingFacts, findings_of

#: more rows than people read; the report has all
MAX_SUSPECTS = 40
MAX_HEADLINE = 500


@dataclass(frozen=True, slots=True)
class SuspectFacts:
    """One entry of the fused ranking."""

    entity: str
    kind: str
    score: float
    is_accused: bool
    reasons: list[str]
    sources: list[str]


@dataclass(frozen=True, slots=True)
class IncidentFacts:
    """One failed, hung or slow episode as the report has it. Times are UTC, ``lost_s`` seconds."""

    headline: str
    category: str
    confidence: float
    runner_up: str
    runner_up_confidence: float | None
    condition: str
    symptom: str
    stage: str
    iteration: int | None
    fingerprint: str
    node_count: int | None
    happened_at: datetime | None
    lost_s: float | None
    findings: list[FindingFacts] = field(default_factory=list)
    suspects: list[SuspectFacts] = field(default_factory=list)

    @property
    def accused(self) -> list[str]:
        return [suspect.entity for suspect in self.suspects if suspect.is_accused]


def incident_of(report: dict[str, Any], stated_outcome: str = "") -> IncidentFacts | None:
    """The episode in the report, or None if nothing failed, hung or was slow.

    ``stated_outcome``: the job's outcome as people stated it. A job that they call failed is an incident although its
    evidence ends well: nobody would see it otherwise. Its category and its cost are unknown.
    """
    logs = report.get("logs") or {}
    conclusion = report.get("conclusion") or {}
    condition = str(conclusion.get("condition") or "")
    is_problem = condition in PROBLEM_CONDITIONS
    if not is_problem and stated_outcome != "failed":
        return None
    suspects, headline = suspects_of(report), str(report.get("headline") or "")
    if not is_problem:
        suspects = [row for row in suspects if not row.is_accused]
        headline = headline if headline.startswith("Reported as") else f"Reported as failed: {headline}"
    answer = conclusion if is_problem else {}
    moment = answer.get("moment") or {}
    category = str(answer.get("id") or "unknown")
    second: dict[str, Any] = next(iter((answer.get("alternatives") or [])[1:]), {})
    return IncidentFacts(
        headline=headline[:MAX_HEADLINE],
        category=category,
        confidence=float(answer.get("confidence") or 0),
        runner_up=second.get("id") or "",
        runner_up_confidence=second.get("p"),
        condition=condition,
        symptom=_symptom(report, logs, category) if is_problem else "",
        stage=str(moment.get("stage") or logs.get("stage") or ""),
        iteration=moment.get("iteration"),
        fingerprint=logs.get("fingerprint") or "",
        node_count=node_count_of(report),
        happened_at=_happened_at(report, logs),
        lost_s=_lost_s(report, logs) if is_problem else None,
        findings=findings_of(report),
        suspects=suspects,
    )


def evidence_digest_of(report: dict[str, Any]) -> str:
    """One digest of all files of the report, whatever their paths and order; empty without
    files.
    """
    digests = sorted({str(row.get("sha256") or "") for row in report.get("inputs") or []} - {""})
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def is_steady(report: dict[str, Any]) -> bool:
    """Whether a job ran normally: one that was slow, restarted or worse is no example of normal behaviour."""
    conclusion = report.get("conclusion") or {}
    return bool(conclusion.get("condition", "healthy") not in (*PROBLEM_CONDITIONS, "recovered"))


def outcome_of(report: dict[str, Any]) -> str:
    """How the job ended, as the conclusion says."""
    return str((report.get("conclusion") or {}).get("outcome") or "unknown")


def node_count_of(report: dict[str, Any]) -> int | None:
    """The number of nodes that the job stated, else of the nodes with lanes."""
    count = (report.get("job") or {}).get("nodes")
    if isinstance(count, int) and count > 0:
        return count
    lanes = ((report.get("logs") or {}).get("timeline") or {}).get("lanes") or []
    return len(lanes) or None


def nodes_in_question(report: dict[str, Any]) -> list[str]:
    """The nodes that the conclusion accuses, then those where it was seen."""
    conclusion = report.get("conclusion") or {}
    rows = [*(conclusion.get("fault") or ()), *(conclusion.get("seen") or ())]
    return list(dict.fromkeys(str(row["name"]) for row in rows if row.get("kind") == "node"))


def moment_of(report: dict[str, Any]) -> float | None:
    """When the failure began, in seconds since the epoch, if that is known."""
    at = ((report.get("conclusion") or {}).get("moment") or {}).get("t")
    return None if at is None else float(at)


def node_names_of(report: dict[str, Any]) -> list[str]:
    """Every node that the evidence names, once, sorted."""
    logs = report.get("logs") or {}
    names = {lane.get("node") for lane in (logs.get("timeline") or {}).get("lanes") or []}
    names |= {row.get("node") for row in logs.get("nodes") or []}
    names |= {row.get("entity") for row in report.get("suspects") or [] if row.get("kind") == "node"}
    return sorted(name for name in names if name)


def week_of(moment: datetime) -> date:
    """The Monday of the moment's week in UTC."""
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def utc_time(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as a UTC time; None outside the calendar."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(float(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _symptom(report: dict[str, Any], logs: dict[str, Any], category: str) -> str:
    """The symptom of a job with a problem; where its logs name none, what category and stacks imply."""
    symptom = str(logs.get("symptom") or "none")
    stacks = report.get("stacks")
    if symptom == "none":
        is_slow = category.startswith("performance") or bool(stacks and stacks.get("is_moving"))
        symptom = "slow" if is_slow else "hang" if stacks else ""
    return symptom_of(decode(report.get("conclusion"), Answer), symptom)


def _happened_at(report: dict[str, Any], logs: dict[str, Any]) -> datetime | None:
    conclusion = report.get("conclusion") or {}
    start = utc_time((conclusion.get("moment") or {}).get("t"))
    if start is not None:
        return start
    if conclusion.get("condition") == "degraded":
        return None  # the end of the evidence is not the beginning of what is wrong
    return utc_time((logs.get("timeline") or {}).get("t1"))


def _slowdowns(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The slow stretches of a degraded job."""
    conclusion = report.get("conclusion") or {}
    return list(conclusion.get("slowdowns") or ()) if conclusion.get("condition") == "degraded" else []


def lost_gpu_hours_of(report: dict[str, Any]) -> float | None:
    """The cost of slow stretches, with the GPUs that the evidence shows: the same as in the
    headline. None if the report does not state it.
    """
    rows = _slowdowns(report)
    costs = [float(row["lost_gpu_s"]) for row in rows if row.get("lost_gpu_s") is not None]
    return sum(costs) / 3600 if costs and len(costs) == len(rows) else None


def _lost_s(report: dict[str, Any], logs: dict[str, Any]) -> float | None:
    """Seconds between the last progress (or the start, without progress) and the end of the attempt; for a degraded job
    the time beyond normal, None if no step shows any.
    """
    if slow := _slowdowns(report):
        return float(sum(row["lost_s"] for row in slow))
    if (report.get("conclusion") or {}).get("condition") == "degraded":
        return None  # it goes on, and no step shows what it costs
    timeline = logs.get("timeline") or {}
    start, end = timeline.get("t0"), timeline.get("t1")
    if start is None or end is None:
        return None
    progress = [row.get("t") for row in timeline.get("iterations") or []]
    known_times = [float(t) for t in progress if t is not None and t <= end]
    return max(0.0, float(end) - (max(known_times) if known_times else float(start)))


def suspects_of(report: dict[str, Any]) -> list[SuspectFacts]:
    """The suspects that the conclusion accuses, most probable first, then those that are only ranked."""
    fault = (report.get("conclusion") or {}).get("fault") or []
    facts = [_accused_suspect(row) for row in fault]
    accused = {fact.entity for fact in facts} | {f"rank {row.get('rank')}" for row in fault}
    for row in report.get("suspects") or []:
        if str(row.get("entity") or "") in accused:
            continue
        facts.append(
            SuspectFacts(
                entity=str(row.get("entity") or "")[:200],
                kind=(row.get("kind") or "node")[:10],
                score=float(row.get("score") or 0),
                is_accused=False,
                reasons=row.get("reasons") or [],
                sources=row.get("from") or ["logs"],
            )
        )
    return facts[:MAX_SUSPECTS]


def _accused_suspect(row: dict[str, Any]) -> SuspectFacts:
    """One entry of ``fault``; a rank is written with its kind, since its name is a number."""
    is_rank = row["kind"] == "rank"
    return SuspectFacts(
        entity=(f"rank {row['name']}" if is_rank else str(row["name"]))[:200],
        kind=str(row["kind"])[:10],
        score=float(row["p"]),
        is_accused=True,
        reasons=list(row.get("reasons") or []),
        sources=list(row.get("from") or ["logs"]),
    )

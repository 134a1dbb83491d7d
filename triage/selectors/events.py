"""A job's events for its page: when and in which stage they began; filtered and sorted by the address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from triage.domain.finding_facts import FindingFacts, findings_of
from triage.models import Diagnosis

#: minimum level of the listed events
LEVELS = {"info": 2, "warning": 3, "error": 4, "fatal": 5}
_NO_TIME = float("inf")


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event with its first and last time (seconds since the epoch) and the stage in which it began."""

    finding: FindingFacts
    first_at: float | None
    last_at: float | None
    stage: str


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of events; an empty field does not filter."""

    role: str = ""
    words: str = ""
    node: str = ""
    level: str = ""
    stage: str = ""

    def __bool__(self) -> bool:
        return bool(self.role or self.words or self.node or self.level or self.stage)

    def passes(self, event: JobEvent) -> bool:
        finding, words, node = event.finding, self.words.lower(), self.node.lower()
        return (
            (not self.role or finding.role == self.role)
            and finding.level >= LEVELS.get(self.level, 0)
            and (not words or words in finding.template.lower() or words in finding.example.lower())
            and (not node or any(node in name.lower() for name in finding.node_names))
            and (not self.stage or event.stage == self.stage)
        )


#: sort name → (label, key); "" is the report's order, root causes first
SORTS: dict[str, tuple[str, Callable[[JobEvent], Any]]] = {
    "first": ("earliest first", lambda e: _NO_TIME if e.first_at is None else e.first_at),
    "nodes": ("on most nodes first", lambda e: -e.finding.nodes),
    "rare": (
        "rarest in healthy jobs first",
        lambda e: e.finding.jobs_with_it / e.finding.healthy_jobs if e.finding.healthy_jobs else _NO_TIME,
    ),
    "lines": ("most lines first", lambda e: -e.finding.count),
}


def job_events(
    diagnosis: Diagnosis | None, only: Filter, sort: str = "", span: tuple[float, float] | None = None
) -> tuple[list[JobEvent], list[str]]:
    """The matching events, and the stages in which any began. One small query: stages are stored with the timeline.

    ``span``: only events between these times.
    """
    if diagnosis is None:
        return [], []
    stages = Diagnosis.objects.filter(pk=diagnosis.pk).values_list(F("timeline__stages"), flat=True).first() or []
    raw = (diagnosis.report.get("logs") or {}).get("events") or []
    events = [
        JobEvent(finding, row.get("first_at"), row.get("last_at"), _stage_at(stages, row.get("first_at")))
        for finding, row in zip(findings_of(diagnosis.report), raw, strict=False)
    ]
    matching = [event for event in events if only.passes(event) and _is_in(event, span)]
    if sort in SORTS:
        matching.sort(key=SORTS[sort][1])
    stages_with_events = {event.stage for event in events} - {""}
    return matching, [
        name for name in dict.fromkeys(row.get("stage", "") for row in stages) if name in stages_with_events
    ]


def _stage_at(stages: list[dict[str, Any]], moment: float | None) -> str:
    """The stage at this moment; if none runs, the last that began before it."""
    if moment is None:
        return ""
    earlier = [row for row in stages if row.get("t0") is not None and row["t0"] <= moment]
    return str(earlier[-1].get("stage") or "") if earlier else ""


def _is_in(event: JobEvent, span: tuple[float, float] | None) -> bool:
    if span is None or event.first_at is None:
        return True
    return event.first_at <= span[1] and (event.last_at or event.first_at) >= span[0]

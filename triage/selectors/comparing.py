"""Two runs of a family side by side: what one printed and did that the other did not."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import Q

from ingest.models import Job
from triage.models import Diagnosis
from triage.selectors.jobs import jobs_visible_to
from triage.services.reading import FindingFacts, findings_of, node_count_of
from triage.wording import duration, number

CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One fact of both runs; ``differs`` where a reader should look."""

    name: str
    here: str
    there: str

    @property
    def differs(self) -> bool:
        return self.here != self.there


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the page shows. ``other`` is None where the family has no other diagnosed run."""

    candidates: list[Job]
    other: Job | None
    rows: list[Row]
    only_here: list[FindingFacts]
    in_both: list[tuple[FindingFacts, FindingFacts]]
    only_there: list[FindingFacts]


def comparison(user: Any, job: Job, here: Diagnosis | None, other_slug: str = "") -> Comparison:
    """Compare with the named run, else with the family's latest healthy one, else its latest. Two queries."""
    family = jobs_visible_to(user).exclude(pk=job.pk).filter(diagnoses__isnull=False).distinct()
    if job.family:
        alike = Q(family=job.family)
    else:
        alike = Q(framework=job.framework, model=job.model) if job.framework or job.model else Q()
    candidates = list(family.filter(alike).order_by("-created_at")[:CANDIDATES])
    named = [row for row in candidates if row.slug == other_slug]
    healthy = [row for row in candidates if row.outcome == "succeeded"]
    other = next(iter([*named, *healthy, *candidates]), None)
    there = Diagnosis.objects.filter(job=other).first() if other else None
    if here is None or there is None:
        return Comparison(candidates, None, [], [], [], [])
    mine, theirs = _by_template(here), _by_template(there)
    return Comparison(
        candidates,
        other,
        _rows(here, there),
        [row for text, row in mine.items() if text not in theirs],
        [(row, theirs[text]) for text, row in mine.items() if text in theirs],
        [row for text, row in theirs.items() if text not in mine],
    )


def _by_template(diagnosis: Diagnosis) -> dict[str, FindingFacts]:
    return {row.template: row for row in findings_of(diagnosis.report)}


def _rows(here: Diagnosis, there: Diagnosis) -> list[Row]:
    left, right = _facts(here), _facts(there)
    return [Row(name, left[name], right[name]) for name in left]


def _facts(diagnosis: Diagnosis) -> dict[str, str]:
    report, timeline = diagnosis.report, diagnosis.timeline
    logs, job = report.get("logs") or {}, report.get("job") or {}
    seconds = [row["seconds"] for row in timeline.get("iterations") or [] if row.get("seconds") is not None]
    t0, t1 = timeline.get("t0"), timeline.get("t1")
    layout = job.get("layout") or {}
    return {
        "Outcome": str(logs.get("outcome") or "unknown"),
        "Stage reached": str(logs.get("stage") or "–").replace("_", " "),
        "Last iteration": number(logs.get("iteration")),
        "Median iteration": duration(median(seconds)) if seconds else "–",
        "Slowest iteration": duration(max(seconds)) if seconds else "–",
        "Ran for": duration(t1 - t0) if t0 is not None and t1 is not None else "–",
        "Nodes": number(node_count_of(report)),
        "Ranks": number(job.get("world_size")),
        "Framework": str(job.get("framework") or "–"),
        "Layout": " ".join(f"{key}{layout[key]}" for key in ("tp", "pp", "dp", "ep", "cp") if layout.get(key)) or "–",
        "Engine": diagnosis.engine,
    }

"""Compares two runs of a family: what one printed and did that the other did not."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from diagnosis.values.plain import counted, times_as_long
from ingest.models import Job
from triage.domain.finding_facts import FindingFacts, findings_of
from triage.domain.report_facts import node_count_of
from triage.models import Diagnosis
from triage.selectors.demonstration import comparable_rows
from triage.selectors.healthy_jobs import healthy_of
from triage.selectors.jobs import jobs_visible_to
from triage.wording import duration, number

MAX_CANDIDATES = 50
#: below this share the pace of two runs is about the same
MIN_PACE_CHANGE = 0.05

#: what jobs are compared by, in words
_SHAPE = ("layout", "world size")


@dataclass(frozen=True, slots=True)
class Row:
    """One fact of both runs; ``differs`` if the difference matters."""

    name: str
    here: str
    there: str

    @property
    def differs(self) -> bool:
        return self.here != self.there


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the page shows. ``other`` is None if the family has no other diagnosed run."""

    candidates: list[Job]
    other: Job | None
    rows: list[Row]
    only_here: list[FindingFacts]
    in_both: list[tuple[FindingFacts, FindingFacts]]
    only_there: list[FindingFacts]
    #: in short sentences what became of both, their pace, and how many messages are new
    summary: list[str] = field(default_factory=list)
    #: why the other run was chosen; empty if the person chose it
    why: str = ""
    #: the ids of the candidates that are an example of a run without a fault
    healthy: set[int] = field(default_factory=set)


def comparison(user: Any, job: Job, here: Diagnosis | None, other_slug: str = "") -> Comparison:
    """Compare with the named run, else with the most similar one. Four queries.

    Similarity order: same layout and world size, then one of them, then a healthy run, then the latest.
    """
    is_diagnosed = Exists(Diagnosis.objects.filter(job=OuterRef("pk")))
    others = jobs_visible_to(user).exclude(pk=job.pk)
    family = others.filter(is_diagnosed, comparable_rows(job.cluster.slug))
    if job.family:
        similar = Q(family=job.family)
    else:
        similar = Q(framework=job.framework, model=job.model) if job.framework or job.model else Q()
    candidates = list(family.filter(similar).order_by("-created_at")[:MAX_CANDIDATES])
    healthy = _healthy_of(candidates)
    requested = [row for row in candidates if row.slug == other_slug]
    other, why = (requested[0], "") if requested else _most_similar(job, here, candidates, healthy)
    there = _newest(other.pk).select_related("attempt").first() if other else None
    if here is None or there is None:
        return Comparison(candidates, None, [], [], [], [], healthy=healthy)
    our_events, their_events = _by_template(here), _by_template(there)
    only_here = [row for text, row in our_events.items() if text not in their_events]
    return Comparison(
        candidates,
        other,
        _rows(here, there),
        only_here,
        [(row, their_events[text]) for text, row in our_events.items() if text in their_events],
        [row for text, row in their_events.items() if text not in our_events],
        [*_ends(here, there), *_pace(here, there), *_new_messages(only_here)],
        why,
        healthy,
    )


def _ends(here: Diagnosis, there: Diagnosis) -> list[str]:
    """What became of each run, and how far it came."""
    return [f"This run: {_end(here)}.", f"The other: {_end(there)}."]


def _end(diagnosis: Diagnosis) -> str:
    facts = _facts(diagnosis)
    condition, iteration = facts["Condition"], facts["Iteration reached"]
    end = facts["Outcome"] if condition == "–" else condition
    return end if iteration == "–" else f"{end}, iteration {iteration}"


def _pace(here: Diagnosis, there: Diagnosis) -> list[str]:
    """How the median iterations compare, if both are known."""
    ours, theirs = _iteration_seconds(here), _iteration_seconds(there)
    if not ours or not theirs or not median(theirs):
        return []
    factor = median(ours) / median(theirs)
    if abs(factor - 1) < MIN_PACE_CHANGE:
        return ["Both took about as long for an iteration."]
    return [f"This run took {times_as_long(factor)} for an iteration."]


def _new_messages(only_here: list[FindingFacts]) -> list[str]:
    if not only_here:
        return ["This run printed no message that the other did not."]
    return [f"{counted(len(only_here), 'message is', 'messages are')} in this run alone."]


def _newest(job: int | OuterRef) -> QuerySet[Diagnosis]:
    """The last diagnosis of a job. By number, which an index has: a row holds the whole report and
    is slow to read.
    """
    return Diagnosis.objects.filter(job=job).order_by("-pk")[:1]


def _healthy_of(candidates: list[Job]) -> set[int]:
    """The numbers of the healthy ones."""
    healthy = healthy_of(Job.objects.filter(pk__in=[row.pk for row in candidates]))
    return set(healthy.order_by().values_list("pk", flat=True))


def _most_similar(job: Job, here: Diagnosis | None, candidates: list[Job], healthy: set[int]) -> tuple[Job | None, str]:
    """The candidate (latest first) that is most similar to the job, and why."""
    if here is None or not candidates:
        return None, ""
    own_rows = Job.objects.filter(pk__in=[row.pk for row in candidates]).order_by()
    newest = own_rows.values(newest=Subquery(_newest(OuterRef("pk")).values("pk")))
    diagnoses = Diagnosis.objects.filter(pk__in=newest).order_by()
    shapes: dict[int, tuple[str, str]] = {
        pk: (_layout_words(layout), str(size or ""))
        for pk, layout, size in diagnoses.values_list("job", "report__job__layout", "report__job__world_size")
    }
    own_facts = here.report.get("job") or {}
    own = (_layout_words(own_facts.get("layout")), str(own_facts.get("world_size") or ""))

    def shared(row: Job) -> tuple[bool, bool]:
        layout, size = shapes.get(row.pk, ("", ""))
        return bool(own[0]) and layout == own[0], bool(own[1]) and size == own[1]

    def rank(row: Job) -> tuple[int, bool, bool]:
        same = shared(row)
        return -sum(same), not same[1], row.pk not in healthy

    best = min(candidates, key=rank)  # among equals the first, which is the latest
    known = list(itertools.compress(_SHAPE, own))
    same = list(itertools.compress(_SHAPE, shared(best)))
    kind = "healthy run" if best.pk in healthy else "run"
    return best, _why_picked(job, kind, known, same)


def _why_picked(job: Job, kind: str, known: list[str], same: list[str]) -> str:
    """``known``: what is known of the job's shape; ``same``: what the picked job has in common with it."""
    shared_words = [word for word in ("framework", "model") if getattr(job, word)]
    similar = f"of the same {' and '.join(shared_words)}" if shared_words else "that you may see"
    of = f"of the family “{job.family}”" if job.family else similar
    with_same = f" with the same {' and '.join(same)}" if same else ""
    differs = [word for word in known if word not in same]
    without = ""
    if not known:
        without = "; layout and world size of this run are not known"
    elif same and differs:
        without = f"; none has the same {' and '.join(differs)} as well"
    elif differs:
        without = f"; none has the same {' or '.join(differs)}"
    if not (job.family or shared_words):
        without += "; name its family to compare it with its own kind"
    return f"Picked as the latest {kind} {of}{with_same}{without}."


def _layout_words(layout: Any) -> str:
    sizes = layout if isinstance(layout, dict) else {}
    return " ".join(f"{key}{sizes[key]}" for key in ("tp", "pp", "dp", "ep", "cp") if sizes.get(key))


def _by_template(diagnosis: Diagnosis) -> dict[str, FindingFacts]:
    return {row.template: row for row in findings_of(diagnosis.report)}


def _rows(here: Diagnosis, there: Diagnosis) -> list[Row]:
    left, right = _facts(here), _facts(there)
    return [Row(name, left[name], right[name]) for name in left]


def _iteration_seconds(diagnosis: Diagnosis) -> list[float]:
    iterations = diagnosis.timeline.get("iterations") or []
    return [row["seconds"] for row in iterations if row.get("seconds") is not None]


def _facts(diagnosis: Diagnosis) -> dict[str, str]:
    report, timeline = diagnosis.report, diagnosis.timeline
    logs, job = report.get("logs") or {}, report.get("job") or {}
    seconds = _iteration_seconds(diagnosis)
    t0, t1 = timeline.get("t0"), timeline.get("t1")
    return {
        "Condition": str((report.get("conclusion") or {}).get("condition") or "–"),
        "Outcome": diagnosis.attempt.outcome,
        "Stage reached": str(logs.get("stage") or "–").replace("_", " "),
        "Iteration reached": number(logs.get("iteration")),
        "Median iteration": duration(median(seconds)) if seconds else "–",
        "Slowest iteration": duration(max(seconds)) if seconds else "–",
        "Ran for": duration(t1 - t0) if t0 is not None and t1 is not None else "–",
        "Nodes": number(node_count_of(report) or diagnosis.attempt.node_count),
        "Ranks": number(job.get("world_size")),
        "Framework": str(job.get("framework") or "–"),
        "Layout": _layout_words(job.get("layout")) or "–",
        "Engine": diagnosis.engine,
    }

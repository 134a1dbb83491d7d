"""Writes the search index: with each diagnosis, and completely by a migration or a command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import batched, groupby
from operator import itemgetter
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from ingest.models import Job
from triage.domain.report_facts import IncidentFacts
from triage.models import Activity, Finding, Incident, SearchEntry, Suspect
from triage.search import word_rules

BATCH_SIZE = 500
#: maximum number of ranks in one entry
MAX_RANKS = 512


def search_entry_write(*, incident: Incident, job: Job, facts: IncidentFacts) -> None:
    """Write the words of an incident from its latest diagnosis. Call it in the transaction that stores it."""
    findings = [(row.role, row.template, row.example, row.lines, row.signature) for row in facts.findings]
    ranks = _accused_ranks(incident.diagnosis.report.get("conclusion"))
    remarks = remarks_of([incident.pk])[incident.pk]
    fields = _fields([facts.headline, job.name, job.slug, *remarks], findings, ranks)
    SearchEntry.objects.update_or_create(incident=incident, defaults=fields)


def search_entries_make(incidents: Iterable[Incident]) -> None:
    """Write the entries of incidents without evidence: their names, their jobs, and why somebody is
    accused.
    """
    rows = list(incidents)
    remarks = remarks_of([row.pk for row in rows])
    SearchEntry.objects.bulk_create(
        SearchEntry(incident=row, about=_about(row.headline, row.job, remarks[row.pk])) for row in rows
    )


def search_entries_rename(*, job: Job) -> int:
    """Update the job's name in the entries of its incidents; returns how many changed."""
    return _update_about(SearchEntry.objects.filter(incident__job=job))


def search_entries_remark(incidents: Iterable[int]) -> int:
    """Update what people wrote in the entries of these incidents; returns how many changed."""
    return _update_about(SearchEntry.objects.filter(incident__in=list(incidents)))


def _update_about(entries: QuerySet[SearchEntry]) -> int:
    changed = []
    with transaction.atomic():
        rows = list(entries.select_related("incident__job"))
        remarks = remarks_of([row.incident_id for row in rows])
        for row in rows:
            about = _about(row.incident.headline, row.incident.job, remarks[row.incident_id])
            if about != row.about:
                row.about = about
                changed.append(row)
        SearchEntry.objects.bulk_update(changed, ["about"], batch_size=BATCH_SIZE)
    return len(changed)


def _about(headline: str, job: Job, remarks: Iterable[str]) -> str:
    return word_rules.entry([headline, job.name, job.slug, *remarks])


def remarks_of(incidents: Collection[int]) -> defaultdict[int, list[str]]:
    """What is said of these incidents beside their evidence: the accused and why, people's comments
    and reasons.

    Two queries.
    """
    found: defaultdict[int, list[str]] = defaultdict(list)
    accused = Suspect.objects.filter(incident__in=incidents, is_accused=True).order_by("position")
    for incident, entity, reasons in accused.values_list("incident", "entity", "reasons"):
        found[incident] += [entity, *map(str, reasons)]
    acts = Activity.objects.filter(incident__in=incidents).order_by("pk")
    for incident, *texts in acts.values_list("incident", "data__body", "data__reason"):
        for text in texts:
            found[incident] += str(text or "").splitlines()
    return found


def search_entries_build(
    incidents: Any = Incident,
    findings: Any = Finding,
    entries: Any = SearchEntry,
    remarks: Callable[[Collection[int]], Mapping[int, list[str]]] = remarks_of,
) -> Iterator[int]:
    """Write all entries again from the stored rows, in batches; yields the number written so far.

    The models are arguments, so that a migration can pass its own, without ``remarks``; reads only
    columns of migration 0001. Linear in findings, one batch in memory.
    """
    entries.objects.all().delete()
    written = 0
    for numbers in batched(incidents.objects.order_by("pk").values_list("pk", flat=True).iterator(5000), BATCH_SIZE):
        findings_by_incident: dict[int, list[tuple[Any, ...]]] = {}
        columns = ("incident_id", "role", "template", "example", "lines", "signature")
        rows = findings.objects.filter(incident__in=numbers).order_by("incident", "position").values_list(*columns)
        for number, group in groupby(rows, key=itemgetter(0)):
            findings_by_incident[number] = [row[1:] for row in group]
        heads = incidents.objects.filter(pk__in=numbers).values_list(
            "pk", "headline", "job__name", "job__slug", "diagnosis__report__conclusion"
        )
        said = remarks(numbers)
        entries.objects.bulk_create(
            entries(
                incident_id=pk,
                **_fields(
                    [headline, name, slug, *said.get(pk, ())],
                    findings_by_incident.get(pk, []),
                    _accused_ranks(conclusion),
                ),
            )
            for pk, headline, name, slug, conclusion in heads
        )
        written += len(numbers)
        yield written


def _fields(about: Iterable[str], findings: Iterable[tuple[Any, ...]], accused: Iterable[int]) -> dict[str, str]:
    """``findings``: role, template, example, lines and signature of each; ``accused``: ranks."""
    texts: list[str] = []
    ranks: dict[int, None] = {}
    rules: dict[str, None] = {}
    for role, template, example, lines, signature in findings:
        if signature:
            rules[f"{word_rules.SIGNATURE}{signature}"] = None
        texts.append(example)
        if role == "root" or not example:
            texts.append(template)
        if role == "root":
            ranks |= dict.fromkeys(rank for line in lines if isinstance(rank := line.get("rank"), int))
    ranks |= dict.fromkeys(accused)
    rank_words = [word_rules.place_of(rank) for rank in list(ranks)[:MAX_RANKS]]
    return {
        "about": word_rules.entry(about),
        "said": word_rules.entry(texts),
        "places": word_rules.entry([*rank_words, *rules]),
    }


def _accused_ranks(conclusion: dict[str, Any] | None) -> list[int]:
    """The ranks that the conclusion accuses."""
    fault = (conclusion or {}).get("fault") or []
    return [row["rank"] for row in fault if isinstance(row.get("rank"), int)]

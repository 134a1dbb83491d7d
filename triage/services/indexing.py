"""Writes the search index: with each diagnosis, and completely by a migration or a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import batched, groupby
from operator import itemgetter
from typing import Any

from django.db import transaction

from ingest.models import Job
from triage.domain.report_facts import IncidentFacts
from triage.models import Finding, Incident, SearchEntry
from triage.search import word_rules

BATCH_SIZE = 500
#: maximum number of ranks in one entry
MAX_RANKS = 512
_RANK = re.compile(r"(?:^|\brank[ _:-]*)(\d{1,9})$")


def search_entry_write(*, incident: Incident, job: Job, facts: IncidentFacts) -> None:
    """Write the words of an incident from its latest diagnosis. Call it in the transaction that stores it."""
    findings = [(row.role, row.template, row.example, row.lines, row.signature) for row in facts.findings]
    ranks = _accused_ranks(*(incident.diagnosis.report.get(key) for key in ("conclusion", "suspects")))
    fields = _fields(facts.headline, job.name, job.slug, findings, ranks)
    SearchEntry.objects.update_or_create(incident=incident, defaults=fields)


def search_entries_make(incidents: Iterable[Incident]) -> None:
    """Write the entries of incidents without evidence: their names and their jobs."""
    SearchEntry.objects.bulk_create(
        SearchEntry(incident=row, about=word_rules.entry([row.headline, row.job.name, row.job.slug]))
        for row in incidents
    )


def search_entries_rename(*, job: Job) -> int:
    """Update the job's name in the entries of its incidents; returns how many changed."""
    changed = []
    with transaction.atomic():
        for row in SearchEntry.objects.filter(incident__job=job).select_related("incident"):
            about = word_rules.entry([row.incident.headline, job.name, job.slug])
            if about != row.about:
                row.about = about
                changed.append(row)
        SearchEntry.objects.bulk_update(changed, ["about"], batch_size=BATCH_SIZE)
    return len(changed)


def search_entries_build(
    incidents: Any = Incident, findings: Any = Finding, entries: Any = SearchEntry
) -> Iterator[int]:
    """Write all entries again from the stored rows, in batches; yields the number written so far.

    The models are arguments, so that a migration can pass its own; reads only columns of migration 0001. Linear in
    findings, one batch in memory.
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
            *("pk", "headline", "job__name", "job__slug"),
            *("diagnosis__report__conclusion", "diagnosis__report__suspects"),
        )
        entries.objects.bulk_create(
            entries(
                incident_id=pk,
                **_fields(headline, name, slug, findings_by_incident.get(pk, []), _accused_ranks(*accused)),
            )
            for pk, headline, name, slug, *accused in heads
        )
        written += len(numbers)
        yield written


def _fields(
    headline: str, name: str, slug: str, findings: Iterable[tuple[Any, ...]], accused: Iterable[int]
) -> dict[str, str]:
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
        "about": word_rules.entry([headline, name, slug]),
        "said": word_rules.entry(texts),
        "places": word_rules.entry([*rank_words, *rules]),
    }


def _accused_ranks(conclusion: dict[str, Any] | None, suspects: list[dict[str, Any]] | None) -> list[int]:
    """The ranks that the conclusion accuses; for a report of version 1, its suspects."""
    if conclusion:
        return [row["rank"] for row in conclusion.get("fault") or [] if isinstance(row.get("rank"), int)]
    ranks: list[int] = []
    for suspect in suspects or []:
        if suspect.get("suspect", True):
            match = _RANK.search(str(suspect.get("entity") or "")) if suspect.get("kind") == "rank" else None
            ranks += [*([int(match[1])] if match else []), *(suspect.get("ranks") or [])]
    return ranks

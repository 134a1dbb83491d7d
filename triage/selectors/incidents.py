"""Incidents for the queue, the list and their own page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from ingest.models import Team, Upload, Watch
from triage.models import Incident
from triage.search import Query
from triage.selectors.access import visible_cluster_ids, visible_clusters
from triage.selectors.memory import cached_result
from triage.wording import number

PAGE_SIZE = 50
QUEUE_SIZE = 100
#: more is shown as "999+": an exact count costs more than it is worth
QUEUE_COUNT_LIMIT = 1000

#: sort name → (label, ordering)
SORTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "newest": ("newest first", ("-opened_at", "-id")),
    "oldest": ("oldest first", ("opened_at", "id")),
    "happened": ("latest failure first", ("-happened_at", "-id")),
    "cost": ("most GPU-hours lost first", (F("gpu_hours").desc(nulls_last=True), "-id")),
    "doubtful": ("least confident first", ("confidence", "-id")),
}
#: columns of a row of the queue or the list (``triage.templatetags.rows``), and of the order within a section
_ROW_FIELDS = (
    *("headline", "accused", "regressed_from", "standing_category", "symptom", "state"),
    *(
        "confidence",
        "opened_at",
        "gpu_hours",
        "node_count",
        "cluster_id",
        "is_imported",
        "job__slug",
        "job__name",
        "assignee__username",
    ),
)


@dataclass(frozen=True, slots=True)
class FacetValue:
    """One value of a facet: its count, and the queries of a click."""

    value: str
    count: int
    is_chosen: bool
    include: str
    exclude: str


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """What the list shows."""

    incidents: list[Incident]
    page: int
    query: Query
    has_next: bool
    #: None: not counted yet
    total: int | None
    facets: dict[str, list[FacetValue]] | None

    @property
    def matches(self) -> str:
        """The total as the page says it; uncounted, what is known of it."""
        return f"{number(self.last)}+" if self.total is None else number(self.total)

    @property
    def first(self) -> int:
        return (self.page - 1) * PAGE_SIZE + 1 if self.incidents else 0

    @property
    def last(self) -> int:
        return (self.page - 1) * PAGE_SIZE + len(self.incidents)


def incidents_visible_to(user: Any) -> QuerySet[Incident]:
    """Incidents of the clusters that the user may see, including withdrawn ones."""
    return Incident.objects.filter(cluster__in=visible_cluster_ids(user))


def incident_for(user: Any, number: int) -> Incident | None:
    """One incident with the data of its page's head; None if it does not exist for this person."""
    return (
        incidents_visible_to(user)
        .select_related("job__team", "job__cluster", "attempt__watch", "assignee", "diagnosis", "group")
        .defer("diagnosis__timeline", "diagnosis__input_digests", "attempt__watch__state")
        .annotate(is_alarmed=alarm_holds())
        .filter(pk=number)
        .first()
    )


def queue_incidents(user: Any, now: datetime) -> QuerySet[Incident]:
    """Incidents that await review and are not snoozed."""
    awake = Q(snoozed_until=None) | Q(snoozed_until__lte=now)
    return incidents_visible_to(user).filter(awake, state=Incident.State.AWAITING_REVIEW, is_withdrawn=False)


def queue_count(user: Any) -> str:
    """How many await review, for the navigation; empty for none. No query if cached."""
    now = timezone.now()
    count = cached_result(
        "queue",
        user=user,
        parts=(),
        now=now,
        compute=queue_incidents(user, now)[:QUEUE_COUNT_LIMIT].count,
    )
    return f"{QUEUE_COUNT_LIMIT - 1}+" if count == QUEUE_COUNT_LIMIT else str(count) if count else ""


def _as_rows(incidents: QuerySet[Incident]) -> QuerySet[Incident]:
    """Only the columns of a row: an incident has three dozen others."""
    return incidents.select_related("job", "assignee").only(*_ROW_FIELDS)


#: sections of the queue: title and maximum age
_SECTIONS = (("Last 24 hours", timedelta(days=1)), ("Last 7 days", timedelta(days=7)), ("Earlier", timedelta.max))
#: the title of those before them: their machines wait now
_ALARMED = "Running now, with an alarm"


def alarm_holds() -> Exists:
    """Whether an incident's attempt still runs and has an alarm now; an expression to annotate
    incidents with as ``is_alarmed``.
    """
    growing = Upload.objects.filter(state=Upload.State.RECEIVING, size_bytes=None)
    of_attempt = growing.filter(attempt=OuterRef("attempt"))
    watches = Watch.objects.filter(Exists(of_attempt), attempt=OuterRef("attempt"))
    return Exists(watches.exclude(alarm=""))


def queue_key(incident: Any, now: datetime) -> tuple[Any, ...]:
    """The position in the queue of an incident with ``is_alarmed``: by its section, then cost, size
    and time, largest and newest first.
    """
    age = now - incident.opened_at
    section = next(n for n, (_, longest) in enumerate(_SECTIONS) if age <= longest)
    weight = (-(incident.gpu_hours or 0), -(incident.node_count or 0))
    return (not incident.is_alarmed, section, *weight, age, -incident.pk)


def queue_sections(user: Any, now: datetime) -> list[tuple[str, list[Incident]]]:
    """The newest that await review: of jobs that run with an alarm, then in sections by age; within
    a section the most expensive first.
    """
    waiting = _as_rows(queue_incidents(user, now)).annotate(is_alarmed=alarm_holds())
    rows = list(waiting.order_by("-opened_at", "-id")[:QUEUE_SIZE])
    rows.sort(key=lambda row: queue_key(row, now))
    sections = groupby(rows, key=lambda row: _title_of_section(*queue_key(row, now)[:2]))
    return [(title, list(inside)) for title, inside in sections]


def _title_of_section(is_calm: bool, section: int) -> str:
    return _SECTIONS[section][0] if is_calm else _ALARMED


def incident_page(
    user: Any, query: Query, *, sort: str = "newest", page: int = 1, is_counted: bool = False
) -> IncidentPage:
    """One page of the list. Total and facets come with it if it shows all matches, if they are known, or if it
    ``is_counted``: to count takes several times as long as to find one page.

    At most four queries for any size, and on SQLite one for each new text of the search.
    """
    visible = incidents_visible_to(user)
    matching = query.apply(visible, user=user)
    ordered = matching.order_by(*SORTS.get(sort, SORTS["newest"])[1]).values_list("pk", flat=True)

    def found_on(page: int) -> list[int]:
        return list(ordered[(page - 1) * PAGE_SIZE : page * PAGE_SIZE + 1])

    page = max(1, page)
    ids = found_on(page)
    is_whole, is_behind = page == 1 and len(ids) <= PAGE_SIZE, page > 1 and not ids
    counting = visible.filter(pk__in=ids) if is_whole else matching
    facets_and_total = cached_result(
        "facets",
        user=user,
        parts=(query,),
        is_personal=query.is_personal,
        now=timezone.now(),
        compute=lambda: (
            _facets(counting, query, visible_clusters(user)) if is_whole or is_behind or is_counted else None
        ),
    )
    facets, total = facets_and_total or (None, None)
    if is_behind and total:  # the last page instead of an empty one
        page = -(-total // PAGE_SIZE)
        ids = found_on(page)
    elif total is None and 0 < len(ids) <= PAGE_SIZE:
        total = (page - 1) * PAGE_SIZE + len(ids)
    rows = _as_rows(visible.filter(pk__in=ids[:PAGE_SIZE])).in_bulk() if ids else {}
    return IncidentPage([rows[pk] for pk in ids if pk in rows], page, query, len(ids) > PAGE_SIZE, total, facets)


def _facets(
    matching: QuerySet[Incident], query: Query, slugs: dict[int, str]
) -> tuple[dict[str, list[FacetValue]], int]:
    """All facets and the total from one grouping: there are far fewer combinations than incidents. ``slugs`` are those
    of the clusters.
    """
    # in the order of the index incident_facets, so that nothing is sorted; teams are named for the few results
    columns = ("cluster_id", "state", "standing_category", "symptom", "team_id")
    states: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    symptoms: Counter[str] = Counter()
    clusters: Counter[int] = Counter()
    teams: Counter[int | None] = Counter()
    for cluster, state, category, symptom, team, n in matching.order_by().values_list(*columns).annotate(n=Count("*")):
        clusters[cluster] += n
        states[state] += n
        categories[category] += n
        symptoms[symptom] += n
        teams[team] += n
    team_slugs = dict(Team.objects.filter(pk__in=[team for team in teams if team]).values_list("pk", "slug"))
    tallies: dict[str, list[tuple[str, int]]] = {
        "is": [(_STATE_WORDS[state], n) for state, n in states.items()],
        "category": [(value, n) for name, n in categories.items() for value in _category_values(name, query)],
        "symptom": list(symptoms.items()),
        "cluster": [(slugs.get(cluster, ""), n) for cluster, n in clusters.items()],
        "team": [(team_slugs.get(team or 0, ""), n) for team, n in teams.items()],
    }
    facets = {}
    for key, counts in tallies.items():
        tally: Counter[str] = Counter()
        for value, n in counts:
            tally[value] += n
        del tally[""]
        if tally:
            facets[key] = _facet_values(key, tally, query)
    return facets, states.total()


#: the value of ``is:`` for each state
_STATE_WORDS: dict[str, str] = {
    Incident.State.AWAITING_REVIEW: "unreviewed",
    **{state.value: state.value for state in Incident.State if state != Incident.State.AWAITING_REVIEW},
}


def _category_values(category: str, query: Query) -> Sequence[str]:
    """The top of the tree, and one level below each requested category."""
    parts = category.split(".")
    values = [parts[0]]
    for requested in query.values("category"):
        depth = requested.count(".") + 1
        if len(parts) > depth and ".".join(parts[:depth]) == requested:
            values.append(".".join(parts[: depth + 1]))
        if len(parts) >= depth > 1 and ".".join(parts[:depth]) == requested:
            values.append(requested)
    return list(dict.fromkeys(values))


def _facet_values(key: str, tally: dict[str, int], query: Query) -> list[FacetValue]:
    chosen = query.values(key)
    ordered = sorted(tally.items(), key=lambda item: (item[0] if key == "category" else "", -item[1], item[0]))
    return [
        FacetValue(
            value=value,
            count=count,
            is_chosen=value in chosen,
            include=str(query.without(key).plus(key, value) if value not in chosen else query.toggled(key, value)),
            exclude=str(query.plus(key, value, is_negated=True)),
        )
        for value, count in ordered[:30]
    ]

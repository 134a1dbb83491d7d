"""Keeps the demonstration apart: figures count it only on request, or if there are no other jobs."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from django.db.models import Q

from ingest.models import DEMONSTRATION, Job
from triage.search import Query
from triage.selectors.access import visible_clusters

#: the prefix of ids of generated jobs
PREFIX = "demo-"


@dataclass(frozen=True, slots=True)
class Notice:
    """A page's sentence about the demonstration, and the queries that select, exclude or include it
    (empty: no link).

    ``counted``: which of ``without``, ``alone`` and ``both`` the page shows, on pages with a switch
    between them.
    """

    words: str
    is_counted: bool
    alone: str = ""
    without: str = ""
    both: str = ""
    counted: str = ""


def has_demonstration(user: Any) -> bool:
    """Whether the site has a demonstration that the user may see. No query except that of the visible clusters."""
    return DEMONSTRATION in visible_clusters(user).values()


def has_own_jobs(user: Any) -> bool:
    """Whether the user sees a job outside the demonstration. One small query."""
    real = [pk for pk, slug in visible_clusters(user).items() if slug != DEMONSTRATION]
    return Job.objects.filter(cluster__in=real).exists()


def names_demonstration(query: Query) -> bool:
    """Whether the query names the demonstration's cluster."""
    return any(fnmatchcase(DEMONSTRATION, value.lower()) for value in query.values("cluster"))


def query_for_figures(query: Query, user: Any) -> Query:
    """The query for figures: with an explicit term on the demonstration.

    A query that names clusters is not changed. Else the demonstration is excluded; if the user sees only its jobs, only
    they are counted. One query if there is a demonstration, else none.
    """
    if not has_demonstration(user) or query.values("cluster"):
        return query
    return query.plus("cluster", DEMONSTRATION, is_negated=has_own_jobs(user))


def comparable_rows(cluster: str, field: str = "cluster__slug") -> Q:
    """Rows that may be shown beside those of the cluster with this slug, as similar or frequent: those of the
    demonstration stay among themselves. ``field`` leads to the slug.
    """
    made_up = Q(**{field: DEMONSTRATION})
    return made_up if cluster == DEMONSTRATION else ~made_up


def counted_clusters(user: Any, requested: str = "") -> list[int]:
    """The clusters whose machines a table counts, by the same rule; ``requested`` is the slug of a requested one."""
    slugs = visible_clusters(user)
    if requested:
        return [pk for pk, slug in slugs.items() if slug == requested]
    if has_demonstration(user) and not has_own_jobs(user):
        return [pk for pk, slug in slugs.items() if slug == DEMONSTRATION]
    return [pk for pk, slug in slugs.items() if slug != DEMONSTRATION]


def notice_of_figures(query: Query, user: Any) -> Notice | None:
    """For a page with figures of a settled query. None without a demonstration, or if it names other clusters."""
    requested = query.values("cluster")
    if not has_demonstration(user) or (requested and not names_demonstration(query)):
        return None
    base = query.without("cluster")
    made_up = base.plus("cluster", DEMONSTRATION)
    own = base.plus("cluster", DEMONSTRATION, is_negated=True)
    links = str(made_up), str(own), str(base.plus("cluster", "*"))
    if not requested:
        words = "Only your jobs are counted, not the demonstration."
        return Notice(words, False, *links, counted="without")
    if requested == {DEMONSTRATION}:
        about = "a made-up year on 400 nodes and some recordings"
        words = f"Only the demonstration is counted: {about}."
        return Notice(words, True, *links, counted="alone")
    words = "Your jobs and the demonstration are counted together."
    return Notice(words, True, *links, counted="both")


def notice_of_rows(user: Any, rows: int, query: Query | None = None) -> Notice | None:
    """For a list with ``rows`` rows of the demonstration, and its query; None without such rows."""
    if not rows or not has_demonstration(user):
        return None
    sentence = (
        "1 row here is a recording or made up." if rows == 1 else f"{rows:,} rows here are recordings or made up."
    )
    without = "" if query is None else str(query.without("cluster").plus("cluster", DEMONSTRATION, is_negated=True))
    return Notice(sentence, True, without=without)


def notice_of_machines(user: Any, clusters: list[int], requested: str) -> Notice | None:
    """For a table of the machines of ``clusters``; ``requested`` is the requested one."""
    if not has_demonstration(user):
        return None
    if DEMONSTRATION in {visible_clusters(user)[pk] for pk in clusters}:
        return Notice("Made-up machines and those of some recordings, none of your own.", True)
    return None if requested else Notice("The demonstration is not counted here.", False, alone=DEMONSTRATION)


def notice_of_job(job: Job) -> Notice | None:
    """For a page about one job, or an incident of it."""
    if job.cluster.slug != DEMONSTRATION:
        return None
    if job.slug.startswith(PREFIX):
        return Notice("Made up, with no evidence behind it.", True)
    return Notice("A recording of a small run. Most of them have a real fault.", True)

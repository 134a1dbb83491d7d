"""People, teams and clusters, for their own pages."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.db.models import Count, Prefetch, Q, QuerySet

from ingest.models import Cluster, Team, Token
from ingest.roles import ABILITIES
from triage.models import Activity

PAGE_SIZE = 100
MAX_ACTS = 20


class PersonRow(NamedTuple):
    """Somebody who signs in, with the names of their roles."""

    person: Any
    roles: list[str]


class PeoplePage(NamedTuple):
    rows: list[PersonRow]
    total: int


def _people() -> QuerySet[Any]:
    """Those who sign in; service accounts have a page of their own."""
    people = get_user_model().objects.filter(service_account=None)
    return people.prefetch_related("groups", "teams").order_by("username")


def _row(person: Any) -> PersonRow:
    names = {group.name for group in person.groups.all()} & ABILITIES.keys()
    admin = {"admin"} if person.is_superuser else set()
    return PersonRow(person, sorted(names | admin))


def people_page(*, find: str = "", page: int = 1) -> PeoplePage:
    """One page of people by name; with ``find`` those whose name or address has it. Four queries."""
    wanted = Q(username__icontains=find) | Q(email__icontains=find) if find else Q()
    found = _people().filter(wanted)
    page_rows = found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return PeoplePage([_row(person) for person in page_rows], found.count())


def person_of(username: str) -> PersonRow | None:
    """The person of this name, with roles and teams; None if there is none. Three queries."""
    person = _people().filter(username=username).first()
    return None if person is None else _row(person)


def tokens_of(person: Any) -> QuerySet[Token]:
    """All tokens of a person, the newest first."""
    return Token.objects.filter(user=person).order_by("-created_at")


def teams_with_people() -> QuerySet[Team]:
    """All teams with their clusters and people. Three queries."""
    members = get_user_model().objects.order_by("username")
    return Team.objects.prefetch_related("clusters", Prefetch("members", members))


def clusters_with_teams() -> QuerySet[Cluster]:
    """All clusters with their teams, and how many jobs and nodes they have. Two queries."""
    jobs, nodes = Count("jobs", distinct=True), Count("nodes", distinct=True)
    return Cluster.objects.annotate(job_count=jobs, node_count=nodes).prefetch_related("teams")


def latest_acts() -> QuerySet[Activity]:
    """What was changed here last, by whom. One query."""
    acts = Activity.objects.filter(kind="set_up").select_related("actor")
    return acts.order_by("-pk")[:MAX_ACTS]

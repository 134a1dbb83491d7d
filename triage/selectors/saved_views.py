"""The saved views that a person may use."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Case, Exists, IntegerField, Q, QuerySet, Value, When

from ingest.models import Team
from ingest.roles import can
from triage.models import SavedView


def views_usable_by(user: Any) -> QuerySet[Any]:
    """The user's own, and shared ones of team-mates: a query may name nodes and jobs.

    People without a team share with each other, administrators with everybody; an administrator sees every shared view.
    """
    shared = SavedView.objects.filter(is_shared=True)
    if not can(user, "administer"):
        people, teams = get_user_model().objects, Team.objects.filter(members=user)
        mates = people.filter(Q(teams__in=teams) | Q(~Exists(teams), teams=None))
        admins = people.filter(Q(is_superuser=True) | Q(groups__name="admin"))
        shared = shared.filter(Q(owner__in=mates.values("pk")) | Q(owner__in=admins.values("pk")))
    own_first = Case(When(owner=user, then=Value(0)), default=Value(1), output_field=IntegerField())
    usable = SavedView.objects.filter(Q(owner=user) | Q(pk__in=shared.order_by().values("pk")))
    return usable.annotate(own_first=own_first)


def saved_views(user: Any) -> list[SavedView]:
    """The user's own and the shared ones, by name."""
    return list(views_usable_by(user).select_related("owner").order_by("name", "own_first", "pk")[:100])


def saved_view_query(user: Any, slug: str) -> str | None:
    """The query of ``?filter=slug``, or None if this user has none; the user's own comes first."""
    view = views_usable_by(user).filter(slug=slug).order_by("own_first", "pk").first()
    return view.query if view else None

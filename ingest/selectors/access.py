"""Who may see which evidence. Every page, endpoint and count uses these checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from ingest.models import Cluster, Job, Team
from ingest.roles import can


def clusters_visible_to(user: Any) -> QuerySet[Cluster]:
    """Clusters without teams, which are open to all, and clusters of the user's teams. Administrators see every
    cluster.
    """
    if not user.is_authenticated:
        return Cluster.objects.none()
    if can(user, "administer"):
        return Cluster.objects.all()
    return Cluster.objects.filter(
        Q(teams=None) | Q(pk__in=Cluster.objects.filter(teams__members=user).values("pk"))
    ).distinct()


def people_who_see(clusters: Iterable[int]) -> QuerySet[Any]:
    """Everybody who may sign in and see all of these clusters, by name: the reverse of clusters_visible_to."""
    people = get_user_model().objects.filter(is_active=True)
    member = Q()
    for cluster in Cluster.objects.filter(pk__in=set(clusters)).exclude(teams=None).order_by("pk").distinct():
        member &= Q(pk__in=Team.members.through.objects.filter(team__clusters=cluster).values("user"))
    admins = Q(is_superuser=True) | Q(groups__name="admin")
    return (people.filter(member | admins) if member else people).distinct().order_by("username")


def teams_of(user: Any) -> QuerySet[Team]:
    """The teams that the user may give a job: their own; for administrators all."""
    return Team.objects.all() if can(user, "administer") else Team.objects.filter(members=user)


def jobs_visible_to(user: Any) -> QuerySet[Job]:
    """Jobs of the clusters that the user may see. One query with a subselect."""
    return Job.objects.filter(cluster__in=clusters_visible_to(user).order_by().values("pk"))

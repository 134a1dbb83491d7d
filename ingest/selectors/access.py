"""Who may see which evidence: object checks live here, so that every page, endpoint and count has the same ones."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from ingest.models import Cluster, Job, Team
from ingest.roles import can


def clusters_visible_to(user: Any) -> QuerySet[Cluster]:
    """Clusters open to all (those without teams) and those of the user's teams; an administrator sees every one."""
    if not user.is_authenticated:
        return Cluster.objects.none()
    if can(user, "administer"):
        return Cluster.objects.all()
    return Cluster.objects.filter(
        Q(teams=None) | Q(pk__in=Cluster.objects.filter(teams__members=user).values("pk"))
    ).distinct()


def teams_of(user: Any) -> QuerySet[Team]:
    """The teams that the user may name as a job's: their own; an administrator's are all."""
    return Team.objects.all() if can(user, "administer") else Team.objects.filter(members=user)


def jobs_visible_to(user: Any) -> QuerySet[Job]:
    """Jobs of the clusters that the user may see. One query, as a subselect."""
    return Job.objects.filter(cluster__in=clusters_visible_to(user).order_by().values("pk"))

"""Who may see which evidence. Every page, endpoint and count uses these checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from ingest.models import Cluster, Job, Team
from ingest.roles import can

#: between the name of a team's cluster and the rest of a job's id; ids made from names never have two dashes in a row
CLUSTER_SEPARATOR = "--"


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


def job_named(user: Any, slug: str) -> Job | None:
    """The job with this id that the user may see. The id may lack the name of a cluster of their teams, which the site
    put before it; of two such jobs neither is meant. Two queries.
    """
    own = Cluster.objects.none() if CLUSTER_SEPARATOR in slug else Cluster.objects.filter(teams__members=user)
    names = {f"{cluster}{CLUSTER_SEPARATOR}{slug}" for cluster in own.values_list("slug", flat=True)}
    jobs = jobs_visible_to(user).select_related("cluster", "team").filter(slug__in={slug, *names})
    by_slug = {job.slug: job for job in jobs}
    own_jobs = [job for name, job in by_slug.items() if name in names]
    return own_jobs[0] if len(own_jobs) == 1 else by_slug.get(slug)

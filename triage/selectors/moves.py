"""Where jobs are now that were moved to another cluster, which changed their ids."""

from __future__ import annotations

from typing import Any

from ingest.selectors import CLUSTER_SEPARATOR, clusters_visible_to, jobs_visible_to
from triage.models import Activity


def slug_after_move(user: Any, slug: str) -> str:
    """The present id of the job that had this one until it was moved; empty if there is none that the person sees, or
    if another job has this id now.

    Three queries: of the jobs that may have this name in the person's clusters, the latest that was moved from there.
    """
    if jobs_visible_to(user).filter(slug=slug).exists():
        return ""
    name = slug.partition(CLUSTER_SEPARATOR)[2] or slug
    clusters = clusters_visible_to(user).values_list("slug", flat=True)
    names = {name, *(f"{cluster}{CLUSTER_SEPARATOR}{name}" for cluster in clusters)}
    jobs = jobs_visible_to(user).filter(slug__in=names).order_by().values("pk")
    acts = Activity.objects.filter(job__in=jobs, kind="moved", data__former_id=slug).select_related("job")
    act = acts.order_by("-at").first()
    return act.job.slug if act is not None and act.job is not None else ""

"""Moves a job with everything that follows from it to another cluster, and back."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.models import DEMONSTRATION, Cluster, Job
from ingest.refusals import Refused
from ingest.roles import can
from ingest.selectors import CLUSTER_SEPARATOR, jobs_visible_to
from ingest.services.clusters import cluster_choose
from ingest.services.jobs import slug_within
from triage.models import Activity, Diagnosis
from triage.services.deriving import rows_derive

#: the kind of the activity
MOVED = "moved"


def job_move(*, job: Job, cluster: str, by: Any, undoes: uuid.UUID | None = None) -> tuple[Job, uuid.UUID]:
    """Move the job to the cluster of this name; returns it, and the id of the act for :func:`job_move_undo`.

    Its id gets the new cluster's name, its incidents, nodes and costs are written again from the newest diagnoses, its
    decisions stay. Cost: reads one report of each attempt.

    Raises :class:`Refused`: (403) ``by`` is no manager, (422) no cluster that they may use, (409) an id in use there.
    """
    if not can(by, "move"):
        raise Refused("Only managers move jobs to other clusters: ask one.", code="not_yours", status=403)
    if job.cluster.slug == DEMONSTRATION:
        raise Refused("Jobs of the demonstration stay in its cluster.", code="invalid", fields={"cluster": "It stays."})
    target = cluster_choose(user=by, name=cluster)
    request_id = uuid.uuid4()
    with transaction.atomic():
        job = lock_rows(Job.objects.select_related("cluster", "team")).get(pk=job.pk)
        if job.cluster_id == target.pk:
            sentence = f"The job is in {target.slug} already: name another cluster."
            raise Refused(sentence, code="invalid", fields={"cluster": sentence})
        former_cluster, former_slug = job.cluster, job.slug
        _cluster_set(job, target)
        _rows_follow(job)
        data = {"before": former_cluster.slug, "after": target.slug, "former_id": former_slug, "id": job.slug}
        more = {"undoes": str(undoes)} if undoes else {}
        Activity.objects.create(job=job, kind=MOVED, actor=by, request_id=request_id, data={**data, **more})
    return job, request_id


def job_move_undo(*, request_id: uuid.UUID, by: Any) -> Job | None:
    """Move the job back, unless it was moved again since then; returns it, or None if there is nothing to undo."""
    acts = Activity.objects.filter(kind=MOVED, request_id=request_id, actor=by)
    act = acts.filter(job__in=jobs_visible_to(by).order_by().values("pk")).select_related("job__cluster").first()
    if act is None or act.job is None or act.job.cluster.slug != act.data["after"]:
        return None
    return job_move(job=act.job, cluster=act.data["before"], by=by, undoes=request_id)[0]


def _cluster_set(job: Job, target: Cluster) -> None:
    """Set the cluster and the id, which begins with the name of a team's cluster."""
    name = job.slug.removeprefix(f"{job.cluster.slug}{CLUSTER_SEPARATOR}")
    job.cluster, job.slug = target, slug_within(target, name)
    if Job.objects.filter(slug=job.slug).exclude(pk=job.pk).exists():
        raise _id_in_use(job.slug)
    try:
        with transaction.atomic():
            job.save(update_fields=["cluster", "slug"])
    except IntegrityError as error:  # somebody took it just now
        raise _id_in_use(job.slug) from error


def _id_in_use(slug: str) -> Refused:
    sentence = f"The id “{slug}” is in use by another job of that cluster: rename or delete that one first."
    return Refused(sentence, code="slug_in_use", status=409, fields={"cluster": sentence})


def _rows_follow(job: Job) -> None:
    """Write again what depends on the cluster: nodes, costs, groups, regressions. Imported incidents only follow."""
    now = timezone.now()
    for incident in job.incidents.all():
        incident.cluster, incident.group, incident.regressed_from = job.cluster, None, None
        incident.save(update_fields=["cluster", "group", "regressed_from"])
    for attempt in job.attempts.order_by("number"):
        newest = Diagnosis.objects.filter(attempt=attempt).order_by("-revision").select_related("attempt").first()
        if newest is not None:
            rows_derive(diagnosis=newest, job=job, report=newest.whole_report, now=now)

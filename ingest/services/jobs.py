"""Jobs and their attempts: create, describe, change."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.text import slugify

from ingest.models import DEMONSTRATION, Attempt, Cluster, Job, Outcome, Team, Upload
from ingest.models.outcome import ENDS, standing_outcome
from ingest.refusals import Refused
from ingest.selectors import CLUSTER_SEPARATOR, job_named
from ingest.services.clusters import cluster_choose

_MAX_SLUG_CHARS = 120
#: a job that is followed, pushed or watched has news more often
_SILENT = timedelta(days=7)


def job_create(
    *, name: str, user: Any = None, slug: str = "", cluster: Cluster | str | None = None, **fields: Any
) -> Job:
    """A new job with its first attempt. Without a ``slug``, one is made from the name, unique by a number.

    In a cluster of teams the slug begins with the cluster's slug, as in ``h100--night-run``. All jobs share one set of
    slugs, and a refused slug must not reveal a job that the caller may not see.

    ``cluster``: a cluster that ``user`` may use, or the name of one; if left out, :func:`cluster_choose` decides.
    Without a ``team``, it is the only team of ``user``, if they have exactly one.

    Raises :class:`Refused`: (409) for a slug in use, (422) for an empty name or an unknown time zone.
    """
    name = " ".join(name.split())
    if not name:
        raise Refused("A job needs a name: give one.", code="invalid", fields={"name": "Give the job a name."})
    zone = fields.get("time_zone") or "UTC"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        sentence = f"“{zone}” is not a time zone: use a name such as Europe/Berlin, or UTC."
        raise Refused(sentence, code="invalid", fields={"time_zone": sentence}) from error
    fields["time_zone"] = zone
    if not isinstance(cluster, Cluster):
        cluster = cluster_choose(user=user, name=cluster or "", team=fields.get("team"))
    if not fields.get("team"):
        fields["team"] = _only_team(user)
    fields |= _as_stated(Job(), fields)
    candidates = [slug_within(cluster, slug)] if slug else _slugs(cluster, name)
    for candidate in candidates:
        try:
            with transaction.atomic():
                job = Job.objects.create(slug=candidate, name=name[:200], cluster=cluster, created_by=user, **fields)
                Attempt.objects.create(job=job, number=0)
                return job
        except IntegrityError:
            if not Job.objects.filter(slug=candidate).exists():
                raise
    sentence = f"The id “{candidates[0]}” is in use by another job: choose another, or add the evidence to that job."
    other = job_named(user, candidates[0]) if user is not None else None
    in_use = other.slug if other else ""
    raise Refused(sentence, code="slug_in_use", status=409, fields={"slug": sentence}, job=in_use)


def _only_team(user: Any) -> Team | None:
    """The team of a person with exactly one team; else None."""
    teams = list(Team.objects.filter(members=user)[:2]) if user is not None else []
    return teams[0] if len(teams) == 1 else None


def job_put(*, user: Any, slug: str, cluster: str = "", name: str = "", **fields: Any) -> tuple[Job, bool]:
    """The job with this id in the cluster that :func:`cluster_choose` gives, made or changed, and whether it is new.

    Where no cluster can be chosen, a job that ``user`` may see is changed. Raises what :func:`job_create` raises.
    """
    try:
        place = cluster_choose(user=user, name=cluster, team=fields.get("team"))
    except Refused:
        job = None if cluster else job_named(user, slug)
        if job is None:
            raise
    else:
        slug = slug_within(place, slug)
        job = Job.objects.select_related("cluster", "team").filter(cluster=place, slug=slug).first()
        if job is None:
            try:
                return job_create(name=name or slug, user=user, slug=slug, cluster=place, **fields), True
            except Refused as refusal:  # another request may have made it just now
                job = Job.objects.filter(cluster=place, slug=slug).first() if refusal.code == "slug_in_use" else None
                if job is None:
                    raise
    if fields.get("time_zone", job.time_zone) != job.time_zone:
        sentence = "The time zone was used to read the evidence: it stays as it is."
        raise Refused(sentence, code="invalid", fields={"time_zone": sentence})
    return job_change(job=job, **({"name": name} if name else {}), **fields), False


def job_change(*, job: Job, **fields: Any) -> Job:
    """Change a job's description. Evidence is not read again; the next diagnosis uses the description.

    A new outcome counts at once, and makes a job with evidence due for a diagnosis. A job that was said to run and now
    is said to have ended has ended now, unless its end is stated.
    """
    stated = fields.get("declared_outcome", job.declared_outcome)
    is_new_outcome = stated != job.declared_outcome
    is_ending = is_new_outcome and job.declared_outcome == Outcome.RUNNING and stated in ENDS
    if is_ending and not (fields.get("ended_at") or job.ended_at):
        fields["ended_at"] = timezone.now()
    fields |= _as_stated(job, fields)
    if is_new_outcome and job.revision:
        fields["revision"] = F("revision") + 1
    for name, value in fields.items():
        setattr(job, name, value)
    job.save(update_fields=list(fields))
    return job


def silent_jobs_end(now: datetime) -> None:
    """End the running jobs of which nothing came for a week: nobody knows how they ended. New evidence, or a statement,
    decides again. One query.
    """
    growing = Upload.objects.filter(state=Upload.State.RECEIVING).values("job")
    long_ago = now - _SILENT
    is_silent = Q(evidence_changed_at__lt=long_ago) | Q(evidence_changed_at=None, created_at__lt=long_ago)
    running = Job.objects.filter(is_silent, outcome=Outcome.RUNNING).exclude(cluster__slug=DEMONSTRATION)
    running.exclude(pk__in=growing).update(outcome=Outcome.UNKNOWN)


def _as_stated(job: Job, fields: dict[str, Any]) -> dict[str, Any]:
    """The columns that follow from what people state in ``fields``, in addition to them."""
    more: dict[str, Any] = {}
    if "framework" in fields:
        more["declared_framework"] = fields["framework"]
    if "declared_outcome" in fields:
        more["outcome"] = standing_outcome(fields["declared_outcome"], job.found_outcome)
    return more


def attempt_get(*, job: Job, number: int = 0) -> Attempt:
    """The attempt with this number, created when evidence first names it."""
    if not 0 <= number <= 100_000:
        raise Refused(f"Attempt {number} is not a number from 0 to 100,000: send a smaller one.", code="invalid")
    return Attempt.objects.get_or_create(job=job, number=number)[0]


def slug_within(cluster: Cluster, slug: str) -> str:
    """The stored slug. Only slugs of jobs in a team's cluster begin with the cluster's slug."""
    if cluster.teams.exists():
        prefix = f"{cluster.slug}{CLUSTER_SEPARATOR}"
        return slug if slug.startswith(prefix) else f"{prefix}{slug}"[:_MAX_SLUG_CHARS]
    if CLUSTER_SEPARATOR in slug:
        sentence = (
            f"The id “{slug}” holds “{CLUSTER_SEPARATOR}”, which separates the cluster's name from the rest: remove it."
        )
        raise Refused(sentence, code="invalid", fields={"slug": sentence})
    return slug


def _slugs(cluster: Cluster, name: str) -> list[str]:
    """Slugs to try in order: from the name, then with numbers."""
    base = slug_within(cluster, slugify(name)[:100] or "job")[: _MAX_SLUG_CHARS - 10]
    used = set(Job.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    free = (f"{base}-{n}" for n in range(2, len(used) + 100))
    return [slug for slug in (base, *free) if slug not in used][:20]

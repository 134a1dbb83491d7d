"""Rows for tests, one function per entity: state what the test needs, the rest gets defaults."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group as Role
from django.utils import timezone
from rest_framework.test import APIClient

from ingest.models import Attempt, Cluster, Job, Run, Team
from ingest.services import Work, token_create
from triage.domain.report_facts import week_of
from triage.models import Diagnosis, Incident, SearchEntry, Suspect
from triage.search import word_rules

_count = itertools.count(1)


def make_user(username: str = "", *roles: str, **fields: Any) -> Any:
    """A user in the groups ``roles`` (viewer, engineer, manager, admin)."""
    user = get_user_model().objects.create_user(username or f"user{next(_count)}", password="right horse", **fields)
    if roles:
        user.groups.add(*(Role.objects.get_or_create(name=role)[0] for role in roles))
    return user


def make_cluster(slug: str = "default", **fields: Any) -> Cluster:
    return Cluster.objects.get_or_create(slug=slug, defaults=fields)[0]


def make_team(slug: str, *, members: Any = (), clusters: Any = ()) -> Team:
    team = Team.objects.create(slug=slug)
    team.members.set(members)
    team.clusters.set(clusters)
    return team


def work_on(job: Job) -> Work:
    """The work object of a run that diagnoses the job."""
    return Work(Run.objects.create(job=job, kind=Run.Kind.DIAGNOSE, state=Run.State.RUNNING))


def make_job(slug: str = "", **fields: Any) -> Job:
    slug = slug or f"job-{next(_count)}"
    fields.setdefault("cluster", None)
    fields["cluster"] = fields["cluster"] or make_cluster()
    return Job.objects.create(slug=slug, name=fields.pop("name", slug), **fields)


def make_attempt(job: Job | None = None, **fields: Any) -> Attempt:
    if job is None:  # then it has no attempt yet
        return Attempt.objects.create(job=make_job(), number=fields.pop("number", 0), **fields)
    return Attempt.objects.get_or_create(job=job, number=fields.pop("number", 0), defaults=fields)[0]


def make_incident(
    job: Job | None = None,
    *,
    category: str = "hardware.gpu.off_bus",
    accused: tuple[str, ...] = (),
    at: datetime | None = None,
    report: dict[str, Any] | None = None,
    **fields: Any,
) -> Incident:
    """An incident with its diagnosis and its accused nodes; ``said`` are its searchable lines."""
    given = fields.pop("attempt", None)
    attempt = given or make_attempt(job)
    is_new = given is None and job is None  # nothing to ask for: most rows of tests are made here
    ordinal = fields.pop("ordinal") if "ordinal" in fields else 0 if is_new else attempt.incidents.count()
    diagnosis = attempt.diagnoses.order_by("-revision").first() if report is None and not is_new else None
    diagnosis = diagnosis or Diagnosis.objects.create(
        job=attempt.job,
        attempt=attempt,
        revision=1 if is_new else attempt.diagnoses.count() + 1,
        engine="test",
        report=report or {},
    )
    fields.setdefault("headline", f"{accused[0] if accused else 'Something'} failed")
    fields.setdefault("standing_category", category)
    said = fields.pop("said", ())
    happened_at = at or timezone.now()
    fields.setdefault("week", week_of(happened_at))
    incident = Incident.objects.create(
        job=attempt.job,
        attempt=attempt,
        ordinal=ordinal,
        cluster=attempt.job.cluster,
        team=attempt.job.team,
        diagnosis=diagnosis,
        category=category,
        accused=list(accused),
        happened_at=happened_at,
        **fields,
    )
    about = word_rules.entry([incident.headline, attempt.job.name, attempt.job.slug])
    SearchEntry.objects.create(incident=incident, about=about, said=word_rules.entry(said))
    nodes = attempt.job.cluster.nodes
    known = {node.name: node for node in nodes.filter(name__in=accused)} if accused else {}
    for name in accused:
        if name not in known:
            known[name] = nodes.create(name=name)
    Suspect.objects.bulk_create(
        Suspect(
            incident=incident, position=k, entity=name, kind="node", node=known[name], score=0.9, reasons=["because"]
        )
        for k, name in enumerate(accused)
    )
    return incident


def api_of(user: Any, *scopes: str) -> APIClient:
    """A client of the API with a token of the user."""
    client = APIClient()
    _, secret = token_create(user=user, name="test", scopes=list(scopes))
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client

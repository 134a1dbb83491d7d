"""The demonstration: a separate cluster with recordings and a year of generated history, loaded and removed as a
whole.

The history is stored as real incidents, so that every page shows it. Its own cluster keeps it out of real figures
(``selectors.demonstration``).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F, OuterRef, Subquery
from django.utils import timezone

from ingest.models import DEMONSTRATION, Attempt, Cluster, Job, Node
from ingest.services import cluster_delete
from triage.diagnosis_tables import key_of, tables_delete
from triage.domain.report_facts import week_of
from triage.models import Activity, Decision, Diagnosis, Incident, Suspect
from triage.selectors.demonstration import PREFIX
from triage.services.costing import costs_set
from triage.services.indexing import search_entries_make
from triage.services.synthetic_history import NODES, STEP_S, Failure, Launch, SyntheticJob, history

ENGINE = "made up"
#: author of the generated decisions; nobody can sign in as this user
SPEAKER = "demonstration"
LOADED, REMOVED = "demonstration_loaded", "demonstration_removed"


def demonstration_cluster() -> Cluster:
    """The cluster of the demonstration, created on first use."""
    return Cluster.objects.get_or_create(slug=DEMONSTRATION, defaults={"title": "Demonstration"})[0]


def was_removed() -> bool:
    """Whether somebody removed it and nobody requested it again."""
    last = Activity.objects.filter(kind__in=(LOADED, REMOVED)).order_by("-pk").values_list("kind", flat=True).first()
    return last == REMOVED


@transaction.atomic
def history_load(*, now: datetime | None = None) -> int:
    """Write the year that ends now; returns its number of incidents, 0 if it is loaded already.

    Equal hours give equal histories. O(rows), about a second for a few hundred jobs and incidents.
    """
    now = (now or timezone.now()).replace(minute=0, second=0, microsecond=0)
    cluster = demonstration_cluster()
    if Job.objects.filter(cluster=cluster, slug__startswith=PREFIX).exists():
        return 0
    Node.objects.bulk_create([Node(cluster=cluster, name=name) for name in NODES], ignore_conflicts=True)
    nodes = {node.name: node for node in cluster.nodes.all()}
    synthetic = list(history(now))
    jobs = Job.objects.bulk_create(_job(plan, cluster) for plan in synthetic)
    launches = list(itertools.chain.from_iterable(plan.launches for plan in synthetic))
    attempts = Attempt.objects.bulk_create(
        _attempt(job, number, launch, nodes=plan.park.nodes)
        for job, plan in zip(jobs, synthetic, strict=True)
        for number, launch in enumerate(plan.launches)
    )
    diagnoses = Diagnosis.objects.bulk_create(map(_diagnosis, attempts, launches))
    diagnosed = zip(diagnoses, launches, strict=True)
    failed = [(diagnosis, launch.failure) for diagnosis, launch in diagnosed if launch.failure]
    unsaved = [_incident(diagnosis, failure) for diagnosis, failure in failed]
    _costs_set(attempts, unsaved)
    incidents = Incident.objects.bulk_create(unsaved)
    failures = [(incident, failure) for incident, (_, failure) in zip(incidents, failed, strict=True)]
    Suspect.objects.bulk_create(
        _suspect(incident, failure, nodes[failure.node]) for incident, failure in failures if failure.kind.is_of_a_node
    )
    search_entries_make(incidents)
    speaker = get_user_model().objects.get_or_create(username=SPEAKER, defaults={"is_active": False})[0]
    Decision.objects.bulk_create(row for failure in failures for row in _decisions(*failure, speaker))
    _set_times(cluster)
    Activity.objects.create(kind=LOADED, job=jobs[0], data={"after": len(incidents)})
    return len(incidents)


def demonstration_remove(*, user: Any = None) -> bool:
    """Remove the whole demonstration with all decisions on it; it stays away after a restart.

    Returns whether there was one. Work on its recordings is cancelled.

    Raises:
        Refused: (409) while evidence of one of its recordings arrives.
    """
    with transaction.atomic():
        cluster = Cluster.objects.filter(slug=DEMONSTRATION).first()
        keys = [key_of(row) for row in Diagnosis.objects.filter(job__cluster=cluster).exclude(engine=ENGINE).only("pk")]
        if cluster is not None:
            cluster_delete(cluster=cluster)
            get_user_model().objects.filter(username=SPEAKER, is_active=False).delete()
        Activity.objects.create(kind=REMOVED, actor=user)
        transaction.on_commit(lambda: tables_delete(keys))
    return cluster is not None


def _job(synthetic: SyntheticJob, cluster: Cluster) -> Job:
    first, last = synthetic.launches[0], synthetic.launches[-1]
    outcome = "succeeded" if synthetic.is_over else "running"
    return Job(
        slug=f"{PREFIX}{synthetic.park.model}-{synthetic.number}",
        name=f"Demonstration: {synthetic.park.model}, run {synthetic.number}",
        family=f"{PREFIX}{synthetic.park.model}",
        framework=synthetic.park.framework,
        model=synthetic.park.model,
        cluster=cluster,
        started_at=first.started_at,
        ended_at=last.ended_at,
        outcome=outcome,
        comment="Generated for the demonstration: it has no evidence.",
    )


def _attempt(job: Job, number: int, launch: Launch, *, nodes: int) -> Attempt:
    ended = launch.ended_at
    return Attempt(
        job=job,
        number=number,
        started_at=launch.started_at,
        ended_at=ended,
        ran_s=(ended - launch.started_at).total_seconds() if ended else None,
        outcome="failed" if launch.failure else "succeeded" if ended else "running",
        node_count=nodes,
        gpus=nodes * job.cluster.gpus_per_node,
        gpus_from="stated",
        training_at=launch.trains_at,
        trained_until=launch.last_step_at,
        first_step=launch.first,
        last_step=launch.last,
    )


def _costs_set(attempts: list[Attempt], incidents: list[Incident]) -> None:
    """Set the costs of the incidents, job by job."""
    by_job: dict[int, list[Incident]] = defaultdict(list)
    for incident in incidents:
        by_job[incident.job_id].append(incident)
    launches: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        launches[attempt.job_id].append(attempt)
    for job, failed in by_job.items():
        costs_set(failed[0].job, launches[job], failed)


def _diagnosis(attempt: Attempt, launch: Launch) -> Diagnosis:
    """A diagnosis with two iterations, from which the fleet's costs are computed."""
    headline = launch.failure.headline if launch.failure else "The attempt showed no failure."
    ends = ((launch.first, launch.trains_at), (launch.last, launch.last_step_at))
    rows = [{"n": n, "t": at.timestamp(), "seconds": STEP_S} for n, at in ends]
    return Diagnosis(
        job=attempt.job,
        attempt=attempt,
        revision=1,
        engine=ENGINE,
        report={"headline": headline, "job": {"gpus": attempt.gpus, "gpus_from": attempt.gpus_from}},
        timeline={"iterations": rows},
    )


def _incident(diagnosis: Diagnosis, failure: Failure) -> Incident:
    job, nodes, state = diagnosis.job, diagnosis.attempt.node_count or 0, Incident.State(failure.state)
    incident = Incident(
        job=job,
        attempt=diagnosis.attempt,
        cluster=job.cluster,
        diagnosis=diagnosis,
        state=state,
        headline=failure.headline,
        category=failure.machine_category,
        confidence=failure.confidence,
        standing_category="unknown" if state == Incident.State.REJECTED else _standing_category(failure),
        symptom=failure.kind.symptom,
        stage=failure.kind.stage,
        iteration=failure.step,
        node_count=nodes,
        accused=[failure.node] if failure.kind.is_of_a_node else [],
        happened_at=failure.at,
        week=week_of(failure.at),
        opened_at=diagnosis.attempt.ended_at or failure.at,
        lost_s=failure.detected_s,
        detected_s=failure.detected_s,
        reviewed_at=failure.judged_at,
    )
    if state == Incident.State.RESOLVED:
        incident.set_resolved(failure.resolved_at or incident.opened_at)
    return incident


def _standing_category(failure: Failure) -> str:
    is_corrected = failure.state == Incident.State.CORRECTED
    return failure.kind.category if is_corrected else failure.machine_category


def _decision_word(failure: Failure) -> str:
    return {"corrected": "correct", "rejected": "reject", "inconclusive": "inconclusive"}.get(failure.state, "confirm")


def _is_confirmed(failure: Failure) -> bool:
    """Whether somebody confirmed the accused node."""
    is_asked = failure.kind.is_of_a_node and failure.is_suspect_judged and failure.judged_at is not None
    return is_asked and _decision_word(failure) in {"correct", "confirm"}


def _suspect(incident: Incident, failure: Failure, node: Node) -> Suspect:
    return Suspect(
        incident=incident,
        position=0,
        entity=node.name,
        kind="node",
        node=node,
        score=failure.confidence,
        reasons=[failure.reason],
        sources=["logs"],
        word="confirm" if _is_confirmed(failure) else "",
    )


def _decisions(incident: Incident, failure: Failure, speaker: Any) -> list[Decision]:
    """Decisions on the category and, if somebody judged it, on the suspect."""
    word = _decision_word(failure)
    if failure.judged_at is None:
        return []
    common = {"incident": incident, "diagnosis": incident.diagnosis, "made_by": speaker}
    value = incident.standing_category if word in {"correct", "confirm"} else ""
    words = [Decision(**common, claim="category", word=word, machine_value=incident.category, value=value)]
    if _is_confirmed(failure):
        node = failure.node
        words.append(Decision(**common, claim="suspect", subject=node, word="confirm", machine_value=node, value=node))
    return words


def _set_times(cluster: Cluster) -> None:
    """Set the times that rows usually take from the clock: jobs and diagnoses get the age of their events."""
    judged = Incident.objects.filter(pk=OuterRef("incident")).values("reviewed_at")
    ended = Attempt.objects.filter(pk=OuterRef("attempt")).values("ended_at")
    synthetic = Job.objects.filter(cluster=cluster, slug__startswith=PREFIX)
    synthetic.update(created_at=F("started_at"))
    Diagnosis.objects.filter(engine=ENGINE, attempt__ended_at__isnull=False).update(created_at=Subquery(ended))
    Decision.objects.filter(incident__cluster=cluster, made_by__username=SPEAKER).update(made_at=Subquery(judged))

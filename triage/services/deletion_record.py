"""Records the deletion of a job: one activity row remains."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db import transaction

from ingest.models import Job
from ingest.refusals import Refused
from triage.diagnosis_tables import key_of, tables_delete
from triage.models import Activity, Diagnosis, Incident
from triage.selectors.deletion import DELETED, deletion_refusal, losses_of
from triage.services.reviewing import MAX_REASON


def deletion_record(*, job: Job, user: Any, reason: str) -> None:
    """Refuse or record the deletion of a job. Called in its transaction, before anything is deleted.

    Raises:
        Refused: (403) this person may not delete the job.
    """
    if refusal := deletion_refusal(user, job):
        raise Refused(refusal, code="not_yours", status=403)
    numbers = list(Incident.objects.filter(job=job).order_by("pk").values_list("pk", flat=True))
    data = {"slug": job.slug, "name": job.name, "cluster": job.cluster_id, "numbers": numbers}
    Activity.objects.create(
        kind=DELETED, actor=user, data={**data, **asdict(losses_of(job)), "reason": reason.strip()[:MAX_REASON]}
    )
    keys = [key_of(diagnosis) for diagnosis in Diagnosis.objects.filter(job=job).only("pk")]
    transaction.on_commit(lambda: tables_delete(keys))

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class TriageConfig(AppConfig):
    name = "triage"
    verbose_name = "Triage"

    def ready(self) -> None:
        from ingest.models import Job  # noqa: PLC0415
        from ingest.signals import artifact_ready, job_deleting, run_failed, swept, tidied  # noqa: PLC0415  # models load first
        from triage.models import Activity  # noqa: PLC0415
        from triage.services.access import roles_make  # noqa: PLC0415

        artifact_ready.connect(_diagnose, dispatch_uid="triage.diagnose")
        run_failed.connect(_tell_failure, dispatch_uid="triage.webhooks.failed")
        job_deleting.connect(_let_go, dispatch_uid="triage.deleting")
        swept.connect(_deliver, dispatch_uid="triage.webhooks.due")
        tidied.connect(_tidy, dispatch_uid="triage.webhooks.tidy")
        post_save.connect(_tell, sender=Activity, dispatch_uid="triage.webhooks.activity")
        post_save.connect(_follow_team, sender=Job, dispatch_uid="triage.team")
        post_save.connect(_follow_name, sender=Job, dispatch_uid="triage.name")
        post_migrate.connect(roles_make, sender=self, dispatch_uid="triage.roles")


def _diagnose(run_id: int, job_id: int, revision: int, **_: Any) -> None:
    from triage.services.diagnosing import diagnosis_send  # noqa: PLC0415
    from triage.services.webhook_events import evidence_announce  # noqa: PLC0415

    diagnosis_send(run_id)
    evidence_announce(job_id=job_id, revision=revision)


def _tell(instance: Any, created: bool, raw: bool = False, **_: Any) -> None:
    from triage.services.webhook_events import activity_announce  # noqa: PLC0415

    if created and not raw:
        activity_announce(instance)


def _follow_team(instance: Any, created: bool, update_fields: Any = None, **_: Any) -> None:
    from triage.services.ownership import team_follow  # noqa: PLC0415

    if not created and (update_fields is None or "team" in update_fields):
        team_follow(job=instance)


def _follow_name(instance: Any, created: bool, update_fields: Any = None, **_: Any) -> None:
    from triage.services.indexing import search_entries_rename  # noqa: PLC0415

    if not created and (update_fields is None or "name" in update_fields):
        search_entries_rename(job=instance)


def _let_go(job: Any, user: Any, reason: str, **_: Any) -> None:
    from triage.services.deleting import deletion_record  # noqa: PLC0415

    deletion_record(job=job, user=user, reason=reason)


def _tell_failure(run_id: int, **_: Any) -> None:
    from triage.services.webhook_events import failure_announce  # noqa: PLC0415

    failure_announce(run_id)


def _deliver(**_: Any) -> None:
    from triage.services.webhook_delivery import deliveries_due  # noqa: PLC0415
    from triage.tasks import delivery_wake  # noqa: PLC0415

    for pk in deliveries_due():
        delivery_wake(pk)


def _tidy(**_: Any) -> None:
    from triage.services.retention import old_evidence_remove  # noqa: PLC0415
    from triage.services.webhook_delivery import deliveries_tidy  # noqa: PLC0415

    deliveries_tidy()
    old_evidence_remove()

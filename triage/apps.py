from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class TriageConfig(AppConfig):
    name = "triage"
    verbose_name = "Triage"

    def ready(self) -> None:
        from ingest.signals import artifact_ready  # noqa: PLC0415  # models load first
        from triage.services.access import roles_make  # noqa: PLC0415

        artifact_ready.connect(_diagnose, dispatch_uid="triage.diagnose")
        post_migrate.connect(roles_make, sender=self, dispatch_uid="triage.roles")


def _diagnose(run_id: int, **_: Any) -> None:
    from triage.services.diagnosing import diagnosis_send  # noqa: PLC0415

    diagnosis_send(run_id)

from django.apps import AppConfig
from django.db.models.signals import post_delete


class IngestConfig(AppConfig):
    name = "ingest"
    verbose_name = "Evidence"

    def ready(self) -> None:
        from ingest import sweeper  # noqa: F401, PLC0415  # connects to Celery's signals
        from ingest.models import Artifact  # noqa: PLC0415  # models load first
        from ingest.services.artifacts import column_files_delete  # noqa: PLC0415

        post_delete.connect(column_files_delete, sender=Artifact, dispatch_uid="ingest.column_files")

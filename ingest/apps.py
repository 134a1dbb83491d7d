from django.apps import AppConfig


class IngestConfig(AppConfig):
    name = "ingest"
    verbose_name = "Evidence"

    def ready(self) -> None:
        from ingest import sweeper  # noqa: F401, PLC0415  # connects to Celery's signals

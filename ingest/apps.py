from importlib import import_module

from django.apps import AppConfig


class IngestConfig(AppConfig):
    name = "ingest"
    verbose_name = "Evidence"

    def ready(self) -> None:
        for name in ("ingest.receivers", "ingest.sweeper"):  # models load first
            import_module(name)

from importlib import import_module

from django.apps import AppConfig


class TriageConfig(AppConfig):
    name = "triage"
    verbose_name = "Triage"

    def ready(self) -> None:
        import_module("triage.receivers")  # models load first

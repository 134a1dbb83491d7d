from importlib import import_module

from django.apps import AppConfig

from triage.celery import app as celery_app

__all__ = ["TriageConfig", "celery_app"]  # tasks need the application; the supervisor, which has no Django, does not


class TriageConfig(AppConfig):
    name = "triage"
    verbose_name = "Triage"

    def ready(self) -> None:
        import_module("triage.receivers")  # models load first

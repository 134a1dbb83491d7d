"""Loads the demonstration: the recordings in samples/, with the services of any upload, and generated history."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from ingest.models import Job
from ingest.refusals import Refused
from triage.environment import env_bool
from triage.services.demonstration import demonstration_remove, history_load, was_removed
from triage.services.samples import SAMPLES, has_other_jobs, sample_load, sample_slug

#: diagnosing the healthy ones takes seconds; without a worker the wait must end
PATIENCE_S = 120


class Command(BaseCommand):
    help = "Load what is missing of the demonstration (FAULTLINE_DEMO=0, or once it was removed: nothing)."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--again", action="store_true", help="load it even if it was removed")
        parser.add_argument("--remove", action="store_true", help="remove it with all decisions on it")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["remove"]:
            try:
                is_gone = demonstration_remove()
            except Refused as error:
                raise CommandError(error.detail) from error
            self.stdout.write("The demonstration was removed." if is_gone else "There is no demonstration.")
            return
        if not options["again"] and (was_removed() or not env_bool("FAULTLINE_DEMO", True)):
            return
        # A site in use gets no generated history after an upgrade of Faultline.
        if (options["again"] or not has_other_jobs()) and (made := history_load()):
            self.stdout.write(f"made up a year with {made} incidents")
        have = set(Job.objects.values_list("slug", flat=True))
        missing = [sample for sample in SAMPLES if sample_slug(sample.stem) not in have]
        _wait([self._load(sample.stem) for sample in missing if sample.is_healthy])
        for sample in missing:
            if not sample.is_healthy:
                self._load(sample.stem)

    def _load(self, stem: str) -> Job:
        user = get_user_model().objects.filter(username="engineer").first()
        job = sample_load(stem=stem, user=user)
        self.stdout.write(f"loading {job.slug}")
        return job


def _wait(jobs: list[Job]) -> None:
    """Wait until each is diagnosed, so that the next can be compared with it."""
    deadline = time.monotonic() + PATIENCE_S
    waiting = [job.pk for job in jobs]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.5)
        waiting = list(Job.objects.filter(pk__in=waiting, diagnosed_revision=0).values_list("pk", flat=True))

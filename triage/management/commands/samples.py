"""Load the recordings in samples/ as demo jobs, through the same services as any upload."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand

from ingest.models import Job
from triage.environment import env_bool
from triage.services.samples import SAMPLES, sample_load, sample_slug

#: diagnosing the healthy ones takes seconds; without a worker nobody should wait for ever
PATIENCE_S = 120


class Command(BaseCommand):
    help = "Load and diagnose the sample jobs that are not there yet (FAULTLINE_DEMO=0: none)."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        if not env_bool("FAULTLINE_DEMO", True):
            return
        have = set(Job.objects.values_list("slug", flat=True))
        missing = [sample for sample in SAMPLES if sample_slug(sample[0]) not in have]
        _wait([self._load(stem) for stem, _, _, is_healthy in missing if is_healthy])
        for stem, _, _, is_healthy in missing:
            if not is_healthy:
                self._load(stem)

    def _load(self, stem: str) -> Job:
        user = get_user_model().objects.filter(username="engineer").first()
        job = sample_load(stem=stem, user=user)
        self.stdout.write(f"loading {job.slug}")
        return job


def _wait(jobs: list[Job]) -> None:
    """Until each has been diagnosed, so that what is learnt from them is there for the next."""
    deadline = time.monotonic() + PATIENCE_S
    waiting = [job.pk for job in jobs]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.5)
        waiting = list(Job.objects.filter(pk__in=waiting, diagnosed_revision=0).values_list("pk", flat=True))

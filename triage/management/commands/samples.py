"""Load the recordings in samples/ as demo jobs, through the same services as any upload."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand

from ingest import services
from ingest.models import Job
from triage.environment import env_bool

#: (file, title, what its comment says, whether it is healthy); healthy ones are what the others are compared with
SAMPLES = (
    ("healthy_ddp_a", "Sample: healthy run A", "A small run that ended well.", True),
    ("healthy_ddp_b", "Sample: healthy run B", "The same program again, and it ended well too.", True),
    ("sigkill_rank5", "Sample: a rank vanished", "The run died in the middle of training.", False),
    ("exc_one_rank_shape", "Sample: one rank raised", "One process failed, the others waited for it.", False),
    ("disk_full_ckpt", "Sample: checkpoint failed", "The run died while it saved a checkpoint.", False),
)
FAMILY = "sample-gpt-ddp"
#: diagnosing the healthy ones takes seconds; without a worker nobody should wait for ever
PATIENCE_S = 120


class Command(BaseCommand):
    help = "Load and diagnose the sample jobs that are not there yet (FAULTLINE_DEMO=0: none)."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        if not env_bool("FAULTLINE_DEMO", True):
            return
        have = set(Job.objects.values_list("slug", flat=True))
        missing = [sample for sample in SAMPLES if _slug(sample[0]) not in have]
        healthy = [self._load(stem, title, comment) for stem, title, comment, is_healthy in missing if is_healthy]
        _wait(healthy)
        for stem, title, comment, is_healthy in missing:
            if not is_healthy:
                self._load(stem, title, comment)

    def _load(self, stem: str, title: str, comment: str) -> Job:
        path = Path(settings.BASE_DIR) / "samples" / f"{stem}.tar.gz"
        user = get_user_model().objects.filter(username="engineer").first()
        job = services.job_create(
            name=title, slug=_slug(stem), user=user, family=FAMILY, framework="torchrun", comment=comment
        )
        with path.open("rb") as file:
            chunks = iter(lambda: file.read(1 << 20), b"")
            services.artifact_receive(job=job, path=path.name, chunks=chunks, user=user)
        services.diagnosis_request(job=job, user=user)
        self.stdout.write(f"loading {job.slug}")
        return job


def _slug(stem: str) -> str:
    return f"sample-{stem.replace('_', '-')}"


def _wait(jobs: list[Job]) -> None:
    """Until each has been diagnosed, so that what is learnt from them is there for the next."""
    deadline = time.monotonic() + PATIENCE_S
    waiting = [job.pk for job in jobs]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.5)
        waiting = list(Job.objects.filter(pk__in=waiting, diagnosed_revision=0).values_list("pk", flat=True))

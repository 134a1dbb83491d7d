"""Load the recordings in samples/ as demo jobs, through the same services as any upload."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand

from ingest import services
from ingest.models import Job
from triage.environment import env_bool

#: healthy recordings come first, so that the failed ones have something to be compared with
SAMPLES = (
    ("healthy_ddp_a", "Healthy run A", ""),
    ("healthy_ddp_b", "Healthy run B", ""),
    ("sigkill_rank5", "Rank killed", "One rank vanished in the middle of training."),
    ("exc_one_rank_shape", "Shape mismatch on one rank", "One rank raised, its peers waited."),
    ("disk_full_ckpt", "Checkpoint on a full disk", "The job ended while it wrote a checkpoint."),
)
FAMILY = "sample-gpt-ddp"


class Command(BaseCommand):
    help = "Load and diagnose the sample jobs that are not there yet (FAULTLINE_DEMO=0: none)."

    def handle(self, *args: Any, **options: Any) -> None:
        if not env_bool("FAULTLINE_DEMO", True):
            return
        folder = Path(settings.BASE_DIR) / "samples"
        user = get_user_model().objects.filter(username="engineer").first()
        have = set(Job.objects.filter(slug__startswith="sample-").values_list("slug", flat=True))
        for stem, title, comment in SAMPLES:
            slug = f"sample-{stem.replace('_', '-')}"
            if slug in have:
                continue
            job = services.job_create(
                name=title, slug=slug, user=user, family=FAMILY, framework="torchrun", comment=comment
            )
            path = folder / f"{stem}.tar.gz"
            services.artifact_receive(job=job, path=path.name, chunks=_chunks(path), user=user)
            services.diagnosis_request(job=job, user=user)
            self.stdout.write(f"  Loading sample job {slug}")


def _chunks(path: Path, size: int = 1 << 20) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(size):
            yield chunk

"""Recordings that come with Faultline, loaded as jobs through the same services as any upload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

from ingest import services
from ingest.models import Job

#: (file, title, what its comment says, whether it is healthy); healthy ones are what the others are compared with
SAMPLES = (
    ("healthy_ddp_a", "Sample: healthy run A", "A small run that ended well.", True),
    ("healthy_ddp_b", "Sample: healthy run B", "The same program again, and it ended well too.", True),
    ("sigkill_rank5", "Sample: a rank vanished", "The run died in the middle of training.", False),
    ("exc_one_rank_shape", "Sample: one rank raised", "One process failed, the others waited for it.", False),
    ("disk_full_ckpt", "Sample: checkpoint failed", "The run died while it saved a checkpoint.", False),
)
FAMILY = "sample-gpt-ddp"
#: what somebody who looks at an empty site is shown
FIRST = "sigkill_rank5"


def sample_slug(stem: str) -> str:
    return f"sample-{stem.replace('_', '-')}"


def sample_load(*, stem: str, user: Any) -> Job:
    """The job of this recording; made, filled and handed to diagnosis if it is not there yet."""
    found = Job.objects.filter(slug=sample_slug(stem)).first()
    if found:
        return found
    _, title, comment, _ = next(sample for sample in SAMPLES if sample[0] == stem)
    path = Path(settings.BASE_DIR) / "samples" / f"{stem}.tar.gz"
    job = services.job_create(
        name=title, slug=sample_slug(stem), user=user, family=FAMILY, framework="torchrun", comment=comment
    )
    with path.open("rb") as file:
        chunks = iter(lambda: file.read(1 << 20), b"")
        services.artifact_receive(job=job, path=path.name, chunks=chunks, user=user)
    services.diagnosis_request(job=job, user=user)
    return job

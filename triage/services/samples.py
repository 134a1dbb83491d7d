"""Recordings that come with Faultline, loaded as jobs through the same services as uploads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings

from ingest import services
from ingest.models import DEMONSTRATION, Job
from triage.services.demonstration import demonstration_cluster

_DDP, _PP = "sample-gpt-ddp", "sample-gpt-pp"


class Sample(NamedTuple):
    """One recording; the healthy ones are the comparison for others of their family."""

    stem: str
    title: str
    comment: str
    family: str = _DDP
    is_healthy: bool = False


#: in loading order
SAMPLES = (
    Sample("healthy_ddp_a", "Sample: healthy run A", "A small run that ended well.", is_healthy=True),
    Sample("healthy_ddp_b", "Sample: healthy run B", "The same program again, it ended well too.", is_healthy=True),
    Sample("sigkill_rank5", "Sample: a rank vanished", "The run died in the middle of training."),
    Sample("exc_one_rank_shape", "Sample: one rank raised", "One process failed, the others waited for it."),
    Sample("disk_full_ckpt", "Sample: checkpoint failed", "The run died while it saved a checkpoint."),
    Sample("hang_dataloader", "Sample: a hang with stacks", "The run made no progress, and its stacks were dumped."),
    Sample("delay_100ms_node", "Sample: a slow network", "The run ended well, but was slow on the way.", _PP),
)
#: the recording to show first on an empty site
FIRST_SAMPLE = "sigkill_rank5"


def sample_slug(stem: str) -> str:
    return f"sample-{stem.replace('_', '-')}"


def has_other_jobs() -> bool:
    """Whether there is a job outside the demonstration."""
    slugs = [sample_slug(sample.stem) for sample in SAMPLES]  # earlier versions loaded them into other clusters
    return Job.objects.exclude(cluster__slug=DEMONSTRATION).exclude(slug__in=slugs).exists()


def sample_load(*, stem: str, user: Any) -> Job:
    """The job of this recording; created, filled and diagnosed if it does not exist."""
    existing = Job.objects.filter(slug=sample_slug(stem)).first()
    if existing:
        return existing
    sample = next(sample for sample in SAMPLES if sample.stem == stem)
    path = Path(settings.BASE_DIR) / "samples" / f"{stem}.tar.gz"
    job = services.job_create(
        name=sample.title,
        slug=sample_slug(stem),
        user=user,
        cluster=demonstration_cluster(),
        family=sample.family,
        framework="torchrun",
        comment=sample.comment,
    )
    with path.open("rb") as file:
        chunks = iter(lambda: file.read(1 << 20), b"")
        services.artifact_receive(job=job, path=path.name, chunks=chunks, user=user)
    services.diagnosis_request(job=job, user=user)
    return job

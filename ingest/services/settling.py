"""What the end of a run, or its retry, changes besides its row: one table by the kind of run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from ingest.models import Artifact, Job, Run, Upload
from ingest.services.sending import run_enqueue


def _no_effect(run: Run, problem: str = "") -> None:
    pass


@dataclass(frozen=True, slots=True)
class Settling:
    """Each function is called in the transaction that changes the run's state."""

    on_success: Callable[[Run], None] = _no_effect
    #: also takes the sentence that says why it failed
    on_failure: Callable[[Run, str], None] = _no_effect
    on_retry: Callable[[Run], None] = _no_effect


def ranges_join(run: Run) -> None:
    """Queue the joining after the last range of a file is parsed. The caller locks the job's row, so that exactly one
    is the last.
    """
    if run.artifact is None or "part" not in run.parameters:
        return
    ranges = Run.objects.filter(artifact=run.artifact)
    done_count = ranges.filter(state=Run.State.SUCCEEDED).count()
    if done_count == run.parameters["parts"] and ranges.count() == done_count:
        joining = Run.objects.create(
            job_id=run.job_id,
            attempt_id=run.attempt_id,
            kind=Run.Kind.PARSE,
            artifact=run.artifact,
            parameters={"join": done_count},
            is_long=True,
        )
        run_enqueue(joining)


def _artifacts_fail(run: Run, problem: str) -> None:
    unread = _artifacts(run).filter(state__in=(Artifact.State.RECEIVED, Artifact.State.PARSING))
    unread.update(state=Artifact.State.FAILED, problem=problem, settled_at=timezone.now())


def _artifacts_retry(run: Run) -> None:
    failed = _artifacts(run).filter(state=Artifact.State.FAILED)
    failed.update(state=Artifact.State.RECEIVED, problem="", settled_at=None)


def _artifacts(run: Run) -> QuerySet[Artifact]:
    return Artifact.objects.filter(Q(run=run) | Q(pk=run.artifact_id or 0))


def _upload_refuse(run: Run, problem: str) -> None:
    Upload.objects.filter(runs=run).update(state=Upload.State.REFUSED, problem=problem)


def _upload_retry(run: Run) -> None:
    Upload.objects.filter(runs=run).update(state=Upload.State.RECEIVED, problem="")


def _revision_diagnosed(run: Run) -> None:
    Job.objects.filter(pk=run.job_id).update(diagnosed_revision=run.parameters.get("revision", 0))


SETTLING = {
    Run.Kind.UNPACK: Settling(on_failure=_upload_refuse, on_retry=_upload_retry),
    Run.Kind.PARSE: Settling(on_success=ranges_join, on_failure=_artifacts_fail, on_retry=_artifacts_retry),
    Run.Kind.DIAGNOSE: Settling(on_success=_revision_diagnosed),
    Run.Kind.CONDENSE: Settling(),
    Run.Kind.PART: Settling(),
}

"""Parts of a diagnosis that any worker may do: each is a run with a claim of its own; argument and answer are files.

The diagnosis offers the parts of a step, and when it needs their answers does them itself, the last first, while some
are left; workers that are free take the others meanwhile. So it never waits for a worker that is not there, and one
process alone does all of it. The parts of a worker that dies are taken again. Their rows are deleted when the step is
done: the answers are of the diagnosis alone, and only the claim of its run that offered a part may use its answer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet, Sum
from django.utils import timezone

from ingest import broker, processes
from ingest.models import Artifact, Machine, Run
from ingest.services import ends
from ingest.services.engine_calls import engine_call
from ingest.services.runs import end_of, run_claim, run_succeed
from ingest.services.sending import run_enqueue
from ingest.services.work import Work

_CHECK_EVERY_S: Final = 0.1


def part_do(work: Work) -> None:
    """Do one part, unless nobody waits for its answer any more."""
    parameters = work.run.parameters
    if not Run.objects.filter(pk=parameters["of"], tries=parameters["try"], state=Run.State.RUNNING).exists():
        return
    folder = str(Path(settings.DATA_DIR) / parameters["folder"])
    names = {"function": parameters["function"], "part": parameters["part"]}
    # how much of the evidence its part has is not known; it is less than all
    evidence = Artifact.objects.filter(attempt__job=work.run.job_id)
    size = evidence.aggregate(size=Sum("blob__size_bytes", default=0))["size"]
    engine_call(work, "do_part", input_bytes=size, folder=folder, **names)


class OfferedParts:
    """The parts that one diagnose run offers; its methods answer the reader's requests of the same names."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._own_run: Run | None = None
        self._offers: list[list[int]] = []  # the runs of each offer
        _part_runs(work.run).delete()  # what an earlier try left

    def offer(self, function: str, folder: str, parts: list[str]) -> int:
        """Queue a run for each part: the name of a file in ``folder``. The number of this offer."""
        run = self._work.run
        common = {"of": run.pk, "try": run.tries, "function": function}
        common["folder"] = str(Path(folder).relative_to(settings.DATA_DIR))
        rows = [
            Run(job_id=run.job_id, kind=Run.Kind.PART, parameters={**common, "part": part}, sent_at=timezone.now())
            for part in parts
        ]
        self._offers.append([row.pk for row in Run.objects.bulk_create(rows)])
        if not broker.is_eager():
            for row in rows[:-1]:
                run_enqueue(row)
        return len(self._offers) - 1

    def take(self, offer: int) -> int | None:
        """The number of a part of this offer that the reader shall do now; -1 if others do the rest, None if all are
        done.
        """
        self._work.beat()
        ids = self._offers[offer]
        remaining = list(Run.objects.filter(pk__in=ids).exclude(state=Run.State.SUCCEEDED).order_by("-pk"))
        for run in remaining:
            if run.state == Run.State.RUNNING and end_of(run) is None:
                continue
            if run.state == Run.State.FAILED:  # a worker that could not do it; this one knows what that means
                values = {"state": Run.State.QUEUED, "parameters": ends.after_progress(run.parameters)}
                Run.objects.filter(pk=run.pk, state=Run.State.FAILED).update(**values)
            self._own_run = run_claim(run.pk)
            if self._own_run is not None:
                return ids.index(run.pk)
        if not remaining:
            Run.objects.filter(pk__in=ids).delete()
            return None
        time.sleep(_CHECK_EVERY_S)
        return -1

    def took(self) -> None:
        """The part that was taken is done."""
        if self._own_run is not None:
            run_succeed(self._own_run)


def handlers(work: Work) -> dict[str, Any]:
    """What answers the reader of a diagnosis that offers parts."""
    offered = OfferedParts(work)
    return {"offer": offered.offer, "take": offered.take, "took": offered.took}


def are_far() -> bool:
    """Whether workers of other machines may take parts."""
    return Machine.objects.exclude(name=processes.machine()).exists()


def _part_runs(run: Run) -> QuerySet[Run]:
    return Run.objects.filter(job_id=run.job_id, kind=Run.Kind.PART, parameters__of=run.pk)

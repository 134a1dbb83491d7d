"""Parts of a diagnosis: whoever does them, the report is the same, and nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from diagnosis.kinds.flows.capture import pieces
from ingest import processes, temp_files
from ingest.isolation.client import _Direct as Direct
from ingest.isolation.offering import Parts
from ingest.models import Job, Run
from ingest.services import parts, run_do
from ingest.services.work import Superseded, Work
from tests.diagnosis.kinds.flows.simulate import Job as Simulated
from tests.diagnosis.kinds.flows.simulate import simulate
from tests.diagnosis.kinds.flows.test_pieces import assert_same, report_of
from tests.patience import WORK_S, wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def work(job: Job) -> Work:
    values = {
        "state": Run.State.RUNNING,
        "tries": 1,
        "worker": processes.process_name(),
        "heartbeat_at": timezone.now(),
    }
    run = Run.objects.create(job=job, kind=Run.Kind.DIAGNOSE, **values)
    return Work(run)


class Reported:
    """A capture whose report is made with parts offered, and must be that of one process."""

    def __init__(self, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = work
        self._capture = simulate(Simulated(tp=2, pp=2, dp=4, gpus=2, steps=12))
        with temp_files.temp_dir() as folder:
            self._whole = report_of(self._capture.records, self._capture.inventory, folder)
        monkeypatch.setattr(pieces, "PIECE_ROWS", self._capture.records.height // 2)

    def __call__(self, **handlers: Any) -> None:
        offered = {"beat": self.work.beat, **parts.handlers(self.work)}
        named = {name: (lambda *given, make=make: make(offered, *given)) for name, make in handlers.items()}
        runner = Parts(Direct({**offered, **named}))
        with temp_files.temp_dir() as folder:
            found = report_of(self._capture.records, self._capture.inventory, folder, runner=runner)
            assert_same(found, self._whole)
            assert not [path for path in (folder / "tables").iterdir() if ".part" in path.name]
        assert not Run.objects.filter(kind=Run.Kind.PART).exists()


@pytest.fixture
def reported(work: Work, monkeypatch: pytest.MonkeyPatch) -> Reported:
    return Reported(work, monkeypatch)


def test_a_worker_alone_does_all_parts_itself(reported: Reported) -> None:
    reported()


def test_other_workers_do_what_they_take_first(reported: Reported) -> None:
    done: list[int] = []

    def take(offered: dict[str, Callable[..., Any]], offer: int) -> Any:
        run = Run.objects.filter(kind=Run.Kind.PART, state=Run.State.QUEUED).order_by("pk").first()
        if run is not None:
            run_do(run.pk, parts.part_do)
            done.append(run.pk)
        return offered["take"](offer)

    reported(take=take)
    assert len(done) > 5


def test_the_part_of_a_worker_that_died_or_failed_is_taken_again(reported: Reported) -> None:
    def offer(offered: dict[str, Callable[..., Any]], *given: Any) -> Any:
        number = offered["offer"](*given)
        last, first = Run.objects.filter(kind=Run.Kind.PART).order_by("-pk")[:2]  # of this offer
        dead = f"{processes.machine()}#999999:1"
        Run.objects.filter(pk=first.pk).update(state=Run.State.RUNNING, worker=dead, tries=1)
        Run.objects.filter(pk=last.pk).update(state=Run.State.FAILED, error="It needs too much memory.", tries=1)
        return number

    reported(offer=offer)


def test_a_diagnosis_that_another_worker_holds_now_offers_nothing_more(reported: Reported) -> None:
    def offer(offered: dict[str, Callable[..., Any]], *given: Any) -> Any:
        number = offered["offer"](*given)
        Run.objects.filter(pk=reported.work.run.pk).update(tries=2)
        return number

    reported.work._told_at = -1e9  # it reports at once that it continues
    with pytest.raises(Superseded):
        reported(offer=offer)
    left = Run.objects.filter(kind=Run.Kind.PART).order_by("pk").first()
    assert left is not None
    run_do(left.pk, parts.part_do)  # what an earlier try offered is nobody's: nothing is done, and nothing fails
    left.refresh_from_db()
    assert left.state == Run.State.SUCCEEDED
    parts.handlers(Work(Run.objects.get(pk=reported.work.run.pk)))
    assert not Run.objects.filter(kind=Run.Kind.PART).exists()


@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
def test_real_workers_do_parts(reported: Reported, worker: Any) -> None:
    def take(offered: dict[str, Callable[..., Any]], offer: int) -> Any:
        mine = offered["take"].__self__._offers[offer]  # type: ignore[attr-defined]
        others = Run.objects.filter(pk__in=mine[:-1])  # the message of the last one was not sent
        done = others.filter(state=Run.State.SUCCEEDED)
        wait_for(lambda: done.count() == others.count(), lambda: list(others.values("state", "error")), WORK_S)
        return offered["take"](offer)

    reported(take=take)


def test_a_folder_is_named_below_the_data_directory(work: Work, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="subpath"):
        parts.handlers(work)["offer"](
            "diagnosis.kinds.flows.jobs.sizes:_counted", str(tmp_path / "elsewhere"), ["a", "b"]
        )

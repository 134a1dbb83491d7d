"""Whose run is next: uploaders take turns, small jobs pass large ones, and one process is kept free of long work."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest import services, slots
from ingest.models import Artifact, Job, Run, Upload
from ingest.services import queueing, runs, work
from tests.archives import tar_of
from tests.factories import make_job, make_team, make_user
from tests.ingest.conftest import LOG

pytestmark = pytest.mark.django_db(transaction=True)
KINDS = {Run.Kind.PARSE: lambda work: None, Run.Kind.UNPACK: lambda work: None}


def queued(job: Job, count: int = 1, **fields: Any) -> list[Run]:
    return [Run.objects.create(job=job, kind=Run.Kind.PARSE, **fields) for _ in range(count)]


def job_of(name: str) -> Job:
    person = make_user(name, "engineer") if not Job.objects.filter(created_by__username=name).exists() else None
    job: Job = make_job(created_by=person or Job.objects.filter(created_by__username=name)[0].created_by)
    return job


@pytest.fixture
def one_slot(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(slots, "_count", None)
    monkeypatch.setattr(slots, "_owner", 0)
    slots.configure(2)
    yield


@pytest.fixture(autouse=True)
def first_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "_turns", itertools.count(1))


def order(limit: int = 50) -> list[int]:
    """The jobs in the order in which their runs are done by one worker."""
    done: list[int] = []
    while len(done) < limit and (run_id := queueing.next_run(KINDS)) is not None:
        now = timezone.now()
        Run.objects.filter(pk=run_id).update(state=Run.State.SUCCEEDED, started_at=now, ended_at=now)
        done.append(Run.objects.get(pk=run_id).job_id)
    return done


def test_uploaders_take_turns_however_much_one_of_them_sent() -> None:
    large, small = job_of("anna"), job_of("ben")
    queued(large, 20)
    queued(small, 2)
    assert order()[:4].count(small.pk) == 2


def test_teams_take_turns_however_many_of_their_people_sent() -> None:
    crowd = make_team("crowd")
    for n in range(8):
        queued(make_job(created_by=make_user(f"one-of-many-{n}"), team=crowd), 3)
    few = make_job(created_by=make_user("alone"), team=make_team("few"))
    queued(few, 4)
    own = job_of("anna")  # for no team
    queued(own, 4)
    first = order()[:9]
    assert (first.count(few.pk), first.count(own.pk)) == (3, 3)
    assert len({pk for pk in first if pk not in (few.pk, own.pk)}) == 3, "the people of a team take turns"


def test_files_that_were_sent_alone_are_before_the_archives_of_their_job() -> None:
    job = job_of("anna")
    archive = Upload.objects.create(job=job, attempt=job.attempts.create(number=3), path="all.tar")
    of_archive = [*queued(job, 2, upload=archive), *queued(job, 1, upload=archive)]
    (alone,) = queued(job)
    queued(job_of("ben"))
    assert queueing.next_run(KINDS) == alone.pk
    alone.delete()
    assert queueing.next_run(KINDS) == of_archive[0].pk


def test_a_small_job_passes_the_large_ones_of_the_same_uploader() -> None:
    large = [job_of("anna") for _ in range(10)]
    for job in large:
        queued(job, 3)
    order(limit=15)
    small = job_of("anna")
    queued(small)
    assert order()[0] == small.pk


def test_whoever_has_runs_under_way_waits_for_those_who_have_none() -> None:
    busy, idle = job_of("anna"), job_of("ben")
    queued(busy, state=Run.State.RUNNING, started_at=timezone.now() - timedelta(minutes=5))
    queued(busy, 3)
    (wanted,) = queued(idle)
    assert queueing.next_run(KINDS) == wanted.pk


def test_one_turn_in_eight_goes_to_the_oldest_run() -> None:
    old, busy = job_of("anna"), job_of("ben")
    (oldest,) = queued(old)
    queued(old, 1, state=Run.State.RUNNING, started_at=timezone.now())
    queued(busy, 20)
    done: list[int] = []
    acts = {Run.Kind.PARSE: lambda work: done.append(work.run.pk)}
    for _ in range(8):
        queueing.work_next(acts, requested=oldest.pk)
    assert done.index(oldest.pk) == 7


def test_a_message_for_a_run_that_is_done_already_does_another_one() -> None:
    first, second = queued(make_job(), 2)
    done: list[int] = []
    acts = {Run.Kind.PARSE: lambda work: done.append(work.run.pk)}
    for _ in range(3):
        queueing.work_next(acts, requested=second.pk)
    assert done == [first.pk, second.pk]


def test_a_worker_whose_run_was_taken_by_another_one_does_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = queued(make_job(), 2)
    done: list[int] = []
    choose = queueing.next_run

    def choose_late(*args: Any, **options: Any) -> int | None:
        chosen = choose(*args, **options)
        if not done and chosen == first.pk:  # another worker chose the same, and was faster
            runs.run_do(first.pk, lambda work: done.append(-1))
        return chosen

    monkeypatch.setattr(queueing, "next_run", choose_late)
    acts = {Run.Kind.PARSE: lambda work: done.append(work.run.pk)}
    queueing.work_next(acts, requested=first.pk)
    assert done == [-1, second.pk], "no other message comes for it"


def test_long_work_waits_for_a_slot_and_short_work_passes_it(one_slot: None) -> None:
    (long,), (short,) = queued(job_of("anna"), is_long=True), queued(job_of("ben"))
    slot = slots.take()
    assert slot is not None
    assert slots.take() is None
    done: list[int] = []
    acts = {Run.Kind.PARSE: lambda work: done.append(work.run.pk)}
    queueing.work_next(acts, requested=long.pk)
    queueing.work_next(acts, requested=short.pk)
    assert done == [short.pk]
    slot.release()
    queueing.work_next(acts, requested=long.pk)
    assert done == [short.pk, long.pk]
    again = slots.take()
    assert again is not None
    again.release()


def test_who_releases_a_slot_wakes_the_next_that_needs_one(one_slot: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = queued(make_job(), 2, is_long=True)
    woken: list[int] = []
    monkeypatch.setattr("ingest.broker.send", lambda _task, run_id: woken.append(run_id))
    queueing.work_next(KINDS, requested=first.pk)
    assert woken == [second.pk]


def test_an_archive_that_turns_out_large_waits_for_a_slot_and_is_read_then(
    one_slot: None, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = slots.take()
    assert slot is not None
    with monkeypatch.context() as slow:
        slow.setattr(work, "SHORT_S", -1.0)
        data = tar_of({f"{n}.log": LOG + b"%d\n" % n for n in range(5)})
        services.artifact_receive(job=job, path="all.tar", chunks=[data])
    run = Run.objects.get(kind="unpack")
    assert (run.state, run.is_long, run.own_tries) == ("queued", True, 0)
    slot.release()
    queueing.work_next({"unpack": _unpack()}, requested=run.pk)
    assert Upload.objects.get().state == "settled"
    assert Artifact.objects.count() == 5


def _unpack() -> Any:
    from ingest.services.unpacking import upload_unpack

    return upload_unpack


def test_a_unit_of_files_that_had_its_share_continues_later_and_loses_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest.services import artifact_parsing

    monkeypatch.setattr(work, "SHORT_S", -1.0)
    monkeypatch.setattr(runs, "MAX_WAITS", 1)  # it is no sign of trouble, however often it happens
    monkeypatch.setattr(artifact_parsing, "_MAX_TOGETHER", 1)
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)
    for n in range(3):
        services.artifact_receive(job=job, path=f"{n}.log", chunks=[LOG + b"%d\n" % n])
    counts = []
    while Run.objects.filter(state="queued").exists():
        queueing.work_next({"parse": artifact_parsing.artifacts_parse}, requested=0)
        counts.append(Artifact.objects.filter(state="parsed").count())
    assert counts == [1, 2, 3]
    assert [(run.tries, run.own_tries) for run in Run.objects.filter(artifacts__path="0.log")] == [(3, 1)]


def test_a_diagnosis_of_many_files_is_long_work(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:

    from ingest.services import revisions

    monkeypatch.setattr(revisions, "_MAX_SHORT_FILES", 1)
    for n in range(2):
        services.artifact_receive(job=job, path=f"{n}.log", chunks=[LOG + b"%d\n" % n])
    run = services.diagnosis_request(job=job)
    assert run is not None
    assert run.is_long


def test_work_that_holds_its_turn_while_others_wait_is_long_seen_from_outside(
    one_slot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader may say nothing: the worker looks at the time."""
    monkeypatch.setattr(work, "TURN_S", 0.0)
    (run,) = queued(job_of("anna"), 1, state=Run.State.RUNNING, tries=1)
    held = slots.take()
    assert held is not None

    work.Work(run).check()  # nobody waits for its process
    queued(run.job, 1)
    work.Work(run).check()  # only its own job
    queued(job_of("ben"), 1)
    with pytest.raises(work.Postponed) as raised:
        work.Work(run).check()
    assert raised.value.is_long
    held.release()
    taken = work.Work(run)
    taken.check()
    assert taken.slot is not None
    assert Run.objects.get(pk=run.pk).is_long
    taken.slot.release()

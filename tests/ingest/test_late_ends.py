"""Work that ends after another worker took it over changes nothing: one test a kind of claim, and of what it writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from ingest import services
from ingest.models import Artifact, Blob, Job, Run, RunLog, Upload, Watch
from ingest.services import (
    artifact_parsing,
    ends,
    parts,
    range_parsing,
    resuming,
    runs,
    unpacking,
    watching,
)
from ingest.services.work import Postponed, Superseded, Work
from tests.archives import tar_of
from tests.factories import make_attempt, make_job

pytestmark = pytest.mark.django_db(transaction=True)
KINDS = list(Run.Kind)


def take_over(run: Run) -> None:
    """Another worker claims the run."""
    Run.objects.filter(pk=run.pk).update(tries=F("tries") + 1, worker="another")


def claimed_run(kind: str, **fields: Any) -> Run:
    run = runs.run_claim(Run.objects.create(job=fields.pop("job", None) or make_job(), kind=kind, **fields).pk)
    assert run is not None
    return run


def state_of(run: Run) -> tuple[str, str]:
    row = Run.objects.get(pk=run.pk)
    return row.state, row.worker


@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_that_see_a_free_run_at_the_same_time_claim_it_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, inner = Run.objects.create(job=make_job(), kind=kind), []
    prepared = ends.at_claim

    def claimed_meanwhile(parameters: Any) -> Any:
        monkeypatch.setattr(ends, "at_claim", prepared)
        inner.append(runs.run_claim(run.pk))
        return prepared(parameters)

    monkeypatch.setattr(ends, "at_claim", claimed_meanwhile)
    assert runs.run_claim(run.pk) is None
    assert [row.tries for row in inner] == [1]
    run.refresh_from_db()
    assert run.tries == 1


def test_two_workers_that_see_a_lost_run_at_the_same_time_claim_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = claimed_run(Run.Kind.PARSE)
    Run.objects.update(worker="elsewhere#1:1", heartbeat_at=timezone.now() - runs.lease() - timedelta(seconds=1))
    inner: list[Run | None] = []
    prepared = ends.at_claim

    def claimed_meanwhile(parameters: Any) -> Any:
        monkeypatch.setattr(ends, "at_claim", prepared)
        inner.append(runs.run_claim(run.pk))
        return prepared(parameters)

    monkeypatch.setattr(ends, "at_claim", claimed_meanwhile)
    assert runs.run_claim(run.pk) is None
    assert [row and row.tries for row in inner] == [2]


def late_acts(run: Run) -> dict[str, Callable[[], Any]]:
    """All that a worker may record of its run at the end of a turn."""
    work = Work(run)
    return {
        "succeed": lambda: runs.run_succeed(run),
        "fail": lambda: runs.run_fail(run, "too late"),
        "release": lambda: runs.run_release(run, "too late"),
        "abandon": lambda: runs.run_abandon(run, runs.End.OUTSIDE),
        "postpone": lambda: runs._postpone(run, is_long=True),
        "wait": lambda: runs._release_when_it_answers(run, "too late"),
        "write": lambda: work.write(stage="late"),
        "record": work.record,
        "log": lambda: work.log("too late"),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", late_acts(Run()))
def test_a_run_that_another_worker_holds_is_left_as_it_is(kind: str, name: str) -> None:
    job = make_job(diagnosing_revision=5, revision=5)
    attempt = make_attempt(job)
    upload = Upload.objects.create(job=job, attempt=attempt, path="a.tar", state=Upload.State.RECEIVED)
    run = claimed_run(kind, job=job, upload=upload, parameters={"revision": 5, Run.WAITS: 1})
    blob = Blob.objects.create(sha256="a" * 64, size_bytes=1)
    artifact = Artifact.objects.create(attempt=attempt, path="a", blob=blob, run=run, state=Artifact.State.PARSING)
    take_over(run)
    before = Run.objects.values().get(pk=run.pk)
    try:
        late_acts(run)[name]()
    except Superseded:
        assert name in ("write", "record", "log")
    assert Run.objects.values().get(pk=run.pk) == before
    for row in (job, upload, artifact):
        row.refresh_from_db()
    assert (job.diagnosed_revision, upload.state, artifact.state) == (0, "received", "parsing")
    assert not RunLog.objects.exists()
    assert Run.objects.count() == 1


@pytest.mark.parametrize("end", [RuntimeError("broken"), Postponed(is_long=False), Postponed(is_long=True), None])
def test_a_turn_that_ends_late_is_not_recorded(end: BaseException | None) -> None:
    run = Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)

    def act(work: Work) -> None:
        take_over(work.run)
        if end is not None:
            raise end

    services.run_do(run.pk, act)
    assert state_of(run) == ("running", "another")


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is received waits in the queue: each test does the work itself."""
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)


def receive(job: Job, path: str, data: bytes) -> Run:
    services.artifact_receive(job=job, path=path, chunks=[data])
    run = runs.run_claim(Run.objects.latest("pk").pk)
    assert run is not None
    return run


LINES = b"".join(b"2026-11-21 03:00:%02d,000 INFO iteration %d loss 2.5\n" % (n % 60, n) for n in range(400))


def test_a_file_that_was_read_late_keeps_the_columns_of_its_new_reader(
    job: Job, held_back: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = receive(job, "rank.log", LINES)
    read = artifact_parsing.artifact_read

    def read_slowly(*given: Any, **more: Any) -> Any:
        take_over(run)
        return read(*given, **more)

    monkeypatch.setattr(artifact_parsing, "artifact_read", read_slowly)
    with pytest.raises(Superseded):
        artifact_parsing.artifacts_parse(Work(run))
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.lines, artifact.parsed_key) == ("received", 0, "")


def cut_into_ranges(job: Job, settings: Any) -> list[Run]:
    """The queued runs of the ranges of one file."""
    settings.PARSE_UNIT_BYTES = 4000
    run = receive(job, "rank.log", LINES)
    artifact_parsing.artifacts_parse(Work(run))
    runs.run_succeed(run)
    return list(Run.objects.filter(artifact__isnull=False).order_by("pk"))


def test_a_range_that_was_read_late_is_not_counted(
    job: Job, held_back: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.run_claim(cut_into_ranges(job, settings)[0].pk)
    assert run is not None
    read = range_parsing.artifact_read

    def read_slowly(*given: Any, **more: Any) -> Any:
        take_over(run)
        return read(*given, **more)

    monkeypatch.setattr(range_parsing, "artifact_read", read_slowly)
    taken: list[str] = []
    monkeypatch.setattr(range_parsing.storage, "directory_take", lambda key, *_: taken.append(key))
    with pytest.raises(Superseded):
        range_parsing.range_parse(Work(run))
    assert taken == []
    assert "lines" not in Run.objects.get(pk=run.pk).parameters


def test_ranges_are_joined_once_though_the_last_one_ends_twice(job: Job, held_back: None, settings: Any) -> None:
    ranges = cut_into_ranges(job, settings)
    for row in ranges:
        run = runs.run_claim(row.pk)
        assert run is not None
        range_parsing.range_parse(Work(run))
        runs.run_succeed(run)
    runs.run_succeed(run)
    assert [row.parameters["join"] for row in Run.objects.filter(parameters__has_key="join")] == [len(ranges)]


def test_a_file_that_was_joined_late_is_not_stored(
    job: Job, held_back: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in cut_into_ranges(job, settings):
        services.run_do(row.pk, artifact_parsing.artifacts_parse)
    run = runs.run_claim(Run.objects.latest("pk").pk)
    assert run is not None
    assert "join" in run.parameters
    store = range_parsing.parse_results.store

    def stored_slowly(*given: Any, **more: Any) -> None:
        take_over(run)
        store(*given, **more)

    monkeypatch.setattr(range_parsing.parse_results, "store", stored_slowly)
    with pytest.raises(Superseded):
        range_parsing.range_parse(Work(run))
    assert Artifact.objects.get().state == "parsing"


def test_members_of_an_archive_that_was_opened_late_are_not_added(
    job: Job, held_back: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = receive(job, "all.tar", tar_of({"a.log": LINES, "b.log": LINES[:500]}))
    flush = unpacking._MemberReceiver.flush

    def flushed_slowly(receiver: Any) -> None:
        take_over(run)
        flush(receiver)

    monkeypatch.setattr(unpacking._MemberReceiver, "flush", flushed_slowly)
    with pytest.raises(Superseded):
        unpacking.upload_unpack(Work(run))
    upload = Upload.objects.get()
    assert (upload.state, upload.blob_id is not None) == ("received", True)
    assert not Artifact.objects.exists()


def test_a_part_that_an_earlier_claim_of_its_diagnosis_offered_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = claimed_run(Run.Kind.DIAGNOSE)
    parameters = {"of": diagnosis.pk, "try": diagnosis.tries, "function": "f", "part": "p", "folder": "x"}
    calls: list[str] = []
    monkeypatch.setattr(parts, "engine_call", lambda *_, **given: calls.append(given["part"]))
    part = claimed_run(Run.Kind.PART, job=diagnosis.job, parameters=parameters)
    parts.part_do(Work(part))
    assert calls == ["p"]
    take_over(diagnosis)
    parts.part_do(Work(part))
    assert calls == ["p"]


def test_a_part_that_ends_late_does_not_count_as_done(settings: Any) -> None:
    offered = parts.OfferedParts(Work(claimed_run(Run.Kind.DIAGNOSE)))
    offered.offer("f", str(settings.DATA_DIR), ["one", "two"])
    assert offered.take(0) == 1
    assert offered._own_run is not None
    take_over(offered._own_run)
    offered.took()
    assert state_of(offered._own_run) == ("running", "another")


@pytest.fixture
def growing(job: Job) -> Upload:
    upload = resuming.upload_begin(job=job, path="node-1/train.log", size_bytes=None)
    with closing(resuming.Piece(upload, 0, len(LINES))) as piece:
        piece.write(LINES)
        piece.finish()
    return upload


def test_two_workers_that_look_at_the_same_time_read_new_lines_once(
    growing: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe, looks = watching._observe, []

    def observed_while_another_looks(watch: Watch, job_state: Any, lines: Any) -> None:
        looks.append(len(lines))
        watching.attempt_observe(growing.attempt_id)
        observe(watch, job_state, lines)

    monkeypatch.setattr(watching, "_observe", observed_while_another_looks)
    watching.attempt_observe(growing.attempt_id)
    assert looks == [1]


def test_a_look_that_ends_late_stores_nothing(growing: Upload, monkeypatch: pytest.MonkeyPatch) -> None:
    observations, later = watching._observations, timezone.now() + timedelta(minutes=9)

    def observed_slowly(*given: Any) -> Any:
        Watch.objects.update(claimed_until=later)
        return observations(*given)

    monkeypatch.setattr(watching, "_observations", observed_slowly)
    watching.attempt_observe(growing.attempt_id)
    growing.refresh_from_db()
    watch = Watch.objects.get()
    assert (growing.observed_bytes, watch.iteration, watch.observed_at) == (0, None, None)
    assert watch.claimed_until == later, "it is released by whoever holds it"


def test_a_judgement_that_ends_late_is_not_stored(growing: Upload, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = watching.live.judge

    def judged_slowly(*given: Any) -> Any:
        Watch.objects.update(claimed_until=timezone.now() + timedelta(minutes=9))
        return judge(*given)

    monkeypatch.setattr(watching.live, "judge", judged_slowly)
    watching.attempt_observe(growing.attempt_id)
    watch = Watch.objects.get()
    assert (watch.iteration, watch.observed_at, watch.stage) == (None, None, "")


def test_of_two_judgements_at_the_same_time_one_counts(growing: Upload, monkeypatch: pytest.MonkeyPatch) -> None:
    watching.attempt_observe(growing.attempt_id)
    watch, judged = Watch.objects.get(), timezone.now() + timedelta(hours=1)
    judge = watching.live.judge

    def judged_slowly(*given: Any) -> Any:
        Watch.objects.update(observed_at=judged)
        return judge(*given)

    monkeypatch.setattr(watching.live, "judge", judged_slowly)
    later = timezone.now() + timedelta(hours=2)
    watching._judge(watch, watching.live.decode_state(watch.state, later.timestamp()), later)
    assert Watch.objects.get().observed_at == judged

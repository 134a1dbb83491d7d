"""An archive of very many files of a few bytes costs few queries, few stored files and few calls of the engine."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from diagnosis.archive import archives
from ingest import services, slots, storage
from ingest.isolation import inside
from ingest.models import Artifact, Job, Run, RunLog, Upload
from ingest.services import engine_calls, parse_results, unpacking
from ingest.services.artifact_parsing import artifacts_parse
from ingest.services.work import Work
from tests.archives import tar_of
from tests.factories import make_job
from tests.ingest.conftest import sha

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 600
#: equal files and different ones
MEMBERS = {f"node-{n}/{n % 8}.log": b"a\n" if n % 3 else b"%d\n" % (n % 10) for n in range(COUNT)}
DIFFERENT = len(set(MEMBERS.values()))
BATCHES = 2  # of 500 members


@pytest.fixture
def sent(job: Job, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run that will open the archive."""
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)
    services.artifact_receive(job=job, path="all.tar", chunks=[tar_of(MEMBERS)])
    return Run.objects.get(kind=Run.Kind.UNPACK)


@pytest.fixture
def stored(sent: Run, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each content is written to the store."""
    counts: Counter[str] = Counter()
    put = storage.blob_put

    def counted(part: Path, sha256: str) -> None:
        counts[sha256] += 1
        put(part, sha256)

    monkeypatch.setattr(storage, "blob_put", counted)
    return counts


def test_opening_it_takes_a_few_queries_and_transactions_a_batch(sent: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.services.work._PROGRESS_EVERY_S", 1000.0)  # else they depend on the machine's speed
    with CaptureQueriesContext(connection) as queries:
        services.run_do(sent.pk, unpacking.upload_unpack)

    assert Artifact.objects.count() == COUNT
    assert Upload.objects.get().state == Upload.State.SETTLED
    begun = [query for query in queries if query["sql"].startswith("BEGIN")]
    assert len(begun) <= BATCHES + 8
    assert len(queries) < COUNT / 8


def test_equal_files_are_stored_once_a_batch(sent: Run, stored: Counter[str]) -> None:
    services.run_do(sent.pk, unpacking.upload_unpack)

    assert len(stored) == DIFFERENT
    assert max(stored.values()) <= BATCHES
    for sha256 in stored:
        with storage.blob_open(sha256) as file:
            assert file.read() in MEMBERS.values()


def test_they_are_read_in_few_runs_with_few_calls_of_the_engine(sent: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    call = engine_calls.engine_call

    def counted(work: Any, name: str, *given: Any, **arguments: Any) -> Any:
        calls[name] += 1
        return call(work, name, *given, **arguments)

    monkeypatch.setattr(engine_calls, "engine_call", counted)
    services.run_do(sent.pk, unpacking.upload_unpack)
    queued = list(Run.objects.filter(kind=Run.Kind.PARSE).order_by("pk"))
    for run in queued:
        services.run_do(run.pk, artifacts_parse)

    assert len(queued) == BATCHES
    assert sum(calls.values()) <= COUNT / 64 + BATCHES
    assert not Artifact.objects.exclude(state=Artifact.State.PARSED).exists()


def test_an_archive_gives_its_turn_back_between_batches_and_no_file_is_there_twice(
    sent: Run, stored: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as busy:  # its share is used when the first batch is there, and others hold the slots
        busy.setattr(Work, "is_share_used", property(lambda _: Artifact.objects.exists()))
        busy.setattr(slots, "take", lambda: None)
        services.run_do(sent.pk, unpacking.upload_unpack)
    sent.refresh_from_db()
    first_ids = set(Artifact.objects.values_list("pk", flat=True))
    assert (sent.state, sent.is_long, sent.own_tries, len(first_ids)) == (Run.State.QUEUED, True, 0, 500)
    assert Upload.objects.get().state == Upload.State.RECEIVED

    stored.clear()
    services.run_do(sent.pk, unpacking.upload_unpack)
    assert sum(stored.values()) <= COUNT - 500  # it goes on where it stopped
    rows = dict(Artifact.objects.values_list("pk", "path"))
    assert first_ids < set(rows)
    assert sorted(rows.values()) == sorted(MEMBERS)
    assert Upload.objects.get().state == Upload.State.SETTLED


@pytest.mark.parametrize("is_of_the_same_job", [False, True])
def test_a_single_process_gives_way_to_short_work_of_others_and_goes_on_later(
    sent: Run, monkeypatch: pytest.MonkeyPatch, is_of_the_same_job: bool
) -> None:
    if is_of_the_same_job:
        services.artifact_receive(job=sent.job, path="neighbour.log", chunks=[b"a\n"])
    else:
        Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)
    monkeypatch.setattr(slots, "is_alone", lambda: True)
    monkeypatch.setattr("ingest.services.work.SHORT_S", 0.0)
    services.run_do(sent.pk, unpacking.upload_unpack)
    sent.refresh_from_db()
    assert (sent.state, sent.upload.artifacts.count()) == (Run.State.QUEUED, 500)

    monkeypatch.setattr("ingest.services.work.SHORT_S", 3.0)
    services.run_do(sent.pk, unpacking.upload_unpack)
    assert sent.upload.artifacts.count() == COUNT


def test_members_are_no_unit_with_other_files(sent: Run) -> None:
    services.artifact_receive(job=sent.job, path="before.log", chunks=[b"a\n"])
    services.run_do(sent.pk, unpacking.upload_unpack)
    services.artifact_receive(job=sent.job, path="after.log", chunks=[b"b\n"])
    units = dict(Artifact.objects.filter(upload__is_archive=False).values_list("path", "run"))
    assert len(set(units.values())) == 1
    assert not Artifact.objects.filter(upload=sent.upload, run__in=units.values()).exists()


def test_a_long_run_gives_its_slot_to_another_long_one(sent: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Run.objects.create(job=make_job(), kind=Run.Kind.UNPACK, is_long=True)
    monkeypatch.setattr("ingest.services.work.LONG_TURN_S", 0.0)
    services.run_do(sent.pk, unpacking.upload_unpack, slots.take())
    sent.refresh_from_db()
    assert (sent.state, Artifact.objects.count()) == (Run.State.QUEUED, 500)


def test_members_that_were_not_recorded_are_read_again(sent: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(unpacking, "artifacts_add", _disk_is_full)
        services.run_do(sent.pk, unpacking.upload_unpack)
    assert not Artifact.objects.exists()

    services.run_do(sent.pk, unpacking.upload_unpack)
    assert Artifact.objects.count() == COUNT


def _disk_is_full(**_: Any) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_sentences_about_members_are_there_once_after_several_turns(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)
    monkeypatch.setattr(unpacking, "_BATCH_SIZE", 10)
    members = {f"{'../' if n % 7 == 3 else ''}{n}.log": b"%d\n" % n for n in range(40)}
    services.artifact_receive(job=job, path="all.tar", chunks=[tar_of(members)])
    run = Run.objects.get(kind=Run.Kind.UNPACK)
    with monkeypatch.context() as busy:
        busy.setattr(Work, "is_share_used", property(lambda _: Artifact.objects.exists()))
        busy.setattr(slots, "take", lambda: None)
        services.run_do(run.pk, unpacking.upload_unpack)
    assert Artifact.objects.count() == 10
    services.run_do(run.pk, unpacking.upload_unpack)
    assert Artifact.objects.count() == 34
    assert sorted(RunLog.objects.values_list("path", flat=True)) == sorted(n for n in members if n.startswith("../"))
    assert Upload.objects.get().problem.startswith("6 of 40")


def test_what_killed_workers_stored_and_did_not_record_is_deleted_by_the_next_one(sent: Run, tmp_path: Path) -> None:
    services.run_do(sent.pk, unpacking.upload_unpack)
    run = Run.objects.filter(kind=Run.Kind.PARSE).earliest("pk")
    first = run.artifacts.earliest("pk")
    left = [parse_results.key_together(first, run, tries) for tries in (1, 2)]
    for key in left:
        folder = tmp_path / Path(key).name
        folder.mkdir()
        (folder / "columns.parquet").write_bytes(b"half")
        storage.directory_take(key, folder, storage.PARSED_FILES)
    Run.objects.filter(pk=run.pk).update(tries=2)
    assert all(map(storage.directory_names, left))

    services.run_do(run.pk, artifacts_parse)

    assert not any(map(storage.directory_names, left))
    assert not run.artifacts.filter(settled_at=None).exists()


class Progress:
    """Takes the rows of a reader, without a site."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []

    def advance(self, amount: int) -> None:
        """Progress is of no interest here."""

    def ask(self, _: str, rows: list[list[Any]]) -> None:
        self.rows += rows


def test_the_reader_makes_one_file_of_many_equal_members(tmp_path: Path) -> None:
    source, folder = tmp_path / "all.tar", tmp_path / "members"
    source.write_bytes(tar_of({f"rank{n}.log": b"x\n" if n else b"other\n" for n in range(150)}))
    folder.mkdir()
    worker = Progress()

    inside.unpack(worker, source=str(source), path="all.tar", limits=archives.Limits(), folder=str(folder))

    assert len(worker.rows) == 150
    assert [bool(row[3]) for row in worker.rows].count(True) == len(list(folder.iterdir())) == 2
    assert {row[4] for row in worker.rows} == {sha(b"x\n"), sha(b"other\n")}

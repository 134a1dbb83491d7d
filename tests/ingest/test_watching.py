"""A running job is watched: its step time is known, a hang raises an alarm and has the evidence of now diagnosed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from diagnosis.live import decode_state
from ingest.isolation import ReaderLost
from ingest.models import Artifact, Job, Upload, Watch
from ingest.services import job_create, resuming, watching

pytestmark = pytest.mark.django_db(transaction=True)
BEGAN = datetime(2026, 11, 22, 3, tzinfo=UTC)


class Clock:
    """The time that the watch believes."""

    def __init__(self) -> None:
        self.at = BEGAN

    def now(self) -> datetime:
        return self.at

    def on(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watching.timezone, "now", clock.now)
    return clock


@pytest.fixture
def upload(job: Job) -> Upload:
    return resuming.upload_begin(job=job, path="node-1/train.log", size_bytes=None)


@pytest.fixture
def write(upload: Upload) -> Callable[[bytes], None]:
    """The job's log grows."""

    def send(data: bytes) -> None:
        upload.refresh_from_db()
        with closing(resuming.Piece(upload, resuming.upload_offset(upload), len(data))) as piece:
            piece.write(data)
            piece.finish()

    return send


def step(n: int, at: datetime) -> bytes:
    return f"{at:%Y-%m-%d %H:%M:%S},000 INFO iteration {n}/1000 loss 2.5\n".encode()


def trained(write: Callable[[bytes], None], upload: Upload, clock: Clock, first: int, last: int) -> None:
    for n in range(first, last + 1):
        clock.on(2)
        write(step(n, clock.at))
        watching.attempt_observe(upload.attempt_id)


def test_a_training_job_has_a_step_time_and_no_alarm(write: Any, upload: Upload, clock: Clock) -> None:
    trained(write, upload, clock, 1, 12)
    watch = Watch.objects.get()
    assert (watch.iteration, watch.step_s, watch.stage, watch.alarm) == (12, 2.0, "training", "")
    assert watch.advanced_at == clock.at
    assert not Artifact.objects.exists(), "nothing to diagnose while all is well"


def test_a_progress_bar_that_stops_is_a_hang(write: Any, upload: Upload, clock: Clock) -> None:
    for n in range(1, 40):
        clock.on(2)
        write(f"\rEpoch 1: {n:3d}%|{'#' * (n // 10):10s}| {n}/100 [00:{n:02d}<00:12,  2.00s/it]".encode())
        watching.attempt_observe(upload.attempt_id)
    assert (Watch.objects.get().iteration, Watch.objects.get().alarm) == (38, ""), "the last state may go on"
    clock.on(3 * 2 + 15)
    watching.watches_judge()
    assert Watch.objects.get().alarm == "hang"


def test_a_hang_raises_an_alarm_and_has_the_evidence_of_now_diagnosed(write: Any, upload: Upload, clock: Clock) -> None:
    trained(write, upload, clock, 1, 12)
    clock.on(3 * 2 + 15)
    watching.watches_judge()
    watch = Watch.objects.get()
    assert (watch.alarm, watch.alarm_since) == ("hang", BEGAN + timedelta(seconds=24))
    assert "No progress after iteration 12" in watch.alarm_text
    artifact = Artifact.objects.get()
    assert (artifact.path, artifact.lines, artifact.is_superseded) == ("node-1/train.log", 12, False)
    job = Job.objects.get()
    assert job.is_diagnosis_wanted or job.diagnosing_revision == job.revision


def test_a_hang_that_goes_on_copies_no_file_again(
    write: Any, upload: Upload, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    put = watching.storage.blob_put
    monkeypatch.setattr(watching.storage, "blob_put", lambda path, digest: (copied.append(digest), put(path, digest)))
    trained(write, upload, clock, 1, 12)

    def waits(minutes: int) -> int:
        for _ in range(minutes):
            clock.on(60)
            watching.watches_judge()
        return Job.objects.get().revision

    assert waits(1) < waits(5), "it is diagnosed again: it has lasted for five minutes"
    assert len(copied) == 1
    write(b"a line that is no progress\n")
    waits(25)
    assert len(copied) == 2


def test_an_alarm_ends_when_training_continues_and_the_whole_file_takes_its_place_at_the_end(
    write: Any, upload: Upload, clock: Clock
) -> None:
    trained(write, upload, clock, 1, 12)
    clock.on(60)
    watching.watches_judge()
    trained(write, upload, clock, 13, 20)
    assert Watch.objects.get().alarm == ""
    upload.refresh_from_db()
    resuming.upload_close(upload=upload)
    standing = Artifact.objects.filter(is_superseded=False).get()
    assert (standing.lines, standing.state) == (20, "parsed")
    assert watching.attempts_due() == []


@pytest.mark.parametrize("is_chain", [False, True], ids=["next attempt", "next job of a chain"])
def test_a_job_begins_with_what_is_known_of_its_earlier_pauses(
    job: Job, write: Any, upload: Upload, clock: Clock, is_chain: bool
) -> None:
    trained(write, upload, clock, 1, 12)
    write(f"{clock.at:%Y-%m-%d %H:%M:%S},500 INFO saving checkpoint\n".encode())
    clock.on(30)
    trained(write, upload, clock, 13, 14)
    other = job_create(name="Another run", slug="another-run")
    later = job_create(name=job.name, slug="night-run-2") if is_chain else job
    known = [_stages(one, clock, attempt) for one, attempt in ((other, 0), (later, 0 if is_chain else 1))]
    assert known == [{}, {"checkpoint_save": [[12, 31.5, 31.5]]}]


def test_of_a_chain_of_jobs_the_last_one_counts(job: Job, upload: Upload, clock: Clock) -> None:
    for n, slug in enumerate(("first", "second")):
        _stages(job_create(name=job.name, slug=slug), clock, 0)
        watch = Watch.objects.get(attempt__job__slug=slug)
        watch.state["watches"]["hang"]["stages"] = {"evaluation": [[n, 9.0, 9.0]]}
        watch.save()
    assert _stages(job_create(name=job.name, slug="third"), clock, 0) == {"evaluation": [[1, 9.0, 9.0]]}


def _stages(job: Job, clock: Clock, attempt: int) -> Any:
    """What a new attempt of ``job`` knows of stages."""
    upload = resuming.upload_begin(job=job, path="node-1/train.log", size_bytes=None, attempt=attempt)
    with closing(resuming.Piece(upload, 0)) as piece:
        piece.write(step(12, clock.at))
        piece.finish()
    watching.attempt_observe(upload.attempt_id)
    return Watch.objects.get(attempt=upload.attempt_id).state["watches"]["hang"].get("stages", {})


def test_half_a_line_is_read_when_its_other_half_has_come(write: Any, upload: Upload, clock: Clock) -> None:
    line = step(1, clock.at)
    write(line[:20])
    watching.attempt_observe(upload.attempt_id)
    assert Upload.objects.get().observed_bytes == 0
    write(line[20:])
    watching.attempt_observe(upload.attempt_id)
    assert Upload.objects.get().observed_bytes == len(line)


def test_zero_bytes_and_a_cut_character_do_not_hide_the_steps_around_them(
    write: Any, upload: Upload, clock: Clock
) -> None:
    character = "é".encode()
    write(step(1, clock.at) + b"\0" * 4096 + b"\n" + character[:1])
    watching.attempt_observe(upload.attempt_id)
    clock.on(2)
    write(character[1:] + b" \xff\n" + step(2, clock.at))
    watching.attempt_observe(upload.attempt_id)
    assert Watch.objects.get().iteration == 2
    assert watching.attempts_due() == []


@pytest.mark.parametrize(
    ("wrap", "encoding"),
    [
        (lambda line, n: line, "utf-16"),
        (lambda line, n: line, "utf-16-be"),
        (
            lambda line, n: json.dumps({"log": line, "stream": "stderr", "time": f"2026-11-22T03:00:{n:02d}Z"}) + "\n",
            "utf-8",
        ),
        (
            lambda line, n: f"__REALTIME_TIMESTAMP={1763780400 + n}000000\n_HOSTNAME=node-1\nMESSAGE={line}\n",
            "utf-8",
        ),
    ],
    ids=["utf-16 with a mark", "utf-16", "json lines", "journal export"],
)
def test_logs_whose_lines_are_not_plain_text_have_a_step_time_in_every_range(
    write: Any, upload: Upload, clock: Clock, wrap: Callable[[str, int], str], encoding: str
) -> None:
    whole = "".join(wrap(step(n, clock.at + timedelta(seconds=n)).decode(), n) for n in range(1, 21)).encode(encoding)
    for at in range(0, len(whole), 301):
        write(whole[at : at + 301])
        watching.attempt_observe(upload.attempt_id)
    upload.refresh_from_db()
    watch = Watch.objects.get()
    assert (watch.iteration, watch.step_s) == (20, 1.0)
    assert upload.observed_bytes == len(whole)
    (counter,) = watch.state["counters"].values()
    assert counter["advances"] == 19


def test_a_line_without_an_end_is_read_in_pieces(write: Any, upload: Upload, clock: Clock) -> None:
    write(b"x" * (2 << 20))
    watching.attempt_observe(upload.attempt_id)
    assert Upload.objects.get().observed_bytes == 2 << 20


def test_one_call_reads_the_files_of_a_look_and_a_bad_one_takes_nothing_from_the_others(
    job: Job, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def call(name: str, handlers: Any, again: Any, *, ranges: list[dict[str, Any]], **rest: Any) -> Any:
        asked.append([one["path"] for one in ranges])
        if "bad.log" in asked[-1]:
            raise ReaderLost("The reader died.")
        return isolation_call(name, handlers, again, ranges=ranges, **rest)

    isolation_call = watching.call_again
    monkeypatch.setattr(watching, "call_again", call)
    for path in ("a.log", "bad.log", "c.log"):
        one = resuming.upload_begin(job=job, path=path, size_bytes=None)
        with closing(resuming.Piece(one, 0)) as piece:
            piece.write(b"".join(step(n, clock.at + timedelta(seconds=n)) for n in range(9)))
            piece.finish()
    watching.attempt_observe(one.attempt_id)
    assert asked == [["a.log", "bad.log", "c.log"], ["a.log"], ["bad.log"], ["c.log"]]
    assert set(Watch.objects.get().state["sources"]) == {"a.log", "bad.log", "c.log"}
    assert Watch.objects.get().iteration == 8
    assert watching.attempts_due() == []


def test_only_what_is_new_is_read(write: Any, upload: Upload, clock: Clock) -> None:
    trained(write, upload, clock, 1, 3)
    assert watching.attempts_due() == []
    write(step(4, clock.at))
    assert watching.attempts_due() == [upload.attempt_id]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL plans by the size of the table")
def test_growing_files_are_found_without_a_look_at_all_that_ever_came(upload: Upload) -> None:
    with CaptureQueriesContext(connection) as asked:
        watching.attempts_due()
        watching.watches_judge()
    for query in asked:
        with connection.cursor() as cursor:
            plan = str(cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}").fetchall())
        assert "upload_state_attempt" in plan or "upload_open_once" in plan, plan


def test_one_worker_at_a_time_reads_an_attempt(write: Any, upload: Upload, clock: Clock) -> None:
    trained(write, upload, clock, 1, 3)
    Watch.objects.update(claimed_until=clock.at + timedelta(minutes=1))
    write(step(4, clock.at))
    watching.attempt_observe(upload.attempt_id)
    assert Watch.objects.get().iteration == 3
    clock.on(120)
    watching.attempt_observe(upload.attempt_id)
    assert Watch.objects.get().iteration == 4


def test_a_look_that_lost_its_attempt_stores_nothing_and_frees_nothing(
    write: Any, upload: Upload, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(write, upload, clock, 1, 3)
    write(step(4, clock.at))
    theirs = clock.at + timedelta(minutes=20)

    def slow(grown: Any, time_zone: str) -> Any:
        Watch.objects.update(claimed_until=theirs)  # the claim had run out
        return seen(grown, time_zone)

    seen = watching._observations
    monkeypatch.setattr(watching, "_observations", slow)
    watching.attempt_observe(upload.attempt_id)
    watch = Watch.objects.get()
    assert (watch.iteration, watch.claimed_until) == (3, theirs)
    assert watching.attempts_due() == [upload.attempt_id]


def test_a_judgement_of_an_older_state_replaces_no_newer_one(write: Any, upload: Upload, clock: Clock) -> None:
    trained(write, upload, clock, 1, 3)
    old = Watch.objects.select_related("attempt").get()
    trained(write, upload, clock, 4, 6)
    watching._judge(old, decode_state(old.state, 0.0), clock.at + timedelta(seconds=1))
    assert Watch.objects.get().iteration == 6


def test_an_error_with_nul_is_kept_as_text_that_every_database_takes(write: Any, upload: Upload, clock: Clock) -> None:
    write(b"2026-11-22 03:00:01,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\x00x\n")
    watching.attempt_observe(upload.attempt_id)
    watch = Watch.objects.get()
    assert watch.alarm == "error"
    assert "\x00" not in watch.alarm_text + str(watch.state["watches"]["error"])


def test_what_a_range_said_is_kept_if_the_worker_dies_right_after_it(
    write: Any, upload: Upload, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(1, 8):
        clock.on(2)
        write(step(n, clock.at))

    def killed(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(watching, "_judge", killed)
    with pytest.raises(SystemExit):
        watching.attempt_observe(upload.attempt_id)
    monkeypatch.undo()
    monkeypatch.setattr(watching.timezone, "now", clock.now)
    assert watching.attempts_due() == [], "the range is not read again"
    watching.watches_judge()
    assert Watch.objects.get().iteration == 7

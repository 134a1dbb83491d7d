"""The front of the site: who may send a body, how slowly, and that no thread waits for bytes or for readers."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.http import StreamingHttpResponse

from ingest import services, temp_files
from ingest.models import Artifact, Upload
from ingest.services import resuming
from tests.factories import make_job, make_user
from tests.ingest.conftest import LOG, sha
from tests.patience import PATIENCE_S
from tests.triage.connections import Line
from triage.server import front as fronts
from triage.server.body_reader import Pace
from triage.server.front import Front, Limits
from triage.server.pages import _in_pieces, _read_whole

BIG = LOG * 20
assert len(BIG) > fronts.SMALL_BYTES


class Here:
    """Instead of a pool of threads: the test's own thread, whose transaction holds the rows."""

    def __init__(self) -> None:
        self.work: queue.Queue[Any] = queue.Queue()

    def submit(self, do: Callable[..., Any], *given: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.work.put((done, do, given))
        return done

    def until_ended(self, act: Coroutine[Any, Any, None]) -> None:
        """Run ``act`` on an event loop in another thread, and what it submits in this one."""
        loop = threading.Thread(target=lambda: (asyncio.run(act), self.work.put(None)))
        loop.start()
        while (job := self.work.get(timeout=PATIENCE_S)) is not None:
            done, do, given = job
            try:
                done.set_result(do(*given))
            except Exception as error:
                done.set_exception(error)
        loop.join()


@pytest.fixture(autouse=True)
def own_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Bodies on their way lie in a directory of this test, where no other test leaves any."""
    monkeypatch.setattr(temp_files, "folder", lambda name: made(tmp_path / name))


def made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def site(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    front = Front(limits=Limits(per_person=2))
    front._make = front._take = front._write = front._read = Here()  # type: ignore[assignment]
    monkeypatch.setattr(fronts, "close_old_connections", lambda: None)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield front
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def token(db: None) -> str:
    made = services.token_create(user=make_user("sender", "engineer"), name="t", scopes=["upload", "read"])
    return f"Bearer {made[1]}"


def parts() -> list[Path]:
    return list(temp_files.part_path("x").parent.iterdir())


def put(job: Any, *blocks: bytes, **headers: Any) -> Line:
    path = f"/api/v1/jobs/{job.slug}/artifacts/{sha(BIG)}?path=a.log"
    return Line("PUT", path, *blocks, content_type="application/octet-stream", **headers)


def test_a_process_says_that_it_lives_without_a_thread_and_without_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    front = Front()
    for pool in ("_make", "_take", "_write", "_read"):
        monkeypatch.setattr(front, pool, None)
    line = Line("GET", fronts.LIVE_PATH)
    asyncio.run(front(line.scope, line.receive, line.send))
    headers = dict(line.sent[0]["headers"])
    assert (line.status, json.loads(line.said)) == (200, {"status": "ok"})
    assert int(headers[b"content-length"]) == len(line.said)


def test_a_file_is_received_in_blocks_and_taken_in_when_it_is_whole(site: Front, token: str) -> None:
    line = put(make_job(), BIG[:5000], BIG[5000:], authorization=token).through(site)
    assert (line.status, line.is_closed) == (201, False)
    assert Artifact.objects.get().blob_id == sha(BIG)
    assert parts() == []


def test_each_answer_counts_by_its_view_with_its_status(
    site: Front, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[str, int]] = []
    monkeypatch.setattr(site.requests, "add", lambda route, status, seconds: counted.append((route, status)))
    for path in ("/api/v1/me/", "/no/such/address", "/healthz"):
        Line("GET", path, authorization=token).through(site)
    put(make_job(), BIG, authorization=token).through(site)
    assert counted[:3] == [("api-me", 200), ("other", 404), ("other", 200)]
    assert counted[3:] == [("api-artifact", 201)], "the check before the bytes is no request of its own"


def test_nobody_without_a_token_has_a_large_body_read(site: Front) -> None:
    line = put(make_job(), *[BIG] * 60, length=len(BIG) * 60).through(site)
    assert (line.status, line.is_closed) == (401, True)
    assert line.sent[0]["status"] == 401
    assert line.read <= fronts._LINGER_UNKNOWN[0] + len(BIG)  # what is read after the answer is thrown away
    assert not Upload.objects.exists()
    assert parts() == []


def test_a_file_for_a_job_that_is_not_there_is_refused_before_its_bytes(site: Front, token: str) -> None:
    line = Line("PUT", f"/api/v1/jobs/none/artifacts/{sha(BIG)}?path=a", BIG, authorization=token).through(site)
    assert (line.status, line.is_closed) == (404, True)


@pytest.mark.parametrize(("path", "known"), [("/sign-in/", False), ("/api/v1/jobs/", False), ("/api/v1/jobs/", True)])
def test_a_large_form_or_document_needs_a_known_sender(site: Front, token: str, path: str, known: bool) -> None:
    body = json.dumps({"name": "x"}).encode().ljust(70_000)
    more = {"authorization": token} if known else {}
    line = Line("POST", path, body, content_type="application/json", **more).through(site)
    assert (line.status, line.is_closed) == ((201, False) if known else (401, True))


def test_a_document_is_never_larger_than_the_site_takes_of_one(site: Front, token: str) -> None:
    body = bytes(3 << 20)
    line = Line("POST", "/api/v1/jobs/", body, content_type="application/json", authorization=token).through(site)
    assert (line.status, line.is_closed) == (413, True)


def test_a_view_that_takes_no_bytes_never_runs_for_an_admission(site: Front, token: str, monkeypatch: Any) -> None:
    made: list[Any] = []
    monkeypatch.setattr("ingest.services.job_create", lambda **said: made.append(said))
    Line("POST", "/api/v1/jobs/", BIG, length=len(BIG) * 9, authorization=token).through(site)
    assert made == []


def test_a_form_with_files_is_checked_for_its_token_when_it_is_whole(site: Front, token: str) -> None:
    from django.test import Client

    client = Client()
    client.force_login(make_user("person", "engineer"))
    cookie = f"sessionid={client.cookies['sessionid'].value}; csrftoken={'c' * 32}"
    kind = "multipart/form-data; boundary=x"
    field = '--x\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
    for secret, status in (("c" * 32, 302), ("d" * 32, 403)):
        fields = field.format("csrfmiddlewaretoken", "") + secret + "\r\n" + field.format("name", "") + "Form\r\n"
        body = (fields + field.format("files", '; filename="a.log"')).encode() + BIG + b"\r\n--x--\r\n"
        line = Line("POST", "/upload/", body[:9000], body[9000:], content_type=kind, cookie=cookie).through(site)
        assert line.status == status
    assert Artifact.objects.get().blob_id == sha(BIG)
    assert parts() == []


@pytest.mark.parametrize("body", [LOG[:2000], BIG])
def test_bytes_of_a_growing_file_use_no_thread_that_makes_pages(
    site: Front, token: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = Here()
    monkeypatch.setattr(pages, "until_ended", site._take.until_ended)  # type: ignore[attr-defined]
    monkeypatch.setattr(site, "_make", pages)
    upload = resuming.upload_begin(job=make_job(), path="a.log", size_bytes=None)
    kind = "application/offset+octet-stream"
    headers = {"authorization": token, "content_type": kind, "upload_offset": "0"}
    line = Line("PATCH", f"/api/v1/uploads/{upload.pk}", body, **headers)  # type: ignore[arg-type]
    assert (line.through(site).status, pages.work.qsize()) == (204, 0)
    assert resuming.upload_offset(upload) == len(body)


@pytest.mark.parametrize("size", [20, 70_000])
def test_a_request_with_a_body_counts_once(site: Front, token: str, same_minute: None, size: int) -> None:
    def document() -> Line:
        body = json.dumps({"name": "x"}).encode().ljust(size)
        return Line("POST", "/api/v1/jobs/", body, content_type="application/json", authorization=token)

    for sent in (document, lambda: put(make_job(), BIG, authorization=token)):
        lines = [sent().through(site) for _ in range(2)]
        left = [int(dict(line.sent[0]["headers"])[b"RateLimit-Remaining"]) for line in lines]
        assert left[0] - left[1] == 1


def test_a_resumable_upload_keeps_what_came_before_the_connection_broke(site: Front, token: str) -> None:
    upload = resuming.upload_begin(job=make_job(), path="a.log", size_bytes=len(BIG))
    headers = {"authorization": token, "content_type": "application/offset+octet-stream"}
    path = f"/api/v1/uploads/{upload.pk}"
    first = Line("PATCH", path, BIG[:100_000], length=len(BIG), upload_offset="0", **headers).through(site)
    assert (first.status, resuming.upload_offset(upload)) == (0, 100_000)
    upload.refresh_from_db()
    assert upload.offset_bytes == 100_000
    second = Line("PATCH", path, BIG[100_000:], upload_offset="100000", **headers).through(site)
    assert second.status == 204
    assert Artifact.objects.get().blob_id == sha(BIG)


def test_a_sender_that_falls_silent_is_ended_with_a_sentence_and_leaves_nothing(
    site: Front, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fronts, "Pace", lambda rate, limit: Pace(rate, limit, window_s=0.05))
    line = put(make_job(), BIG[:50], length=len(BIG), authorization=token)
    line.goes_silent = True
    line.through(site)
    assert (line.status, line.is_closed) == (408, True)
    assert b"too slowly" in line.said
    assert parts() == []


def test_a_full_disk_is_reported_as_one_and_the_rest_is_not_kept(site: Front, token: str, monkeypatch: Any) -> None:
    from ingest import storage

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.Part, "write", full)
    for blocks, is_closed in (([BIG], False), ([BIG] * 9, True)):  # a small body came whole before it was written
        line = put(make_job(), *blocks, authorization=token).through(site)
        assert (line.status, line.is_closed) == (507, is_closed)
        assert parts() == []


def test_a_full_disk_is_reported_to_a_slow_sender_though_the_rest_never_comes(
    site: Front, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest import storage

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.Part, "write", full)
    monkeypatch.setattr(fronts, "_BLOCK_S", 0.01)
    line = put(make_job(), BIG, length=2 * len(BIG), authorization=token)
    line.goes_silent = True
    assert (line.through(site).status, line.is_closed) == (507, True)
    assert parts() == []


def test_a_body_in_many_pieces_is_written_in_few_and_not_a_byte_is_lost(
    site: Front, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, sizes = resuming.Piece.write, list[int]()
    monkeypatch.setattr(resuming.Piece, "write", lambda piece, data: (sizes.append(len(data)), write(piece, data)))
    upload = resuming.upload_begin(job=make_job(), path="a.log", size_bytes=None)
    body = bytes(n % 251 for n in range(600_000))
    pieces = [body[at : at + 7_000] for at in range(0, len(body), 7_000)]
    headers = {"authorization": token, "content_type": "application/offset+octet-stream", "upload_offset": "0"}
    line = Line("PATCH", f"/api/v1/uploads/{upload.pk}", *pieces, **headers)  # type: ignore[arg-type]
    assert line.through(site).status == 204
    assert (len(sizes), sum(sizes)) == (3, len(body))
    assert resuming.part_path_of(upload).read_bytes() == body


def test_one_person_has_so_many_bodies_on_the_way_and_no_more(site: Front, token: str) -> None:
    user = Artifact._meta.apps.get_model("auth", "User").objects.get(username="sender")
    site._large[user.pk] = 2
    line = put(make_job(), BIG, authorization=token).through(site)
    assert (line.status, line.is_closed) == (429, True)
    assert site._large[user.pk] == 2
    assert parts() == []


def test_a_body_without_a_length_is_refused_unread(site: Front) -> None:
    line = Line("POST", "/sign-in/", b"x", transfer_encoding="chunked").through(site)
    assert (line.status, line.read) == (411, 1)


@pytest.mark.parametrize("size", [1, 3 * fronts.SMALL_BYTES])
def test_a_collector_may_send_no_length_within_the_limit(site: Front, token: str, settings: Any, size: int) -> None:
    settings.COLLECTOR_MAX_BYTES = 4 * fronts.SMALL_BYTES

    def push(size: int, **headers: str) -> Line:
        blocks = [b"10:00:00 " + b"x" * size, b"\n"]
        line = Line("POST", "/api/v1/lines/", *blocks, transfer_encoding="chunked", faultline_job="4711", **headers)
        line.scope["headers"] = [row for row in line.scope["headers"] if row[0] != b"content-length"]
        return line.through(site)

    assert json.loads(push(size, authorization=token).said)["stored"] == 1
    assert push(size).status == 401
    line = push(8 * fronts.SMALL_BYTES, authorization=token)
    assert (line.status, line.is_closed) == (413, True)
    assert b"more than 262,144 bytes" in line.said


def test_a_reader_who_takes_nothing_holds_no_thread(site: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "_MAX_UNREAD_S", 0.05)
    threads: list[str] = []

    def blocks() -> Iterator[bytes]:
        for _ in range(100):
            threads.append(threading.current_thread().name)
            yield bytes(300_000)

    response = StreamingHttpResponse(blocks())
    closed: list[int] = []
    response.close = lambda: closed.append(1)  # type: ignore[method-assign]

    async def never(_: Any) -> None:
        await asyncio.sleep(3600)

    async def stream() -> None:
        answer = _in_pieces(response, [])
        line = Line("GET", "/")
        line.goes_silent = True
        await site._stream(answer, line.receive, never)

    site._make.until_ended(stream())  # type: ignore[attr-defined]
    assert (len(threads), closed) == (1, [1])


def test_rows_are_read_to_their_end_before_the_first_leaves(site: Front) -> None:
    ended: list[int] = []

    def rows() -> Iterator[bytes]:
        yield from (b"row\n" for _ in range(400_000))
        ended.append(1)

    answer = _read_whole(StreamingHttpResponse(rows()), [])
    assert ended == [1]
    assert answer.rest is not None
    assert len(answer.first) + sum(map(len, answer.rest)) == 1_600_000
    answer.close()

"""Hostile batches: each gets a sentence, costs bounded memory and harms no other line."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
import zstandard

from ingest import storage
from ingest.models import Artifact, Job, Upload
from ingest.refusals import Refused
from ingest.services import collecting, resuming, watching
from ingest.wire import json_lines, loki, otlp
from ingest.wire.inflating import inflate
from ingest.wire.routing import Rules, place_of, slug_of
from tests.ingest.test_collectors import JSON, PROTOBUF, T0, content, lines, partial, push, request_of
from tests.ingest.test_collectors import otlp as send
from tests.patience import no_hang, steps_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]

RULES = Rules.of({}.get)
_ZEROS = bytes(1 << 20)


@cache
def gzip_bomb() -> bytes:
    maker = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(maker.compress(_ZEROS) for _ in range(200)) + maker.flush()


def zstd_bomb() -> bytes:
    maker = zstandard.ZstdCompressor().compressobj()
    return b"".join(maker.compress(_ZEROS) for _ in range(200)) + maker.flush()


@pytest.mark.parametrize(
    ("coding", "body_of"),
    [
        ("gzip", gzip_bomb),
        ("zstd", zstd_bomb),
        ("snappy", lambda: b"\xff\xff\xff\xff\x0f" + bytes(100)),
        ("gzip", lambda: gzip.compress(gzip_bomb()) * 3),
        ("gzip", lambda: gzip.compress(b"") * 50_000),
    ],
    ids=["gzip", "zstd", "snappy that states 4 GB", "several members", "empty members"],
)
def test_a_decompression_bomb_costs_no_more_than_the_limit(api: Any, settings: Any, coding: str, body_of: Any) -> None:
    settings.COLLECTOR_MAX_BYTES = 2 << 20
    body = body_of()
    tracemalloc.start()
    try:
        with no_hang():
            answer = api.post("/v1/logs", body, content_type=PROTOBUF, headers={"Content-Encoding": coding})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code in (200, 400, 413)
    assert peak < 16 << 20


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(api: Any, settings: Any) -> None:
    settings.COLLECTOR_MAX_BYTES = 1 << 16
    answer = send(api, request_of((T0, "x" * 100_000)))
    assert answer.status_code == 413
    assert b"more than 65,536 bytes" in answer.content
    assert push(api, [{"stream": {}, "values": [[str(T0), "x" * 100_000]]}]).status_code == 413


def test_a_very_long_line_is_stored_and_watched_in_pieces(api: Any) -> None:
    assert send(api, request_of((T0, "10:00:00 " + "x" * (9 << 20)))).status_code == 200
    upload = Upload.objects.get()
    watching.attempt_observe(upload.attempt_id)
    upload.refresh_from_db()
    assert upload.observed_bytes == upload.offset_bytes > 9 << 20


def test_thirty_thousand_sources_get_a_sentence_and_the_limit_of_files(api: Any, settings: Any) -> None:
    settings.COLLECTOR_SOURCES = 20
    rows = b"".join(b'{"msg":"10:00:00 a","job_id":"1","host":"n%d"}\n' % n for n in range(30_000))
    with no_hang():
        said = lines(api, rows).json()
    assert (said["stored"], said["refused"]) == (20, 29_980)
    assert "20 growing files, the limit of this server" in said["sentence"]
    assert Upload.objects.count() == 20
    again = lines(api, b'{"msg":"10:00:01 b","job_id":"1","host":"n0"}\n').json()
    assert again["stored"] == 1, "known files still grow"


def test_a_file_that_never_ends_is_complete_at_its_limit_and_goes_on_in_the_next(api: Any, settings: Any) -> None:
    settings.COLLECTOR_FILE_BYTES = 4_000
    sent = []
    for batch in range(8):
        rows = [f"03:{batch:02d}:{n:02d} iteration {50 * batch + n}" for n in range(50)]
        body = "".join(
            json.dumps({"msg": row, "job_id": "1", "host": "n0", "time": T0 // 10**9}) + "\n" for row in rows
        )
        for _ in range(2):  # each batch comes twice
            assert lines(api, body.encode()).json()["refused"] == 0
        sent += rows
    assert Artifact.objects.count() >= 2
    assert Upload.objects.filter(state=Upload.State.RECEIVING).count() == 1
    growing = resuming.part_path_of(Upload.objects.get(state=Upload.State.RECEIVING)).read_text()
    stored = [storage.blob_range(one.blob_id, 0, 1 << 20).decode() for one in Artifact.objects.order_by("pk")]
    assert all(len(text) <= 4_000 for text in [*stored, growing])
    assert "".join([*stored, growing]).splitlines() == sent
    huge = "".join(json.dumps({"msg": f"{n} {'x' * 90}", "job_id": "1", "host": "n0"}) + "\n" for n in range(99))
    said = lines(api, huge.encode()).json()
    assert said["refused"] == 99
    assert "more than 4,000 bytes at once" in said["sentence"]


def test_labels_with_a_new_value_each_line_make_no_endless_jobs(api: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(collecting, "MAX_NEW_JOBS_AN_HOUR", 3)
    rows = b"".join(b'{"msg":"10:00:00 a","job_id":"run%d"}\n' % n for n in range(50))
    said = lines(api, rows).json()
    assert (said["stored"], said["refused"], Job.objects.count()) == (3, 47, 3)
    assert "you made 3 jobs within an hour" in said["sentence"]


@pytest.mark.parametrize(
    "hostile",
    [
        "../../etc/passwd",
        "/../..",
        "a\0b\nc\r\x1b[31m",
        "\u202egnp.exe",
        "x" * 100_000,
        "/".join("abc" * 50 for _ in range(100)),
        "C:\\logs\\run.log",
        "<script>alert(1)</script>",
        "训练/任务",
        "\u2028\u200b",
    ],
)
def test_hostile_labels_become_plain_names(api: Any, hostile: str) -> None:
    body = json.dumps({"msg": "10:00:00 a", "job_id": f"j{hostile}", "host": hostile, "file": f"/logs/{hostile}/x.log"})
    said = lines(api, body.encode()).json()
    assert (said["stored"], said["refused"]) == (1, 0)
    upload = Upload.objects.get()
    assert ".." not in upload.path.split("/")
    assert len(upload.path) < 1000
    assert not set(upload.path + upload.job.name) & set("\0\n\r\x1b\u202e\u2028\u200b")
    assert len(upload.job.slug) <= 120
    resuming.upload_close(upload=Upload.objects.select_related("job", "attempt").get())


def test_names_that_differ_get_ids_that_differ() -> None:
    names = ["a/b", "a-b", "a b", "训练", "任务", "A-B", "a--b", "x" * 300, "x" * 301, "../a", ""]
    assert len({slug_of(name) for name in names}) == len(names)
    assert slug_of("4711") == "4711"


def test_times_in_the_future_are_replaced_with_a_warning(api: Any) -> None:
    began = datetime.now(UTC)
    far = int(began.timestamp() + 10 * 86_400) * 10**9
    said = partial(send(api, request_of((far, "from the future"), (T0, "now"))))
    assert said.rejected_log_records == 0
    assert "1 are dated more than a day in the future" in said.error_message
    written = datetime.fromisoformat(content().splitlines()[1].split()[0])
    assert began <= written <= datetime.now(UTC)


@pytest.mark.parametrize("at", [2**64 - 1, 2**63, 0, 1])
def test_no_time_breaks_a_batch(api: Any, at: int) -> None:
    assert send(api, request_of((at, "a"))).status_code == 200
    for stamp in (str(at), "-5", "1e9", "²", "9" * 40, "NaN"):
        assert push(api, [{"stream": {"job_id": "1"}, "values": [[stamp, "a"]]}]).status_code == 204
        row = json.dumps({"msg": "a", "job_id": "1", "time": stamp})
        assert lines(api, row.encode()).json()["stored"] == 1


def test_empty_messages_by_the_million_are_refused_at_once() -> None:
    empty = b"\x0a\x00" * (1 << 20)

    def refuse() -> None:
        for read in (otlp.streams, loki.streams):
            with pytest.raises(Refused, match="One request may have 200,000 records in 20,000 groups"):
                list(read(empty, RULES, is_json=False))
        with pytest.raises(Refused, match="send smaller batches"):
            list(json_lines.streams(b"a\n" * (1 << 20), RULES))

    assert steps_of(refuse) < 10_000


def test_deep_nesting_is_refused_or_read_as_text(api: Any) -> None:
    deep = b'{"kvlistValue":{"values":[{"key":"a","value":' * 5000
    body = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":' + deep
    assert api.post("/v1/logs", body, content_type=JSON).status_code == 400
    nested = b'{"a":' * 50_000
    assert [text for s in json_lines.streams(nested, RULES) for text in s.rows.texts] == [nested]


def test_a_line_that_is_no_json_costs_no_other(api: Any) -> None:
    body = b'{"msg":"10:00:00 a"}\n{"msg": oops\n\xff\xfe\n[1]\n{"msg":"10:00:01 b"}\n'
    assert lines(api, body, **{"Faultline-Job": "x"}).json()["stored"] == 5
    assert content("output.log").splitlines()[0] == "10:00:00 a"


def test_numbers_and_lists_as_labels_place_nothing_odd() -> None:
    labels = {"job_id": "5", "rank": "²", "faultline_attempt": "99999999", "host": ""}
    assert place_of(labels, RULES) == ("5", 0, "rank².log")
    assert place_of({}, RULES) is None


@pytest.mark.parametrize("said", ["-1", "²", "999999999999", "x"])
def test_an_attempt_that_is_no_number_is_refused(api: Any, said: str) -> None:
    headers = {"Faultline-Attempt": said.encode().decode("latin-1")}
    answer = lines(api, b"a\n", "text/plain", **headers)
    assert answer.status_code == 422
    assert "whole number" in answer.json()["detail"]


@pytest.mark.parametrize(("coding", "empty"), [("gzip", gzip.compress(b"", mtime=0)), ("deflate", zlib.compress(b""))])
def test_a_body_of_very_many_empty_members_is_refused_at_once(coding: str, empty: bytes) -> None:
    many = empty * 100_000
    with pytest.raises(Refused, match="more than 256 members"), no_hang():
        inflate(many, coding, 1 << 20)

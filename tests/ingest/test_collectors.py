"""Collectors push lines: they end in the files of the right job, once, in order of time, whatever the protocol."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import cramjam
import pytest
import zstandard
from django.db import OperationalError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from rest_framework.test import APIClient

from ingest import services
from ingest.models import Artifact, Job, Upload
from ingest.services import appending, collecting, job_create, resuming, sweeping
from ingest.wire import loki
from tests.factories import make_cluster, make_team, make_user
from tests.ingest.conftest import sha
from tests.patience import no_hang

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]

SECOND = 10**9
T0 = 1_700_000_000 * SECOND
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def request_of(*lines: tuple[int, str], job: str = "4711", file: str = "/logs/rank0.log", **more: str) -> Any:
    """An OTLP request with the lines of one file of one node."""
    made = ExportLogsServiceRequest()
    resource = made.resource_logs.add()
    for key, value in {"slurm.job.id": job, "host.name": "node-1", "log.file.path": file, **more}.items():
        pair = resource.resource.attributes.add(key=key)
        pair.value.string_value = value
    scope = resource.scope_logs.add()
    for at, line in lines:
        record = scope.log_records.add(time_unix_nano=at)
        record.body.string_value = line
    return made


def otlp(api: Any, made: Any, **headers: str) -> Any:
    return api.post("/v1/logs", made.SerializeToString(), content_type=PROTOBUF, headers=headers)


def partial(response: Any) -> Any:
    return ExportLogsServiceResponse.FromString(response.content).partial_success


def push(api: Any, streams: list[Any], **headers: str) -> Any:
    return api.post("/loki/api/v1/push", json.dumps({"streams": streams}).encode(), content_type=JSON, headers=headers)


def lines(api: Any, body: bytes, kind: str = "application/x-ndjson", **headers: str) -> Any:
    return api.post("/api/v1/lines/", body, content_type=kind, headers=headers)


def content(path: str = "node-1/logs/rank0.log") -> str:
    upload = Upload.objects.get(path=path)
    data = resuming.part_path_of(upload).read_bytes()
    assert len(data) == upload.offset_bytes
    return data.decode()


def test_records_become_the_lines_of_a_growing_file_of_a_job_that_is_made(api: Any) -> None:
    answer = otlp(api, request_of((T0, "2023-11-14 22:13:20 INFO iteration 1"), (T0 + 1, "  tail")))
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, b"", PROTOBUF)
    job = Job.objects.get()
    assert (job.slug, job.name, job.declared_outcome) == ("4711", "4711", "running")
    assert content() == "2023-11-14 22:13:20 INFO iteration 1\n  tail\n"


def test_an_existing_job_gets_the_lines(api: Any, job: Any) -> None:
    otlp(api, request_of((T0, "a")), **{"Faultline-Job": job.slug, "Faultline-Attempt": "2"})
    assert Job.objects.get().pk == job.pk
    assert Upload.objects.get().attempt.number == 2


def test_a_repeated_batch_is_stored_once_and_a_new_one_of_equal_text_again(api: Any) -> None:
    batch = request_of((T0, "10:00:00 tick"), (T0 + SECOND, "10:00:01 tock"))
    for _ in range(3):
        assert otlp(api, batch).status_code == 200
    otlp(api, request_of((T0 + 60 * SECOND, "10:00:00 tick"), (T0 + 61 * SECOND, "10:00:01 tock")))
    assert content() == "10:00:00 tick\n10:00:01 tock\n" * 2


def test_a_batch_of_which_one_file_was_stored_is_completed_by_its_repeat(api: Any, monkeypatch: Any) -> None:
    whole = request_of((T0, "10:00:00 a"))
    whole.MergeFrom(request_of((T0, "10:00:00 b"), file="/logs/rank1.log"))
    monkeypatch.setattr(appending, "_MAX_TOGETHER", 1)
    write, calls = appending._write, []

    def full(file: Any, offset: int, data: bytes) -> None:
        calls.append(data)
        if len(calls) == 2:
            file.write(data[:3])
            file.flush()
            raise OSError(28, "No space left on device")
        write(file, offset, data)

    monkeypatch.setattr(appending, "_write", full)
    answer = otlp(api, whole)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5"), "a full disk is no reason to drop the batch"
    assert otlp(api, whole).status_code == 200
    assert (content(), content("node-1/logs/rank1.log")) == ("10:00:00 a\n", "10:00:00 b\n")


def test_bytes_of_a_request_that_was_killed_before_its_answer_are_not_doubled(api: Any, monkeypatch: Any) -> None:
    otlp(api, request_of((T0, "10:00:00 a")))
    part = resuming.part_path_of(Upload.objects.get())
    with part.open("ab") as file:
        file.write(b"10:00:01 b\n10:0")
    otlp(api, request_of((T0 + SECOND, "10:00:01 b")))
    assert content() == "10:00:00 a\n10:00:01 b\n"


def test_lines_are_in_order_of_time_within_a_batch(api: Any) -> None:
    otlp(api, request_of((T0 + 2, "10:00:02 c"), (T0, "10:00:00 a"), (0, "   of a"), (T0 + 1, "10:00:01 b")))
    assert content() == "10:00:00 a\n   of a\n10:00:01 b\n10:00:02 c\n"


def test_lines_without_a_time_get_the_time_and_level_of_their_record(api: Any) -> None:
    made = request_of((T0 + 1_500_000, "loss is NaN"))
    made.resource_logs[0].scope_logs[0].scope.name = "train.loop"
    record = made.resource_logs[0].scope_logs[0].log_records[0]
    record.severity_number = 17
    trace = record.attributes.add(key="exception.stacktrace")
    trace.value.string_value = "Traceback (most recent call last):\n  File"
    otlp(api, made)
    assert content() == (
        "2023-11-14T22:13:20.001500Z [ERROR] [train.loop] loss is NaN\n"
        "2023-11-14T22:13:20.001500Z Traceback (most recent call last):\n"
        "2023-11-14T22:13:20.001500Z   File\n"
    )


def test_json_says_what_protobuf_says(api: Any) -> None:
    records = [
        {"timeUnixNano": str(T0), "traceId": "5b8efff798038103d269b633813fc60c", "body": {"stringValue": "10:00:00 a"}},
        {
            "observedTimeUnixNano": T0 + 5,
            "body": {"kvlistValue": {"values": [{"key": "n", "value": {"intValue": "7"}}]}},
        },
    ]
    names = {"slurm_job_id": "4711", "host.name": "node-1", "log.file.path": "/logs/rank0.log"}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in names.items()]
    body = {
        "resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [{"logRecords": records}], "new": 1}]
    }
    answer = api.post("/v1/logs", json.dumps(body).encode(), content_type=JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert content() == '10:00:00 a\n{"n": "7"}\n'
    assert api.post("/v1/logs", b"", content_type=PROTOBUF).status_code == 200, "an empty request is a success"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd", "snappy"])
def test_compressed_bodies_are_read(api: Any, coding: str) -> None:
    pack = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "zstd": zstandard.ZstdCompressor().compress,
        "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    }[coding]
    body = pack(request_of((T0, "10:00:00 a")).SerializeToString())
    answer = api.post("/v1/logs", body, content_type=PROTOBUF, headers={"Content-Encoding": coding})
    assert answer.status_code == 200
    assert content() == "10:00:00 a\n"


def test_records_that_no_label_places_are_refused_with_a_sentence_and_the_rest_is_stored(api: Any) -> None:
    made = request_of((T0, "10:00:00 a"))
    made.MergeFrom(request_of((T0, "b"), (T0, "c"), job="", file="/x"))
    said = partial(otlp(api, made))
    assert said.rejected_log_records == 2
    assert "nothing names the job (labels: host_name, log_file_path, slurm_job_id)" in said.error_message
    assert content() == "10:00:00 a\n"


def test_an_unknown_job_may_be_refused(api: Any) -> None:
    said = partial(otlp(api, request_of((T0, "a")), **{"Faultline-New-Jobs": "refuse"}))
    assert said.rejected_log_records == 1
    assert "there is no job “4711”" in said.error_message
    assert not Job.objects.exists()


def test_a_streams_report_is_that_of_the_same_bytes_sent_at_once(api: Any) -> None:
    said = [f"2023-11-14 22:13:{n % 60:02d},000 INFO iteration {n}/99 loss 2.5" for n in range(99)]
    for first in range(0, 99, 7):
        otlp(api, request_of(*((T0 + n, said[n]) for n in range(first, min(99, first + 7)))))
    Job.objects.update(declared_outcome="failed")
    collecting.streams_close()
    assert not Artifact.objects.exists(), "more lines may come for a minute"
    Upload.objects.update(updated_at="2023-01-01T00:00:00Z")
    collecting.streams_close()
    artifact = Artifact.objects.get()
    assert (artifact.path, artifact.lines, artifact.state) == ("node-1/logs/rank0.log", 99, "parsed")
    assert artifact.blob_id == sha("".join(f"{line}\n" for line in said).encode())


def test_lines_after_the_end_of_a_file_begin_another_and_replace_nothing(api: Any) -> None:
    otlp(api, request_of((T0, "10:00:00 a")))
    resuming.upload_close(upload=Upload.objects.get())
    otlp(api, request_of((T0, "10:00:01 b")))
    assert content("node-1/logs/rank0.log.2") == "10:00:01 b\n"
    assert Artifact.objects.get().is_superseded is False


def test_a_follower_and_a_collector_of_one_path_do_not_mix(api: Any, job: Any) -> None:
    upload = resuming.upload_begin(job=job, path="node-1/logs/rank0.log", size_bytes=None)
    otlp(api, request_of((T0, "10:00:00 a")), **{"Faultline-Job": job.slug})
    assert resuming.part_path_of(upload).read_bytes() == b""
    assert content("node-1/logs/rank0.log.2") == "10:00:00 a\n"
    pushed = Upload.objects.exclude(source="").get()
    url = f"/api/v1/uploads/{pushed.pk}"
    assert api.head(url).status_code == 404, "only the collector's requests may write to it"


def test_lokis_json_and_protobuf_are_one(api: Any) -> None:
    labels = {"job_id": "4711", "hostname": "node-1", "filename": "/logs/rank0.log"}
    assert push(api, [{"stream": labels, "values": [[str(T0), "10:00:00 a"], [str(T0 + 1), "10:00:01 b", {"x": "y"}]]}]
    ).status_code == 204  # fmt: skip
    made = loki.PushRequest()
    stream = made.streams.add(labels=b'{job_id="4711", hostname="node-1", filename="/logs/rank0.log"}')
    entry = stream.entries.add(line=b"10:00:02 c \xff")
    entry.timestamp.seconds, entry.timestamp.nanos = 1_700_000_002, 5
    body = bytes(cramjam.snappy.compress_raw(made.SerializeToString()))
    assert api.post("/loki/api/v1/push", body, content_type=PROTOBUF).status_code == 204
    assert content() == "10:00:00 a\n10:00:01 b\n10:00:02 c \ufffd\n"


def test_loki_says_what_it_refused_and_stores_the_rest(api: Any) -> None:
    good = {"stream": {"job_id": "4711", "host": "node-1", "filename": "/logs/rank0.log"}, "values": [[str(T0), "a"]]}
    answer = push(api, [good, {"stream": {"color": "red"}, "values": [[str(T0), "b"]]}])
    assert answer.status_code == 400
    assert "1 refused: nothing names the job (labels: color)" in answer.content.decode()
    assert content().endswith(" a\n")


def test_json_lines_are_mapped_by_headers_and_shown_without_being_stored_in_debug_mode(api: Any) -> None:
    rows = [
        {
            "when": "2023-11-14T22:13:20Z",
            "sev": "error",
            "what": "NCCL WARN timeout",
            "run": "r1",
            "at": {"node": "n7"},
        },
        {"when": 1_700_000_001, "what": "done", "run": "r1", "at": {"node": "n7"}},
    ]
    headers = {
        "Faultline-Job-From": "run",
        "Faultline-Source-From": "at.node",
        "Faultline-Message-From": "what",
        "Faultline-Time-From": "when",
        "Faultline-Level-From": "sev",
    }
    body = "\n".join(map(json.dumps, rows)).encode()
    shown = lines(api, body, **headers, **{"Faultline-Debug": "1"}).json()
    assert not Job.objects.exists()
    said = ["2023-11-14T22:13:20.000000Z [ERROR] NCCL WARN timeout", "2023-11-14T22:13:21.000000Z done"]
    assert shown["files"] == [{"job": "r1", "attempt": 0, "path": "n7", "rows": 2, "lines": said}]
    assert lines(api, body, **headers).json() == {"stored": 2, "repeated": 0, "refused": 0, "sentence": ""}
    assert lines(api, json.dumps(rows).encode(), "application/json", **headers).json()["repeated"] == 2
    assert content("n7").splitlines() == said


def test_fluent_bits_records_of_kubernetes_find_their_job(api: Any) -> None:
    meta = {"pod_name": "llama-0", "namespace_name": "team-a", "container_name": "trainer", "host": "gpu-3"}
    labels = {"jobset.sigs.k8s.io/jobset-name": "llama", "jobset.sigs.k8s.io/restart-attempt": "1"}
    row = {"date": 1_700_000_000.5, "log": "step 1\n", "kubernetes": {**meta, "labels": labels}}
    assert lines(api, json.dumps([row]).encode(), JSON).json()["stored"] == 1
    upload = Upload.objects.get()
    assert (upload.job.name, upload.attempt.number, upload.path) == ("team-a/llama", 1, "gpu-3/llama-0/trainer.log")
    assert content(upload.path) == "2023-11-14T22:13:20.500000Z step 1\n"


def test_plain_lines_without_a_time_are_not_taken_for_repeats(api: Any) -> None:
    for _ in range(2):
        assert lines(api, b"tick\n", "text/plain", **{"Faultline-Job": "x"}).json()["stored"] == 1
    assert content("output.log").count("tick") == 2


def test_a_token_may_be_a_password(engineer: Any) -> None:
    _, secret = services.token_create(user=engineer, name="loki", scopes=["upload"])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Basic {base64.b64encode(f'any:{secret}'.encode()).decode()}")
    assert push(client, [{"stream": {"job_id": "1"}, "values": [[str(T0), "a"]]}]).status_code == 204
    client.credentials(HTTP_AUTHORIZATION="Basic YW55OmZsX25vdA==")
    assert push(client, []).status_code == 401
    client.credentials()
    assert otlp(client, request_of((T0, "a"))).status_code == 401


def test_who_may_not_upload_may_not_push() -> None:
    for role, scopes in (("viewer", ["upload"]), ("engineer", ["read"])):
        client = APIClient()
        _, secret = services.token_create(user=make_user(role, role), name="x", scopes=scopes)
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        answers = [otlp(client, request_of((T0, "a"))), push(client, []), lines(client, b"a")]
        assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert not Job.objects.exists()


def test_a_token_of_another_team_writes_to_no_job_of_ours(api: Any) -> None:
    ours = make_cluster("h100")
    make_team("llm", clusters=[ours])
    secret_job = job_create(name="llama", slug="4711", cluster=ours)
    assert secret_job.slug == "h100--4711"
    said = partial(otlp(api, request_of((T0, "a")), **{"Faultline-Cluster": "h100"}))
    assert "There is no cluster “h100” that you may use" in said.error_message
    for name in ("4711", "h100--4711"):
        otlp(api, request_of((T0, "a"), job=name))
    assert not Upload.objects.filter(job=secret_job).exists()


def test_the_job_is_made_in_the_cluster_of_the_callers_only_team(engineer: Any, api: Any) -> None:
    make_team("llm", clusters=[make_cluster("h100")], members=[engineer])
    otlp(api, request_of((T0, "a")))
    assert Job.objects.get().slug == "h100--4711"
    otlp(api, request_of((T0 + 1, "b")))
    assert Upload.objects.count() == 1


def test_a_locked_database_and_an_unknown_fault_are_answered_so_that_the_batch_comes_again(
    api: Any, monkeypatch: Any
) -> None:
    for fault in (OperationalError("database is locked"), RuntimeError("a bug")):

        def broken(*_: Any, fault: Exception = fault, **__: Any) -> None:
            raise fault

        monkeypatch.setattr(appending, "_write", broken)
        answer = otlp(api, request_of((T0, "a")))
        assert (answer.status_code, answer["Retry-After"]) == (503, "5")
        assert b"send" in answer.content
    monkeypatch.undo()
    assert otlp(api, request_of((T0, "a"))).status_code == 200


@pytest.mark.usefixtures("same_minute")
def test_the_rate_limit_of_batches_is_not_that_of_uploads(api: Any, settings: Any, put: Any) -> None:
    settings.APPENDS_PER_MINUTE = 1
    assert otlp(api, request_of((T0, "a"))).status_code == 200
    answer = otlp(api, request_of((T0 + 1, "b")))
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert put("a.log", b"10:00:00 x\n").status_code == 201


def test_an_upload_that_is_closed_while_a_batch_waits_gets_a_second_file(api: Any, monkeypatch: Any) -> None:
    otlp(api, request_of((T0, "10:00:00 a")))
    held = appending._lock_part
    closed = []

    def late(upload: Any) -> Any:
        if not closed:
            closed.append(1)
            resuming.upload_close(upload=Upload.objects.select_related("job", "attempt").get())
        return held(upload)

    monkeypatch.setattr(appending, "_lock_part", late)
    assert otlp(api, request_of((T0, "10:00:01 b"))).status_code == 200
    assert content("node-1/logs/rank0.log.2") == "10:00:01 b\n"


def test_silent_files_end_as_they_stand_without_bytes_that_were_never_confirmed(api: Any) -> None:
    otlp(api, request_of((T0, "10:00:00 a")))
    part: Path = resuming.part_path_of(Upload.objects.get())
    with part.open("ab") as file:
        file.write(b"half a li")
    Upload.objects.update(updated_at="2023-01-01T00:00:00Z")
    sweeping.tidy()
    assert Artifact.objects.get().blob.size_bytes == len(b"10:00:00 a\n")


@pytest.mark.parametrize("made", [b"\xff\xff", b"{", b'{"resourceLogs": 5}', b"[" * 100_000])
def test_what_is_no_request_is_refused_for_good(api: Any, made: bytes) -> None:
    for kind in (PROTOBUF, JSON):
        answer = api.post("/v1/logs", made, content_type=kind)
        assert answer.status_code == 400, kind
        assert b"ExportLogsServiceRequest" in answer.content
    assert api.post("/loki/api/v1/push", made, content_type=JSON).status_code == 400
    assert api.post("/v1/logs", made, content_type="text/html").status_code == 415


def test_as_many_files_as_a_request_has_are_written_at_once(api: Any) -> None:
    made = request_of((T0, "10:00:00 a"))
    for n in range(1, 200):
        made.MergeFrom(request_of((T0, "10:00:00 a"), file=f"/logs/rank{n}.log"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with no_hang():
        assert otlp(api, made).status_code == 200
    assert Upload.objects.count() == 200
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2

"""Attributes of records name their file; equal ones of a batch are read once, and bad ones refuse the batch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from ingest.refusals import Refused
from ingest.wire import otlp
from ingest.wire.routing import Rules

RULES = Rules.of({"Faultline-Job": "a"}.get)
PATHS = ("/logs/rank0.log", "/logs/rank1.log", "/logs/rank0.log", "/logs/rank0.log")


def protobuf() -> bytes:
    made = ExportLogsServiceRequest()
    scope = made.resource_logs.add().scope_logs.add()
    for n, path in enumerate(PATHS):
        record = scope.log_records.add(time_unix_nano=n + 1, trace_id=b"0" * 16, flags=1)
        record.body.string_value = f"line {n}"
        record.attributes.add(key="log.file.path").value.string_value = path
        record.attributes.add(key="thread.id").value.int_value = 7
    return bytes(made.SerializeToString())


def as_json() -> bytes:
    def record(n: int, path: str) -> dict[str, Any]:
        pairs = [("log.file.path", {"stringValue": path}), ("thread.id", {"intValue": "7"})]
        attributes = [{"key": key, "value": value} for key, value in pairs]
        return {"timeUnixNano": str(n + 1), "body": {"stringValue": f"line {n}"}, "attributes": attributes}

    records = [record(n, path) for n, path in enumerate(PATHS)]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


@pytest.mark.parametrize(("data", "is_json"), [(protobuf(), False), (as_json(), True)], ids=["protobuf", "json"])
def test_equal_attributes_are_read_once(data: bytes, is_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    name = "_pairs_of_json" if is_json else "_pairs_of_protobuf"
    pairs_of = getattr(otlp, name)

    def counted(raw: Any) -> Any:
        read.append(raw)
        return pairs_of(raw)

    monkeypatch.setattr(otlp, name, counted)
    streams = list(otlp.streams(data, RULES, is_json=is_json))
    assert {s.labels["log_file_path"]: [text.decode() for text in s.rows.texts] for s in streams} == {
        "/logs/rank0.log": ["line 0", "line 2", "line 3"],
        "/logs/rank1.log": ["line 1"],
    }
    assert len(read) == 2


def test_an_attribute_that_is_none_refuses_the_batch_with_a_sentence() -> None:
    whole = protobuf()
    bad = whole.replace(b"log.file.path", b"log.file.\xff\xff\xff\xff", 1)
    assert bad != whole
    with pytest.raises(Refused, match="not an ExportLogsServiceRequest"):
        list(otlp.streams(bad, RULES, is_json=False))
    wrong = as_json().replace(b'"key": "log.file.path"', b'"key": 17', 1)
    with pytest.raises(Refused, match="not an ExportLogsServiceRequest"):
        list(otlp.streams(wrong, RULES, is_json=True))

"""Records found in protobuf's bytes are those that its own classes read, compiled or not, whatever the bytes are."""

from __future__ import annotations

import tracemalloc
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs

from diagnosis.processing.jit import _Loop
from ingest.refusals import Refused
from ingest.wire import loki, otlp, scanning
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Stream

RULES = Rules.of({"Faultline-Job": "a"}.get)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
BIG = st.integers(0, 2**64 - 1)


@st.composite
def log_records(draw: Any) -> LogRecord:
    made = LogRecord(
        time_unix_nano=draw(st.sampled_from([0, 1, 2**63, 1_700_000_000 * 10**9]) | BIG),
        observed_time_unix_nano=draw(BIG),
        severity_number=draw(st.integers(0, 24)),
        severity_text=draw(st.sampled_from(["", "INFO", "warn", "odd"])),
        trace_id=draw(st.sampled_from([b"", b"t" * 16])),
        flags=draw(st.integers(0, 2)),
    )
    match draw(st.integers(0, 4)):
        case 0:
            made.body.string_value = draw(TEXTS)
        case 1:
            made.body.int_value = draw(st.integers(-(2**63), 2**63 - 1))
        case 2:
            made.body.kvlist_value.values.add(key=draw(TEXTS)).value.double_value = 1.5
        case 3:
            made.body.CopyFrom(AnyValue())
    for path in draw(st.lists(st.sampled_from(["/a", "/b"]), max_size=2)):
        made.attributes.add(key="log.file.path").value.string_value = path
    if draw(st.booleans()):
        made.attributes.add(key="exception.stacktrace").value.string_value = "trace"
    return made


def told(streams: Any) -> list[tuple[Any, ...]]:
    rows = [(s.labels, *row) for s in streams for row in zip(s.rows.times, s.rows.heads, s.rows.texts, strict=True)]
    return sorted(rows, key=repr)


def reference(request: ExportLogsServiceRequest) -> list[tuple[Any, ...]]:
    """What the published classes say, record by record."""
    out = []
    for resource_logs in request.resource_logs:
        for scope_logs in resource_logs.scope_logs:
            for record in scope_logs.log_records:
                pairs = [(pair.key.replace(".", "_"), pair.value.string_value) for pair in record.attributes]
                trace = "".join(f"\n{value}" for name, value in pairs if name == "exception_stacktrace")
                at = next((at for at in (record.time_unix_nano, record.observed_time_unix_nano) if 0 < at < 1 << 63), 0)
                level = otlp._level(record.severity_number, record.severity_text)
                name = scope_logs.scope.name
                head = f"[{level}] [{name}] " if level and name else f"[{level}] " if level else ""
                labels = {name: value for name, value in pairs if name != "exception_stacktrace"}
                out.append((labels, at, head, (otlp._text(record.body) + trace).encode()))
    return sorted(out, key=repr)


@given(st.lists(st.lists(log_records(), max_size=6), max_size=3), st.sampled_from(["", "torch"]))
def test_records_are_read_as_the_published_classes_read_them(groups: list[list[LogRecord]], scope: str) -> None:
    request = ExportLogsServiceRequest()
    for records in groups:
        group = request.resource_logs.add().scope_logs.add()
        group.scope.name = scope
        group.log_records.extend(records)
    assert told(otlp.streams(request.SerializeToString(), RULES, is_json=False)) == reference(request)


@given(
    st.lists(st.tuples(st.integers(-5, 2**40), st.integers(-5, 10**9), st.binary(max_size=80), st.booleans())),
)
def test_entries_of_loki_are_read_as_its_classes_read_them(entries: list[tuple[int, int, bytes, bool]]) -> None:
    made = loki.PushRequest()
    stream = made.streams.add(labels=b'{job_id="1"}')
    for seconds, nanos, line, has_metadata in entries:
        entry = stream.entries.add(line=line)
        entry.timestamp.seconds, entry.timestamp.nanos = seconds, nanos
        if has_metadata:
            entry.metadata.add(name=b"pod", value=b"p")
    found: list[Stream] = list(loki.streams(made.SerializeToString(), RULES, is_json=False))
    wanted = []
    for seconds, nanos, line, has_metadata in entries:
        at = seconds * 10**9 + nanos
        labels = {"job_id": "1", **({"pod": "p"} if has_metadata else {})}
        wanted.append((labels, at if 0 < at < 1 << 63 and min(seconds, nanos) >= 0 else 0, "", line))
    assert told(found) == sorted(wanted, key=repr)


@given(
    st.binary(max_size=300) | log_records().map(lambda one: ScopeLogs(log_records=[one]).SerializeToString()), st.data()
)
def test_any_bytes_are_read_or_refused_and_compiled_code_says_the_same(data: bytes, draw: Any) -> None:
    if data and draw.draw(st.booleans()):
        place = draw.draw(st.integers(0, len(data) - 1))
        data = data[:place] + draw.draw(st.binary(max_size=3)) + data[place + 1 :]
    tags = otlp._TAGS
    found = scanning.records(data, tags, Budget())
    again = _interpreted(data, tags)
    assert (found is None) == (again is None)
    if found is not None and again is not None:
        assert found[0].tolist() == again[0].tolist()
        assert found[1].tolist() == again[1].tolist()
    for read in (otlp.streams, loki.streams):
        body = b"\x0a" + bytes([len(data) & 127 | 128, len(data) >> 7]) + data
        try:
            list(read(body, RULES, is_json=False))
        except Refused as refusal:
            assert refusal.status == 400


def _interpreted(data: bytes, tags: Any) -> Any:
    """The same without machine code."""
    loops = {name: loop for name, loop in vars(scanning).items() if isinstance(loop, _Loop)}
    scope: dict[str, Any] = dict(vars(scanning))
    for name, loop in loops.items():
        scope[name] = FunctionType(loop._function.__code__, scope, name)
    read, head = memoryview(np.frombuffer(data, np.uint8)), np.zeros(2, np.int64)
    count = scope["scan"](read, tags, np.empty((0, 2 * len(tags) + 1), np.int64), head)
    if count < 0:
        return None
    found = np.zeros((count, 2 * len(tags) + 1), np.int64)
    return (found, head) if scope["scan"](read, tags, found, head) >= 0 else None


def test_records_that_are_too_many_take_no_memory_before_they_are_refused() -> None:
    empty, tags = b"\x12\x00" * (1 << 20), np.array([26, 50], np.int64)
    assert scanning.records(empty[: 2 * 100_000], tags, Budget()) is not None  # loads compiled loops
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="send smaller batches"):
            scanning.records(empty, tags, Budget())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()

"""Records that a collector pushes, a follower sends and a person uploads lead to one conclusion."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from diagnosis.live.reading.observe import Range, observe
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from ingest.wire import json_lines
from ingest.wire.routing import Rules, place_of
from ingest.wire.rows import Rows, form_of, in_time_order, lines_of, no_rows
from tests.diagnosis.synthetic import read_files

T0 = 1_772_439_000
ERROR = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
HINTS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions."
)
TRACE = f'Traceback (most recent call last):\n  File "train.py", line 8, in main\n    step()\n{ERROR}'
type Record = tuple[int, str, str, str, str]


def records() -> list[Record]:
    """Steps of two machines, then an error with a traceback of one: time, machine, level, text, traceback."""
    steps = [(T0 + 10 * n, f"gpu-{18 + n % 2}", "INFO", f"step {n // 2} loss 2.{30 - n // 2}", "") for n in range(40)]
    return [*steps, (T0 + 410, "gpu-19", "ERROR", "training failed", TRACE)]


def _iso(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))


def _whole(text: str, trace: str) -> str:
    return f"{text}\n{trace}\n{HINTS}" if trace else text


def logging_fields(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    return {"asctime": _iso(at), "levelname": level, "message": text, "hostname": node} | (
        {"exc_info": trace} if trace else {}
    )


def message_of_lines(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    return {"ts": at, "level": level.lower(), "msg": _whole(text, trace), "node": node}


def structlog_fields(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    return {"event": text, "timestamp": _iso(at), "level": level.lower(), "host": node} | (
        {"exception": trace} if trace else {}
    )


def loguru_record(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    kind, _, words = ERROR.partition(": ")
    failed = {"type": kind, "value": words, "traceback": True} if trace else None
    record = {"message": text, "level": {"name": level, "no": 20}, "time": {"timestamp": at + 0.5}, "exception": failed}
    return {"text": f"{_whole(text, trace)}\n", "record": record | {"extra": {}}, "node": node}


def ecs_fields(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    error = {"error": {"type": "RuntimeError", "stack_trace": trace}} if trace else {}
    return {"@timestamp": _iso(at), "log.level": level.lower(), "message": text, "host": {"name": node}} | error


def fluent_bit_record(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    place = {"pod_name": f"run-w-{node[4:]}", "namespace_name": "ml", "host": node, "container_name": "trainer"}
    return {"date": at, "log": f"{_whole(text, trace)}\n", "severity": level, "kubernetes": place}


def docker_line_of_a_logger(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    inner = message_of_lines(at, node, level, text, trace)
    return {"log": json.dumps(inner) + "\n", "stream": "stderr", "time": _iso(at), "attrs": {"node": node}}


def journal_record(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    priority = {"INFO": "6", "ERROR": "3"}[level]
    told = list(_whole(text, trace).encode()) if trace else text
    return {"__REALTIME_TIMESTAMP": f"{at}000000", "_HOSTNAME": node, "PRIORITY": priority, "MESSAGE": told}


def cloud_record(at: int, node: str, level: str, text: str, trace: str) -> dict[str, Any]:
    labels = {"labels": {"node_name": node}}
    said = {"message": text, "stack_trace": trace} if trace else {"message": text}
    return {"jsonPayload": said, "resource": labels, "severity": level, "timestamp": _iso(at)}


SHAPES: Sequence[Callable[..., dict[str, Any]]] = (
    logging_fields,
    message_of_lines,
    structlog_fields,
    loguru_record,
    ecs_fields,
    fluent_bit_record,
    docker_line_of_a_logger,
    journal_record,
    cloud_record,
)


def pushed_files(data: bytes) -> dict[str, bytes]:
    """The files that a job has after these records were pushed."""
    rules = Rules.of({"Faultline-Job": "run-7"}.get)
    found: dict[str, Rows] = {}
    for stream in json_lines.streams(data, rules):
        place = place_of(stream.labels, rules)
        assert place is not None
        rows = stream.rows
        found.setdefault(place.path, no_rows()).extend(rows.times, rows.heads, rows.texts)
    now_ns = (T0 + 3600) * 10**9
    ordered = {path: in_time_order(rows, now_ns)[0] for path, rows in found.items()}
    return {path: lines_of(rows, form_of(rows), now_ns) for path, rows in ordered.items()}


def conclusion_of(files: dict[str, bytes], work: Path) -> tuple[Any, ...]:
    """Category, machines at fault and the words of the root of the files' diagnosis."""
    parsed, read = read_files(files, work)
    report = to_json(diagnose(parsed, read=read))
    told = report["conclusion"]
    roots = sorted({event["template"] for event in report["logs"]["events"] if event["role"] == "root"})
    return told["id"], sorted(one["name"] for one in told["fault"]), roots


def loki_answer() -> bytes:
    """Loki's ``query_range``, newest first, a stream a machine."""
    streams = [
        {
            "stream": {"node_name": node, "pod": f"run-w-{node[4:]}"},
            "values": [
                [f"{at}000000000", _whole(text, trace)]
                for at, own, _, text, trace in reversed(records())
                if own == node
            ],
        }
        for node in ("gpu-18", "gpu-19")
    ]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}}).encode()


def elastic_hits() -> bytes:
    """A page of hits, indented."""
    hits = [{"_index": "logs", "_source": ecs_fields(*record)} for record in records()]
    return json.dumps({"took": 3, "hits": {"total": {"value": 41}, "hits": hits}}, indent=1).encode()


def array_of_a_cloud() -> bytes:
    return json.dumps([cloud_record(*record) for record in records()]).encode()


@pytest.mark.parametrize("export", [loki_answer, elastic_hits, array_of_a_cloud], ids=lambda export: export.__name__)
def test_an_export_of_a_log_store_has_the_conclusion_of_its_records(
    export: Callable[[], bytes], tmp_path: Path
) -> None:
    data = "".join(json.dumps(message_of_lines(*record)) + "\n" for record in records()).encode()
    pushed = conclusion_of(pushed_files(data), tmp_path / "pushed")
    uploaded = conclusion_of({"export.json": export()}, tmp_path / "uploaded")
    assert uploaded[:2] == pushed[:2] == ("hardware.gpu.ecc", ["gpu-19"])
    assert ERROR in uploaded[2]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_equal_records_have_one_conclusion_by_every_door(shape: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    data = "".join(json.dumps(shape(*record)) + "\n" for record in records()).encode()
    uploaded = conclusion_of({"log.jsonl": data}, tmp_path / "uploaded")
    pushed = conclusion_of(pushed_files(data), tmp_path / "pushed")
    followed = [error.category for error in observe([Range("log.jsonl", data, data)])[0].errors]
    assert uploaded == pushed
    assert uploaded[:2] == ("hardware.gpu.ecc", ["gpu-19"])
    assert ERROR in uploaded[2]
    assert "hardware.gpu.ecc" in followed


def lines_of_a_container_runtime(record: Record) -> list[str]:
    """A record as the runtime of containers writes it: each line with its time, its stream and a mark."""
    at, _, level, text, trace = record
    return [f"{_iso(at)} stderr F {level} {line}" for line in _whole(text, trace).splitlines()]


def test_lines_of_a_container_runtime_have_one_conclusion_by_every_door(tmp_path: Path) -> None:
    files = {"gpu-18/output.log": b"", "gpu-19/output.log": b""}
    batch = ""
    for record in records():
        node = record[1]
        for line in lines_of_a_container_runtime(record):
            files[f"{node}/output.log"] += f"{line}\n".encode()
            batch += json.dumps({"log": f"{line}\n", "host": node}) + "\n"
    uploaded = conclusion_of(files, tmp_path / "uploaded")
    pushed = conclusion_of(pushed_files(batch.encode()), tmp_path / "pushed")
    ranges = [Range(path, data, data) for path, data in files.items()]
    followed = [error.category for seen in observe(ranges) for error in seen.errors]
    assert uploaded == pushed
    assert uploaded[:2] == ("hardware.gpu.ecc", ["gpu-19"])
    assert "hardware.gpu.ecc" in followed

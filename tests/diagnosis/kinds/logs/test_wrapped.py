"""Logs of JSON lines read like the logs that were wrapped."""

import io
import json

import pytest

from diagnosis.kinds.logs.read.lines import blocks
from diagnosis.kinds.logs.unwrap import structured, wrapped

LINES = {
    '{"log": "loss 2.1\\n", "stream": "stdout", "time": "2026-03-01T08:00:00.5Z"}': "2026-03-01T08:00:00.5Z loss 2.1",
    '{"__REALTIME_TIMESTAMP": "1772352000250000", "_HOSTNAME": "dgx-2", "PRIORITY": "3", "MESSAGE": "NVRM: Xid"}': (
        "2026-03-01T08:00:00.250000Z [pod/dgx-2] [ERROR] NVRM: Xid"
    ),
    '{"ts": 1772352000, "level": "warn", "msg": "slow", "rank": 7}': (
        "2026-03-01T08:00:00.000000Z [rank7]: [WARN] slow"
    ),
    '{"message": {"message": "RuntimeError: boom", "extraInfo": {"timestamp": "1772352000"}}}': (
        "2026-03-01T08:00:00.000000Z RuntimeError: boom"
    ),
    '{"MESSAGE": [98, 228, 100]}': "bäd",
    '{"textPayload": "loss 2.1", "resource": {"labels": {"pod_name": "r7-3"}}, "timestamp": "2026-03-01T08:00:00Z"}': (
        "2026-03-01T08:00:00Z [pod/r7-3] loss 2.1"
    ),
    '{"jsonPayload": {"message": "boom", "rank": 7}, "severity": "ERROR", "timestamp": "2026-03-01T08:00:00Z"}': (
        "2026-03-01T08:00:00Z [rank7]: [ERROR] boom"
    ),
    '{"body": "loss 2.1", "resource": {"attributes": {"k8s.node.name": "gpu-4", "k8s.pod.name": "run7-3"}}}': (
        "[pod/gpu-4] loss 2.1"
    ),
}
NESTED = '{"labels": ' * 900 + "1" + "}" * 900


@pytest.mark.parametrize("line", LINES)
def test_the_message_comes_out_with_its_header(line: str) -> None:
    assert wrapped.unwrap(line) == LINES[line]


@pytest.mark.parametrize(
    "line",
    [
        "plain",
        "{",
        "[1, 2]",
        '{"loss": 2.1}',
        '{"message": null}',
        "[" * 100_000,
        "1e999",
        '{"labels": ' * 900 + "1" + "}" * 900,
    ],
)
def test_what_holds_no_message_stays_as_it_is(line: str) -> None:
    assert wrapped.unwrap(line) == line


def test_only_files_of_such_lines_count_as_wrapped() -> None:
    line = json.dumps({"msg": "x", "level": "info"})
    assert wrapped.is_wrapped(f"{line}\n{line}\n")
    assert wrapped.is_wrapped(line)
    assert wrapped.is_wrapped(f'{line}\n{{"msg": "cut of')
    assert not wrapped.is_wrapped(f"start\n{line}\n")
    assert not wrapped.is_wrapped("")
    assert not wrapped.is_wrapped(':::MLLOG {"key": "run_start"}\n')


@pytest.mark.parametrize("time", [10**30, -(10**30), True, [], {"a": 1}, "x", "9" * 400])
def test_odd_times_do_not_raise(time: object) -> None:
    assert wrapped.unwrap(json.dumps({"msg": "x", "time": time})).endswith("x")


EXPORT = """__CURSOR=s=1;i=5ef603
__REALTIME_TIMESTAMP=1772352000123456
SYSLOG_IDENTIFIER=kernel
MESSAGE=NVRM: Xid (PCI:0000:1a:00): 79, pid=1234, GPU has fallen off the bus.
_HOSTNAME=trn-17

__CURSOR=s=1;i=5ef604
__REALTIME_TIMESTAMP=1772352001000000
SYSLOG_IDENTIFIER=train
MESSAGE
\x23\0\0\0\0\0\0\0Traceback (most recent call last):
  File "train.py", line 3, in <module>
ValueError: A=1
_HOSTNAME=trn-17
"""


def test_each_message_of_a_journal_export_takes_time_and_host_of_its_record() -> None:
    assert wrapped.is_wrapped(EXPORT)
    lines = wrapped.unwrap_all(EXPORT.split("\n"))
    xid = "NVRM: Xid (PCI:0000:1a:00): 79, pid=1234, GPU has fallen off the bus."
    assert [line for line in lines if line] == [
        f"2026-03-01T08:00:00.123456Z trn-17 kernel: {xid}",
        "2026-03-01T08:00:01.000000Z trn-17 train: Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "ValueError: A=1",
    ]
    assert [n for n, line in enumerate(lines) if line] == [3, 10, 11, 12]


def test_a_record_of_an_export_stays_whole_where_blocks_are_cut() -> None:
    records = EXPORT.replace("\0", "").partition("\n\n")[0] + "\n\n"
    found = list(blocks(io.BytesIO(records.encode() * 40), is_wrapped=True, block_bytes=700))
    assert len(found) > 5
    assert all(len(block.raw) % len(records) == 0 for block in found)
    assert b"".join(block.raw for block in found) == records.encode() * 40


def test_a_log_that_quotes_a_field_is_no_export() -> None:
    assert not wrapped.is_wrapped("MESSAGE=x\n__REALTIME_TIMESTAMP=1772352000123456\n")


def test_labels_of_a_log_store_become_time_machine_and_rank() -> None:
    text = '2026-03-01T08:00:00Z {app="t", host="dgx-2", rank="7"} step 3 loss {"a": 1}\n'
    assert wrapped.is_wrapped(text * 6)
    assert wrapped.unwrap_all([text.rstrip()]) == ['2026-03-01T08:00:00Z [pod/dgx-2] [rank7]: step 3 loss {"a": 1}']


def test_a_tail_of_pods_is_distinguished_from_wording_by_its_one_container_and_many_pods() -> None:
    lines = [f"worker-{k} trainer step {n}" for n in range(5) for k in (1, 2)]
    assert wrapped.is_wrapped("\n".join(lines) + "\n")
    assert wrapped.unwrap_all(lines)[:2] == ["worker-1: step 0", "worker-2: step 0"]
    assert not wrapped.is_wrapped("\n".join(f"worker-3 step {n}" for n in range(20)) + "\n")
    assert wrapped.unwrap_all(["+ worker-3 › trainer", "worker-3 trainer hello"]) == ["", "worker-3: hello"]


def test_json_behind_a_header_keeps_the_header_and_gives_its_own_level_and_rank() -> None:
    line = '[pod/w-1/t] 2026-03-01T08:00:00Z {"event": "slow", "level": "warning", "rank": 4, "timestamp": "x"}'
    assert wrapped.is_wrapped(f"{line}\n" * 3)
    assert wrapped.unwrap_all([line, "plain"]) == [
        "[pod/w-1/t] 2026-03-01T08:00:00Z [rank4]: [WARN] slow",
        "plain",
    ]


def test_json_within_a_containers_json_is_unwrapped_too() -> None:
    inner = json.dumps({"event": "lost", "level": "error", "rank": 2})
    line = json.dumps({"log": inner + "\n", "time": "2026-03-01T08:00:00Z"})
    assert wrapped.unwrap(line) == "2026-03-01T08:00:00Z [rank2]: [ERROR] lost"


def test_pairs_of_time_and_record_become_time_and_host() -> None:
    lines = [
        '[1760320498.091254473, {"hostname": "a7", "ident": "kernel", "message": "NIC Link is Up"}]',
        '[3] kern.messages: [[1760320498.5, {}], {"host": "a8", "log": "x y"}]',
    ]
    assert wrapped.is_wrapped(f"{lines[0]}\n" * 6)
    assert wrapped.unwrap_all(lines) == [
        "2025-10-13T01:54:58.091254Z [pod/a7] NIC Link is Up",
        "2025-10-13T01:54:58.500000Z [pod/a8] x y",
    ]


def test_frames_of_rfc_5424_become_classic_syslog() -> None:
    lines = [
        "<134>1 2025-10-13T02:08:45.369007+00:00 a7 trainer 743391 - - step 3",
        '<11>1 2025-10-13T02:08:46Z a8 kernel - ID47 [x@1 k="v"] \ufeffOut of memory',
        "<11>1 2025-10-13T02:08:46Z a8 kernel - - -",
    ]
    assert wrapped.is_wrapped(f"{lines[0]}\n" * 6)
    assert wrapped.unwrap_all(lines) == [
        "2025-10-13T02:08:45.369007+00:00 a7 trainer[743391]: step 3",
        "2025-10-13T02:08:46Z a8 kernel: Out of memory",
        "2025-10-13T02:08:46Z a8 kernel: ",
    ]


HINTS = "\nCUDA kernel errors might be asynchronously reported.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
TRACE = """Traceback (most recent call last):
  File "a.py", line 8, in main
    step()
RuntimeError: CUDA error: ECC"""


TRACE_LINES = TRACE.split("\n")


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        (
            {"message": f"RuntimeError: CUDA error: ECC{HINTS}"},
            ["RuntimeError: CUDA error: ECC", *HINTS[1:].split("\n")],
        ),
        ({"message": TRACE}, TRACE_LINES),
        ({"message": TRACE, "exc_info": TRACE}, TRACE_LINES),
        ({"message": "training failed", "exc_info": TRACE}, ["training failed", *TRACE_LINES]),
        ({"event": "unhandled", "exception": TRACE}, ["unhandled", *TRACE_LINES]),
        ({"message": {"message": "boom", "extraInfo": {"py_callstack": TRACE}}}, ["boom", *TRACE_LINES]),
        ({"message": {"message": TRACE_LINES[-1], "extraInfo": {"py_callstack": TRACE}}}, TRACE_LINES),
        ({"message": "lost", "error": {"type": "OSError", "message": "disk"}}, ["lost", "OSError: disk"]),
        ({"message": "two lines\n\nof one message"}, ["two lines", "of one message"]),
    ],
)
def test_a_record_has_the_lines_of_its_text_and_of_its_exception(record: dict[str, object], lines: list[str]) -> None:
    assert wrapped.unwrap(json.dumps(record)).split("\n") == lines


def test_each_line_of_a_record_has_its_time_machine_and_rank_and_all_but_frames_its_level() -> None:
    record = {"message": "a\n  b\nc", "time": 1772352000, "level": "error", "rank": 3, "node": "gpu-19"}
    head = "2026-03-01T08:00:00.000000Z [pod/gpu-19] [rank3]:"
    assert wrapped.unwrap(json.dumps(record)).split("\n") == [f"{head} [ERROR] a", f"{head}   b", f"{head} [ERROR] c"]


def test_the_machine_of_a_record_is_no_device_of_its_message() -> None:
    assert wrapped.unwrap('{"node": "gpu-19", "msg": "x"}') == "[pod/gpu-19] x"


def test_a_text_beside_a_step_gets_the_numbers_of_its_record_unless_it_is_severe() -> None:
    record = {"message": "step done", "level": "info", "step": 7, "compute_ms": 180.5, "host": "gpu-1"}
    assert structured.record_of(record).lines == ["step done step 7 - compute_ms: 180.5"]
    assert structured.record_of(record | {"level": "error"}).lines == ["step done"]
    assert structured.record_of(record | {"step": "x"}).lines == ["step done"]

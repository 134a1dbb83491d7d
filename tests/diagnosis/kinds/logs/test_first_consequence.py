"""A log that holds consequences alone still names the line to read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.files.parsing import parse
from diagnosis.model import Kind, ParseHints
from diagnosis.pipeline import diagnose

PEER = "RuntimeError: [../gloo/transport/tcp/pair.cc:91] Connection closed by peer [10.3.2.1]:4411"


def report_of(tmp_path: Path, **files: str) -> dict[str, Any]:
    """The report on these files, named without their suffix."""
    tmp_path.mkdir(exist_ok=True)
    data = {f"{name}.log": text.encode() for name, text in files.items()}
    parsed = [
        parse(io.BytesIO(content), name, ParseHints(kind=Kind.LOG), tmp_path / name) for name, content in data.items()
    ]
    return dict(report.to_json(diagnose(parsed, read=lambda path, at, size: data[path][at : at + size])))


def logs_of(tmp_path: Path, **files: str) -> dict[str, Any]:
    return dict(report_of(tmp_path, **files)["logs"])


def test_the_first_consequence_stands_in_where_no_line_names_a_cause(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, train=f"epoch 3 loss 2.1\nTraceback (most recent call last):\n{PEER}\n")
    assert logs["is_failure"]
    assert [ref["line"] for ref in logs["lines"]] == [3]
    assert [event["role"] for event in logs["events"] if "Connection closed" in event["example"]] == ["cascade"]


def test_a_line_that_names_the_cause_needs_no_stand_in(tmp_path: Path) -> None:
    cause = "OSError: [Errno 28] No space left on device: '/local/a'"
    logs = logs_of(tmp_path, train=f"epoch 3 loss 2.1\n{PEER}\n{cause}\n")
    assert [ref["line"] for ref in logs["lines"]] == [3]


def test_words_of_a_library_that_only_passes_a_failure_on_come_after_those_that_tell_it(tmp_path: Path) -> None:
    passed_on = "trn-17:81:90 [2] NCCL INFO transport.cc:178 -> 1"
    logs = logs_of(tmp_path, train=f"{passed_on}\n{passed_on}\nncclInternalError: Internal check failed.\n")
    assert logs["lines"][0]["line"] == 3


def test_of_several_writers_the_earliest_consequence_is_the_line_to_read(tmp_path: Path) -> None:
    text = "2026-03-01T10:00:0{n}Z epoch 3 loss 2.1\n2026-03-01T10:05:0{n}Z " + PEER + "\n"
    logs = logs_of(tmp_path, **{f"trn-{n}": text.format(n=20 - n) for n in (16, 17)})
    assert [(ref["file"], ref["line"]) for ref in logs["lines"]] == [("trn-17.log", 2)]
    assert all(event["role"] != "root" for event in logs["events"])


def test_a_kernels_log_alone_proves_nothing_about_a_stage(tmp_path: Path) -> None:
    line = (
        "2026-03-01T10:00:0{n}.000000+00:00 trn-16 kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
    )
    data = "\n".join(line.format(n=n) for n in range(3)).encode() + b"\n"
    parsed = parse(io.BytesIO(data), "sys/trn-16.kern.log", ParseHints(), tmp_path / "k")
    logs = report.to_json(diagnose([parsed], read=lambda path, at, size: data[at : at + size]))["logs"]
    assert (logs["symptom"], logs["stage"], logs["iteration"]) == ("crash", None, None)
    assert logs["subcategory"] == "gpu_off_bus"


def test_several_writers_without_times_get_no_stand_in(tmp_path: Path) -> None:
    text = "{node}: epoch 3 loss 2.1\n{node}: " + PEER + "\n"
    logs = logs_of(tmp_path, **{f"trn-{n}": text.format(node=f"trn-{n}") for n in (16, 17)})
    assert logs["lines"] == []


def test_what_a_library_tells_before_the_launchers_summary_is_the_line_to_read(tmp_path: Path) -> None:
    waited = "[rank0]:[E301 10:09:00.2 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout"
    summary = "Traceback (most recent call last):\ntorch.distributed.elastic.errors.ChildFailedError: \n"
    logs = logs_of(tmp_path, train=f"epoch 3 loss 2.1\n{waited}\n{summary}  exitcode  : -6 (pid: 4411)\n")
    assert [ref["line"] for ref in logs["lines"]] == [2]


def test_in_one_file_the_order_of_lines_outranks_their_times(tmp_path: Path) -> None:
    remote = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
    lines = ["10:05:00Z epoch 3 loss 2.1", f"10:05:09Z {PEER}", f"10:05:03Z {remote}", ""]
    logs = logs_of(tmp_path, train="\n".join(f"2026-03-01T{line}" if line else "" for line in lines))
    assert [ref["line"] for ref in logs["lines"]] == [2]

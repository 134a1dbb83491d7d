"""What is not read is not called healthy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnosis.__main__ import main
from diagnosis.kinds.logs.unread_forms import form_of

TABLE = "alpha beta gamma\n" + "".join(f"{n} {n * 7 % 13} {n * 5 % 11}\n" for n in range(40))


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([str(path), "--json"]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_a_text_without_any_sign_of_a_log_is_named_as_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text(TABLE)
    report = told(path, capsys)
    why = "a table of 41 lines without a time, a level, a writer or progress. Nothing was concluded from it."
    assert f"numbers.txt was not recognised: {why}" in report["missing"]  # type: ignore[operator]
    assert report["inputs"][0]["unread"] == f"Not recognised: {why}"  # type: ignore[index]
    assert "Not enough evidence" in str(report["headline"])


def test_a_log_with_times_is_not_called_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"2026-03-02 08:15:{n:02d} INFO loading shard {n}\n" for n in range(40)))
    report = told(path, capsys)
    assert not any("not recognised" in str(line) for line in report["missing"])  # type: ignore[attr-defined]
    assert report["inputs"][0]["unread"] is None  # type: ignore[index]


def test_a_known_message_without_a_header_is_not_called_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.txt"
    path.write_text(f"{TABLE}RuntimeError: CUDA error: an illegal memory access was encountered\n")
    report = told(path, capsys)
    assert not any("not recognised" in str(line) for line in report["missing"])  # type: ignore[attr-defined]


def test_beside_a_log_with_progress_a_table_is_unread_and_a_log_of_counters_alone_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = "".join(f"2026-03-02 08:15:{n:02d} INFO iteration {n} loss 2.5\n" for n in range(40))
    texts = {
        "train.log": steps,
        "numbers.txt": TABLE,
        "bare.log": "".join(f"iteration {n} loss 2\n" for n in range(40)),
    }
    texts["prose.txt"] = "It went on.\nThen it stopped.\nNobody knows why.\n"  # may be the program's own words
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    inputs = told(tmp_path, capsys)["inputs"]
    assert [row["path"] for row in inputs if row["unread"]] == ["numbers.txt"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (TABLE, "a table"),
        ("PID %CPU CMD\n1 0.0 init\n27 1.4 python3 train.py --x\n", "a table"),
        ("node,rate,state\na,1,up\nb,2,up\nc,3,up\n", "a table"),
        ('{"traceEvents": []}', "a trace of a profiler (Chrome's trace format)"),
        ('[{"a": 1}]', "JSON"),
        ("<html>", "XML"),
        ("We saw it stop.\nThen it went on again.\nNobody knows why it did.\nThe end is near.\n", "text"),
        ("", "text"),
    ],
)
def test_the_form_of_an_unknown_text_is_named(head: str, form: str) -> None:
    assert form_of(head) == form


def test_a_file_that_shows_the_verdict_is_not_called_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "qstat.txt"
    path.write_text("Job Id: 1234.pbs01\n    comment = Job run at Mon Mar 02 and exceeded resource walltime\n")
    report = told(path, capsys)
    assert report["conclusion"]["category"] == "platform"  # type: ignore[index]
    assert report["inputs"][0]["unread"] is None  # type: ignore[index]


@pytest.mark.parametrize(
    ("head", "form"),
    [
        ("[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\nDevice: 0\n", "text"),
        ('[{"a": 1}]\n', "JSON"),
        ("{broken\n", "text"),
        ('{"traceEvents": []}', "a trace of a profiler (Chrome's trace format)"),
    ],
)
def test_only_what_begins_as_json_is_called_json(head: str, form: str) -> None:
    assert form_of(head) == form


def test_reports_alone_are_named_and_not_called_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pods.txt"
    header = "NAME           READY   STATUS    RESTARTS   AGE   IP         NODE\n"
    path.write_text(f"{header}llm-worker-0   1/1     Running   0          75m   10.0.0.1   gpu-18\n")
    assert told(path, capsys)["headline"] == (
        "Only reports of machines were read: 5 facts of 1 place. None of them is known to be bad. "
        "Logs would show how the job went."
    )


def test_a_weak_sign_of_a_report_is_named_before_what_it_does_not_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = "\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n"
    adapters = [f"CA '{name}'\n{port.format(rate=rate)}" for name, rate in [("mlx5_0", 400), ("mlx5_1", 100)]]
    path = tmp_path / "ibstat.txt"
    path.write_text("".join(adapters))
    headline = told(path, capsys)["headline"]
    assert "port runs at a lower rate than another port of the machine" in headline
    assert "does not show a failure" in headline
    assert "None of them is known to be bad" not in headline

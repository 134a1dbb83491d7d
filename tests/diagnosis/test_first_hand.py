"""First-hand reports: waiting, echoes, minority consequences, kernel messages with a program's error."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from diagnosis.files.parsing import parse
from diagnosis.kinds.logs.columns.sources import from_path
from diagnosis.kinds.logs.pace.durations import Durations
from diagnosis.model import Kind, ParseHints
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.synthetic import Job, accused, read_files, told


def roots(report: dict) -> list[str]:
    """The examples of the root events."""
    return [event["example"] for event in report["logs"]["events"] if event["role"] == "root"]


def test_where_all_say_the_same_no_word_is_odd(tmp_path: Path) -> None:
    job = Job(gpus=1)
    report = told(job.timed_out(job.ends + 600).torn_down(job.ends + 605), tmp_path)
    assert roots(report) == [] and accused(report) == []


def test_a_machine_that_boots_again_after_training_stopped_went_down(tmp_path: Path) -> None:
    job = Job(cut={4: Job().ends + 100})
    banner = "kernel: Linux version 6.1.0-18 (build@host) #1 SMP"
    job.all_say(job.ends + 20, "[rank{rank}]: NCCL WARN socketProgress: Connection closed by remote peer", (4,))
    job.torn_down(job.ends + 25, (4,)).say(job.ends + 90, 4, banner)
    report = told(job, tmp_path / "after")
    assert report["logs"]["id"] == "hardware.host.lost" and accused(report) == ["gpu-0004"]
    assert "Linux version" in roots(report)[0]
    early = told(Job().say(0.5, 4, banner).completes(), tmp_path / "before")
    assert not early["logs"]["is_failure"] and accused(early) == []


def test_a_job_that_stood_still_for_long_and_was_then_cancelled_had_hung(tmp_path: Path) -> None:
    def cancelled(after: float, work: Path) -> str:
        job = Job()
        job.say(job.ends + after, None, "slurmstepd: error: *** STEP 91.0 ON gpu-0000 CANCELLED AT 2025-10-09 ***")
        return str(told(job, work)["logs"]["symptom"])

    assert cancelled(1500, tmp_path / "late") == "hang"
    assert cancelled(15, tmp_path / "soon") != "hang"


def test_a_slowdown_is_found_by_stamps_of_whole_seconds(tmp_path: Path) -> None:
    job = Job(framework="torchtitan", iterations=60, step_s=1.4, slow_from=132, slow_ratio=1.8)
    files = job.files()
    whole = {
        path: b"".join(line[:19] + b"Z" + line[27:] for line in data.splitlines(keepends=True))
        for path, data in files.items()
    }
    parsed, read = read_files(whole, tmp_path)
    logs = to_json(diagnose(parsed, job=job.hints(), read=read))["logs"]
    assert logs["symptom"] == "slow" and abs(logs["iteration"] - 132) <= 2


def test_an_even_pace_in_whole_seconds_is_not_slow(tmp_path: Path) -> None:
    job = Job(framework="torchtitan", iterations=60, step_s=1.4)
    whole = {
        path: b"".join(line[:19] + b"Z" + line[27:] for line in data.splitlines(keepends=True))
        for path, data in job.files().items()
    }
    parsed, read = read_files(whole, tmp_path)
    assert not to_json(diagnose(parsed, job=job.hints(), read=read))["logs"]["is_failure"]


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("logs/cn7026-task2.log", "cn7026"),
        ("logs/cn7026_rank12.log", "cn7026"),
        ("dgx-3.proc4.out", "dgx-3"),
        ("rk7-gpu17.log", "rk7-gpu17"),
    ],
)
def test_what_numbers_the_writers_of_a_machine_is_no_part_of_its_name(path: str, node: str) -> None:
    assert from_path(path).node == node


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("batch 30 done in 2.71 sec, loss 2", 2.71),
        ("update 3 loss 2 took 4.51s", 4.51),
        ("iter=3 loss=1 dt=710ms", 0.71),
        ("step=3 loss=2 sec=4.96", 4.96),
        ("step 3 loss 2 total time 400s", None),
        ("step 7 time: 12", None),
    ],
)
def test_a_duration_next_to_a_counter_is_read_whatever_it_is_called(line: str, value: float | None) -> None:
    assert Durations().seconds(0, line) == value


def test_the_last_words_of_a_process_are_a_log_where_its_output_stands(tmp_path: Path) -> None:
    dump = (
        b"Fatal Python error: Segmentation fault\n\n"
        b'Current thread 0x00007f (most recent call first):\n  File "a.py", line 8 in f\n'
    )
    for path, kind in (("logs/n1/0/stderr.log", Kind.LOG), ("stacks/rank3.txt", Kind.STACK)):
        parsed = parse(io.BytesIO(dump), path, ParseHints(), tmp_path / kind.value)
        assert parsed.kind == kind


def test_a_launchers_first_report_of_a_death_is_the_line_to_read_and_not_its_summary(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[2] / "samples" / "sigkill_rank5.tar.gz"
    with tarfile.open(sample) as archive:
        files = {m.name: archive.extractfile(m).read() for m in archive if m.isfile() and "/logs/" in m.name}
    parsed, read = read_files(files, tmp_path)
    logs = to_json(diagnose(parsed, read=read))["logs"]
    assert logs["id"] == "hardware.host.killed"
    assert [(line["file"].rpartition("/")[2], line["line"]) for line in logs["lines"]] == [("agent.stderr.log", 41)]

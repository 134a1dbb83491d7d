"""The jobs of a batch are done by several processes, and told in their order."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from diagnosis.command import batch
from diagnosis.command.batch import Line
from diagnosis.files import parse_pool

HERE = os.getpid()


def jobs(folder: Path, count: int = 20) -> list[Path]:
    paths = [folder / f"{number:02d}.log" for number in range(count)]
    for path in paths:
        path.touch()
    return paths


def process_of(job: Path) -> Line:
    return Line(f"{job.name} {os.getpid()}", job.name == "03.log", job.name == "04.log")


def ends_its_process(job: Path) -> Line:
    if job.name == "05.log" and os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return Line(job.name)


@pytest.fixture(autouse=True)
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_pool, "processes", lambda: 2)
    monkeypatch.setattr(parse_pool, "can_fork", lambda: True)  # nothing here asks a table


def test_other_processes_do_the_jobs_and_their_lines_keep_the_order(tmp_path: Path) -> None:
    given = jobs(tmp_path)
    told = list(batch.lines(given, process_of))
    names, processes = zip(*(line.text.split() for line in told), strict=True)
    assert list(names) == [job.name for job in given]
    assert 1 <= len(set(processes)) <= 2
    assert str(HERE) not in processes
    assert [n for n, line in enumerate(told) if line.is_unusable] == [3]
    assert [n for n, line in enumerate(told) if line.is_accused] == [4]


def test_a_large_job_is_done_here_because_it_uses_all_cores_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = jobs(tmp_path, 4)
    given[1].write_bytes(b"large")
    given[2].unlink()
    given[2].mkdir()
    (given[2] / "train.log").write_bytes(b"large")
    monkeypatch.setattr(parse_pool, "workers_for", lambda sizes: 1 + (sum(sizes) > 0))
    processes = [line.text.split()[1] for line in batch.lines(given, process_of)]
    assert [process == str(HERE) for process in processes] == [False, True, True, False]


def test_what_a_process_that_was_ended_leaves_is_done_here(tmp_path: Path) -> None:
    given = jobs(tmp_path)
    told = [line.text for line in batch.lines(given, ends_its_process)]
    assert told == [job.name for job in given]


def test_a_single_job_and_a_process_with_threads_begin_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = jobs(tmp_path, 2)
    assert [line.text for line in batch.lines(given[:1], process_of)] == [f"00.log {HERE}"]
    monkeypatch.setattr(parse_pool, "can_fork", lambda: False)
    assert [line.text for line in batch.lines(given, process_of)] == [f"0{n}.log {HERE}" for n in range(2)]

"""Beginnings of many small files are read some in one message, and each file gets its own bytes."""

from __future__ import annotations

from ingest.isolation.inside import _Reading


class _Worker:
    """Answers with the bytes of files, and remembers what was asked."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[list[str]] = []

    def ask(self, name: str, paths: list[str], offset: int, length: int) -> list[bytes]:
        assert name == "read"
        self.asked.append(paths)
        return [self.files[path][offset : offset + length] for path in paths]

    def advance(self, amount: int) -> None:
        pass


def _worker(count: int) -> _Worker:
    return _Worker({f"rank_{number:04d}.log": f"line of {number}".encode() for number in range(count)})


def test_files_read_in_turn_take_few_messages() -> None:
    worker = _worker(1_000)
    read = _Reading(worker, list(worker.files))
    found = {path: read(path, 0, 4_096) for path in worker.files}
    assert found == worker.files
    assert len(worker.asked) == 4


def test_a_file_out_of_turn_is_read_alone() -> None:
    worker = _worker(1_000)
    read = _Reading(worker, list(worker.files))
    assert read("rank_0500.log", 0, 4_096) == b"line of 500"
    assert worker.asked == [["rank_0500.log"]]


def test_files_that_are_passed_over_end_no_turn() -> None:
    worker = _worker(1_000)
    read = _Reading(worker, list(worker.files))
    paths = sorted(worker.files)[::3]
    assert [read(path, 0, 4_096) for path in paths] == [worker.files[path] for path in paths]
    assert len(worker.asked) == 4


def test_another_length_and_position_are_read_again() -> None:
    worker = _worker(300)
    read = _Reading(worker, list(worker.files))
    assert read("rank_0000.log", 0, 4) == b"line"
    assert read("rank_0001.log", 0, 7) == b"line of"
    assert read("rank_0002.log", 5, 2) == b"of"
    assert read("rank_0002.log", 0, 1 << 20) == b"line of 2"


def test_long_beginnings_are_read_one_by_one() -> None:
    worker = _worker(300)
    read = _Reading(worker, list(worker.files))
    for path in sorted(worker.files)[:3]:
        read(path, 0, 1 << 20)
    assert [len(paths) for paths in worker.asked] == [1, 1, 1]


def test_a_beginning_is_read_again_when_it_is_asked_for_again() -> None:
    worker = _worker(300)
    read = _Reading(worker, list(worker.files))
    assert [read("rank_0000.log", 0, 4_096) for _ in range(2)] == [b"line of 0"] * 2

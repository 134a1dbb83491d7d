"""Files parsed in several processes: the order of results, the same tables, and one file that ends its process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path, PosixPath
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from diagnosis.files import parse_pool
from diagnosis.files.parse_pool import MIN_PARALLEL_BYTES, Task, parse_all, parse_one, workers_for
from diagnosis.kinds.logs.columns.tables import COLUMNS, UNIQUES
from diagnosis.kinds.logs.rows import events, stored_rows
from diagnosis.model import Parsed, ParseHints


class Deadly(PosixPath):
    """A file whose opening ends the process, as a crash of a native library would."""

    def open(self, *_: Any, **__: Any) -> Any:
        os._exit(9)


class Odd(PosixPath):
    """A file that cannot be opened."""

    def open(self, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")


def _in_fresh_process[R](function: Callable[..., R], *args: Any) -> R:
    """In a process whose column library has no threads yet, as that of the command line when it begins to read."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def _tasks(folder: Path, work: str, **kinds: type[PosixPath]) -> list[Task]:
    tasks = []
    for name in ("a", "b", "c", "d"):
        file = folder / f"{name}.log"
        file.write_text("".join(f"2026-03-01 08:00:{n:02d} INFO {name} step {n}\n" for n in range(60)), "utf-8")
        made = kinds.get(name, PosixPath)(file)
        tasks.append(Task(made, file.name, ParseHints(), folder / work / name))
    return tasks


def _parse_all(tasks: list[Task], workers: int) -> list[Parsed | str]:
    return list(parse_all(tasks, workers))


@pytest.mark.parametrize("is_forked", [True, False])
def test_two_processes_give_what_one_gives_in_the_same_order(tmp_path: Path, *, is_forked: bool) -> None:
    alone = _parse_all(_tasks(tmp_path, "1"), 1)  # from then on this process cannot be forked
    two = _tasks(tmp_path, "2")
    beside = _in_fresh_process(_parse_all, two, 2) if is_forked else _parse_all(two, 2)
    for one, other in zip(alone, beside, strict=True):
        assert isinstance(one, Parsed) and isinstance(other, Parsed)
        assert (one.path, one.sha256, one.lines, one.facts) == (other.path, other.sha256, other.lines, other.facts)
        assert_frame_equal(*(stored_rows.read([stored_rows.lines_of(p)], COLUMNS) for p in (one, other)))
        assert_frame_equal(*(stored_rows.read([stored_rows.messages_of(p)], UNIQUES) for p in (one, other)))


def test_no_process_is_left_when_the_steps_aside_are_done(tmp_path: Path) -> None:
    _in_fresh_process(_steps_aside, tmp_path)


def _steps_aside(folder: Path) -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    for run in ("first", "second"):
        assert len(_parse_all(_tasks(folder, run), 2)) == 4
        first, second = parse_pool.aside(os.getpid), parse_pool.aside(os.getpid)
        assert os.getpid() != first() == second()
        parse_pool.end_aside()
        assert children.read_text("utf-8").split() == []


def test_a_step_aside_is_done_here_where_no_process_waits_or_it_was_ended(tmp_path: Path) -> None:
    assert parse_pool.aside(os.getpid)() == os.getpid()
    _in_fresh_process(_lost_step_aside, tmp_path)


def _lost_step_aside(folder: Path) -> None:
    assert len(_parse_all(_tasks(folder, "work"), 2)) == 4
    assert [parse_pool.aside(_deadly, os.getpid())() for _ in range(2)] == ["here", "here"]


def _deadly(home: int) -> str:
    """Ends its process, unless that is this one."""
    return "here" if os.getpid() == home else os._exit(9)


def test_a_file_that_ends_its_process_or_cannot_be_opened_costs_itself_alone(tmp_path: Path) -> None:
    found = _in_fresh_process(_parse_all, _tasks(tmp_path, "work", b=Deadly, d=Odd), 2)
    assert [one if isinstance(one, str) else one.path for one in found] == [
        "a.log",
        "The process that read this file was ended by the system: it was left out. Split it or give more memory.",
        "c.log",
        "The file cannot be read (Permission denied): it was left out.",
    ]


def test_processes_are_started_for_many_bytes_in_several_files_only() -> None:
    assert workers_for([MIN_PARALLEL_BYTES - 1]) == 1
    assert workers_for([2 * MIN_PARALLEL_BYTES]) == 1
    assert workers_for([MIN_PARALLEL_BYTES] * 2) <= 2


def test_small_files_share_a_batch_and_large_ones_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_pool, "MAX_SMALL_BYTES", 10)
    sizes = (4, 5, 20, 6, 3, 0)
    tasks = [Task(Path(str(n)), str(n), ParseHints(), Path("work"), size) for n, size in enumerate(sizes)]
    found = [[task.path for task in batch] for batch in parse_pool.batches(tasks)]
    assert found == [["0", "1"], ["2"], ["3", "4", "5"]]


def test_a_batch_says_of_each_file_what_the_file_says_alone(tmp_path: Path) -> None:
    texts = (
        "2026-03-01 08:00:00 step 1\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus\n",
        '{"log": "2026-03-01 08:00:00 step 2\\n", "stream": "stdout", "time": "2026-03-01T08:00:00Z"}\n',
        "first\x1b[31m red\r\nsecond\r\n",
        "no newline at the end",
        "",
    )
    together, alone = [], []
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.log"
        file.write_text(text, newline="")
        together.append(Task(file, file.name, ParseHints(), tmp_path / f"together-{number}"))
        alone.append(Task(file, file.name, ParseHints(), tmp_path / f"alone-{number}"))
    for one, other in zip(parse_pool.parse_all(together, 1), map(parse_one, alone), strict=True):
        assert isinstance(one, Parsed) and isinstance(other, Parsed)
        assert (one.lines, one.kind, one.notes, one.skipped) == (other.lines, other.kind, other.notes, other.skipped)
        if one.columns and other.columns:
            assert_frame_equal(*(stored_rows.read([stored_rows.lines_of(p)], COLUMNS) for p in (one, other)))


def test_some_logs_of_a_batch_give_the_tables_of_those_logs_alone(tmp_path: Path) -> None:
    parsed = [one for one in parse_all(_tasks(tmp_path, "work"), 1) if isinstance(one, Parsed)]
    assert len({one.columns for one in parsed}) == 1
    alone = [one for one in map(parse_one, _tasks(tmp_path, "alone")) if isinstance(one, Parsed)]
    for chosen in ([1, 3], [2], [0, 1, 2, 3]):
        table, other = (events.build([one[n] for n in chosen]) for one in (parsed, alone))
        assert table.files == other.files
        assert_frame_equal(table.occurrences, other.occurrences)
        assert_frame_equal(table.messages, other.messages)
        step = table.messages["masked"].to_list()
        assert_frame_equal(table.rows(step), other.rows(step))

"""Evidence is read in a separate process: after every end of that process, the worker continues and reports it."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diagnosis.archive import archives
from diagnosis.model import JobHints, ParseHints
from ingest import processes
from ingest.isolation import End, Limits, ReaderLost, call
from ingest.isolation.client import Keeper
from ingest.services import engine_calls
from tests.archives import tar_of
from tests.ingest.conftest import LOG
from tests.patience import PATIENCE_S, WORK_S, wait_for
from tests.processes import is_alive

PLENTY = Limits(memory_bytes=1 << 30, silence_s=PATIENCE_S, wall_s=WORK_S)


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    made = Keeper("tests.ingest.hostile_calls")
    yield made
    made.stop()


def ask(keeper: Keeper, name: str, limits: Limits = PLENTY, **arguments: Any) -> Any:
    return keeper.call(name, {"beat": lambda: None, "double": lambda n: 2 * n}, limits, arguments)


def test_a_reader_stays_for_the_next_call(keeper: Keeper) -> None:
    assert ask(keeper, "pid") == ask(keeper, "pid") != os.getpid()


def test_a_reader_yields_the_processor_to_the_pages_of_the_same_machine(keeper: Keeper) -> None:
    assert ask(keeper, "niceness") == min(os.nice(0) + 10, 19)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("crash", "Segmentation fault"),
        ("abort", "A library aborted on this"),
        ("exit_quietly", "exit code 0"),
        ("answer_in_the_middle", "exit code 1"),
        ("panic", "PanicException: range end index"),
    ],
)
def test_a_crash_costs_one_call_and_a_sentence(keeper: Keeper, name: str, told: str) -> None:
    before = ask(keeper, "pid")
    with pytest.raises(ReaderLost, match=told):
        ask(keeper, name)
    assert ask(keeper, "pid") != before


@pytest.mark.parametrize("name", ["take", "take_natively"])
def test_memory_beyond_the_limit_costs_one_call_and_a_sentence(keeper: Keeper, name: str) -> None:
    with pytest.raises(ReaderLost, match=r"more memory than the 1\.0 GiB"):
        ask(keeper, name, size=3 << 30)
    assert ask(keeper, "take", size=1 << 20) == 1 << 20


def test_a_reader_that_has_grown_makes_room_for_a_new_one(keeper: Keeper) -> None:
    first = ask(keeper, "grow")
    assert ask(keeper, "pid") != first


def test_a_silent_reader_is_stopped_after_the_silence_allowed(keeper: Keeper) -> None:
    with pytest.raises(ReaderLost, match="made no progress for 1 seconds"):
        ask(keeper, "hang", Limits(0, silence_s=1, wall_s=600))


def test_a_reader_that_never_ends_is_stopped_though_it_is_not_silent(keeper: Keeper) -> None:
    with pytest.raises(ReaderLost, match="longer than the 1 seconds"):
        ask(keeper, "go_on_for_ever", Limits(0, silence_s=60, wall_s=1))


def test_a_reader_that_reports_without_advancing_is_stopped_as_a_silent_one_is(keeper: Keeper) -> None:
    beats: list[int] = []
    handlers = {"beat": lambda: beats.append(1)}
    with pytest.raises(ReaderLost, match="made no progress for 1 seconds"):
        keeper.call("say_without_work", handlers, Limits(0, silence_s=1, wall_s=WORK_S), {})
    assert not beats, "it renews nothing"


def test_a_reader_that_takes_more_processor_time_than_its_evidence_may_is_stopped_for_good(keeper: Keeper) -> None:
    with pytest.raises(ReaderLost, match="more than the 1 seconds of processor time") as raised:
        ask(keeper, "compute_for_ever", Limits(0, silence_s=PATIENCE_S, wall_s=WORK_S, cpu_s=1))
    assert raised.value.end is None, "another try would end in the same way"


def test_what_a_reader_took_for_earlier_calls_does_not_count(keeper: Keeper) -> None:
    for _ in range(3):
        assert ask(keeper, "compute", Limits(0, PATIENCE_S, WORK_S, cpu_s=1), seconds=0.5) == "done"


def test_the_worker_looks_at_a_reader_that_says_nothing_and_may_end_it(keeper: Keeper) -> None:
    def cancelled() -> None:
        raise LookupError("cancelled")

    before = ask(keeper, "pid")
    with pytest.raises(LookupError, match="cancelled"):
        keeper.call("hang", {"check": cancelled}, PLENTY, {})
    assert not is_alive(before)


def test_a_full_disk_is_no_fault_of_the_evidence(keeper: Keeper) -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        ask(keeper, "disk_full")
    assert raised.value.errno == 28


def test_what_the_system_ended_may_succeed_another_time(keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(ReaderLost) as raised:
        ask(keeper, "killed", marker=str(tmp_path / "was-here"))
    assert raised.value.end == End.OUTSIDE
    assert "malformed" not in str(raised.value)
    assert ask(keeper, "killed", marker=str(tmp_path / "was-here")) == "read"


def test_a_fork_server_that_ends_before_it_forks_is_no_fault_of_the_file() -> None:
    never_ready = Keeper("tests.ingest.no_such_module")
    with pytest.raises(ReaderLost, match="Something outside ended") as raised:
        ask(never_ready, "pid")
    assert raised.value.end == End.OUTSIDE


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_every_signal_that_somebody_sends_is_an_end_from_outside(keeper: Keeper, number: int) -> None:
    with pytest.raises(ReaderLost, match="Something outside ended") as raised:
        ask(keeper, "signalled", number=int(number))
    assert raised.value.end == End.OUTSIDE


def test_the_reason_of_an_end_is_found_however_long_the_end_takes(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "oom_kills", lambda: 0)
    with pytest.raises(ReaderLost, match="Something outside ended") as raised:
        ask(keeper, "killed_slowly")
    assert raised.value.end == End.OUTSIDE


@pytest.mark.parametrize("told", [[7, 8], [None, None]], ids=["ran out", "does not tell"])
def test_a_reader_that_ends_while_the_system_runs_out_of_memory_may_be_the_reason(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, told: list[int | None]
) -> None:
    answers = iter(told)
    monkeypatch.setattr(processes, "oom_kills", lambda: next(answers))
    with pytest.raises(ReaderLost, match="The system ran out of memory") as raised:
        ask(keeper, "signalled", number=int(signal.SIGKILL))
    assert raised.value.end == End.OWN


def test_a_reader_that_sends_no_answer_and_does_not_end_is_itself_the_reason(keeper: Keeper) -> None:
    with pytest.raises(ReaderLost, match="no answer that can be read") as raised:
        ask(keeper, "send_nonsense_and_stay")
    assert raised.value.end is None


def test_a_call_may_ask_its_worker(keeper: Keeper) -> None:
    assert ask(keeper, "ask", number=20) == 41


def test_what_a_worker_raises_while_it_is_asked_ends_the_call(keeper: Keeper) -> None:
    def refuse(number: int) -> int:
        raise LookupError("superseded")

    before = ask(keeper, "pid")
    with pytest.raises(LookupError, match="superseded"):
        keeper.call("ask", {"double": refuse}, PLENTY, {"number": 1})
    assert ask(keeper, "pid") != before


def test_readers_end_with_their_worker(keeper: Keeper) -> None:
    other = Keeper("tests.ingest.hostile_calls")
    pid = ask(other, "pid")
    assert other._control is not None
    other._control.close()  # as when the worker is killed
    wait_for(lambda: not is_alive(pid), "the reader still runs")
    other.stop()


def test_a_file_is_read_similar_in_a_process_apart_and_in_the_worker(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(LOG)
    said = {"source": str(tmp_path / "source"), "start": 0, "length": None, "path": "a.log", "hints": ParseHints()}
    answers = [
        call("read_file", {"beat": lambda: None}, limits, **said, folder=str(tmp_path / name))
        for name, limits in (("apart", PLENTY), ("here", None))
    ]
    assert answers[0] == answers[1]
    assert answers[0]["lines"] > 0
    for name in ("columns.parquet", "uniques.parquet", "parsed.json"):
        assert (tmp_path / "apart" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_a_job_is_diagnosed_similar_in_a_process_apart_and_in_the_worker(tmp_path: Path) -> None:
    from diagnosis import parse
    from diagnosis.history import History

    files = {"n1/a.log": LOG, "n2/b.log": b"2026-03-01 08:00:00 RuntimeError: CUDA error: device-side assert\n" * 3}
    parsed = [parse(io.BytesIO(data), path, ParseHints(), tmp_path / path) for path, data in files.items()]
    stages: list[str] = []
    handlers = {
        "beat": lambda: None,
        "stage": lambda stage, done, total: stages.append(stage),
        "step": lambda stage: None,
        "read": lambda paths, offset, length: [files[path][offset : offset + length] for path in paths],
    }
    said = {"parsed": parsed, "job": JobHints(job_id="7"), "history": History()}
    apart, here = (
        call("diagnose_job", handlers, limits, **said, as_of=1772352000.0, model=None, tables=str(tmp_path / "t"))
        for limits in (PLENTY, None)
    )
    assert apart == json.loads(json.dumps(here))
    assert "stacks" in stages


def test_an_archive_is_unpacked_similar_in_a_process_apart_and_in_the_worker(tmp_path: Path) -> None:
    (tmp_path / "all.tar.gz").write_bytes(tar_of({"a.log": LOG, "../b.log": LOG, "c.log": b""}))
    taken: dict[str, list[Any]] = {"apart": [], "here": []}
    for name, limits in (("apart", PLENTY), ("here", None)):
        (tmp_path / name).mkdir()
        handlers = {"beat": lambda: None, "taken": taken[name].extend}
        said = {"source": str(tmp_path / "all.tar.gz"), "path": "all.tar.gz", "limits": archives.Limits()}
        call("unpack", handlers, limits, **said, folder=str(tmp_path / name))
    apart, here = ([[*row[:3], *row[4:]] for row in taken[name]] for name in ("apart", "here"))
    assert apart == here
    assert [row[0] for row in apart] == ["member", "problem", "member"]


@pytest.mark.parametrize("name", ["read_file", "unpack", "observe_ranges"])
def test_reading_one_file_has_a_limit_of_its_own(name: str, settings: Any) -> None:
    settings.READING_IS_APART = True
    settings.READING_MEMORY_BYTES, settings.DIAGNOSING_MEMORY_BYTES = 10, 20
    of_file, of_job = engine_calls.limits(name, 1), engine_calls.limits("diagnose_job", 1)
    assert of_file is not None
    assert of_job is not None
    assert (of_file.memory_bytes, of_job.memory_bytes) == (10, 20)

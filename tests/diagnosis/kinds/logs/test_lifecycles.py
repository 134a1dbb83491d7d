"""The ends of processes decide how a job ended: launchers' last states, stalls before a stop, closing words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from diagnosis.kinds.logs.causes.lifecycles import End, Lifecycles, find_lifecycles
from diagnosis.kinds.logs.pace.planned_end import planned_steps
from diagnosis.knowledge import words
from tests.diagnosis.cases import case_of_lines
from tests.diagnosis.made_facts import facts_of, pace, rule

AGENT = "torch/distributed/elastic/agent/server/api.py"
TOLD = rule("teardown", "platform.scheduler.cancelled", example=f"{AGENT}:753] Received 15 death signal", at=160.0)
ENDED = rule("teardown", "unknown", example="failed (exitcode: 1) local_rank: 0", at=120.0)
WELL = {"example": "[default] worker group successfully finished.", "at": 130.0}


def lives_of(*events: dict[str, Any]) -> Lifecycles:
    return find_lifecycles(facts_of(*events, pace=pace(100.0, usual_s=1.0)))


def test_a_launcher_that_tells_a_good_end_last_ended_well() -> None:
    assert lives_of(WELL | {"file": 0}).has_ended_well
    assert not lives_of(WELL | {"file": 0}, ENDED | {"file": 1}).has_ended_well
    # the accounting of a job that reached its limit tells an exit code, too
    accounting = {"example": "State: TIMEOUT (exit code 0)", "at": 170.0, "file": 1}
    assert not lives_of(TOLD | {"file": 0}, accounting).has_ended_well
    # it began again, and ended well
    assert lives_of(ENDED | {"file": 0}, WELL | {"file": 0}).has_ended_well
    assert lives_of(WELL | {"file": 0}).rows["end"].to_list() == [End.WELL]


def test_a_job_without_progress_for_long_had_stalled_when_it_was_stopped() -> None:
    assert lives_of(TOLD).was_stalled(pace(100.0, usual_s=1.0))
    assert not lives_of(TOLD).was_stalled(pace(155.0, usual_s=1.0))


def test_a_job_of_which_a_process_had_ended_was_not_stalled() -> None:
    assert not lives_of(ENDED, TOLD).was_stalled(pace(100.0, usual_s=1.0))
    # what launchers print as they end the processes comes after the stop
    assert lives_of(TOLD, ENDED | {"at": 165.0}).was_stalled(pace(100.0, usual_s=1.0))


STEPS = [f"2026-03-01 10:00:{n:02d},000 - train - INFO - upd {n} loss {9 - n / 50:.3f}" for n in range(1, 31)]


def line(second: int, message: str, level: str = "INFO") -> str:
    return f"2026-03-01 10:{second // 60:02d}:{second % 60:02d},000 - train - {level} - {message}"


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ("nothing left to do", "succeeded"),
        ("all steps done", "succeeded"),
        ("train loop left", "succeeded"),
        ("checkpoint 30 written, all done", "running"),
        ("evaluation finished", "running"),
        ("still 20 documents to read", "running"),
    ],
)
def test_a_new_closing_message_after_the_last_step_is_an_end(tmp_path: Path, last: str, outcome: str) -> None:
    assert case_of_lines(tmp_path, *STEPS, line(31, last)).ending.outcome == outcome


def test_a_closing_message_that_was_printed_before_ends_nothing(tmp_path: Path) -> None:
    early = line(0, "all work is done")
    assert case_of_lines(tmp_path, early, *STEPS, line(31, "all work is done")).ending.outcome == "running"


def test_a_signal_that_ranks_report_and_leave_after_is_no_failure(tmp_path: Path) -> None:
    left = (line(31, "caught SIGTERM, leaving after this step", "WARNING"), line(32, "saving step 30"), line(33, "bye"))
    assert case_of_lines(tmp_path, *STEPS, *left).ending.outcome == "cancelled"


def test_progress_to_the_last_line_of_a_log_without_times_runs(tmp_path: Path) -> None:
    bare = [f"upd {n} loss {9 - n / 50:.3f}" for n in range(1, 31)]
    assert case_of_lines(tmp_path, *bare).ending.outcome == "running"


@pytest.mark.parametrize(
    ("command", "planned"),
    [
        ("run_lm.py --layout dp --steps 80 --seed 3", (80,)),
        ("train.py --max-steps=500 --lr 0.1", (500,)),
        ("train.py trainer.max_steps=40", (40,)),
        ("train.py --eval-every 40 --warmup 3", ()),
    ],
)
def test_a_command_line_states_the_planned_steps(command: str, planned: tuple[int, ...]) -> None:
    assert planned_steps([command]) == planned


def test_closing_words_do_not_match_lines_of_steps() -> None:
    texts = pl.Series(["step <NUM>/<NUM> loss <NUM>", "saved part <NUM>", "reading shard <NUM> of all"])
    assert not texts.str.contains(words.pattern("outcome", "closing")).any()

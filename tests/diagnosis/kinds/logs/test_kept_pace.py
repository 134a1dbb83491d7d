"""Complaints of slowness count where training shows it."""

from __future__ import annotations

from pathlib import Path

from tests.diagnosis.cases import case_of_lines

COMPLAINT = "2026-03-01 10:21:30 WARNING slow write of the event file: 8647 ms"


def steps(first: int, last: int, minute: int, each_s: int) -> list[str]:
    times = [minute * 60 + (n - first) * each_s for n in range(first, last + 1)]
    return [f"2026-03-01 10:{t // 60:02d}:{t % 60:02d} step {n} loss 2.1" for n, t in enumerate(times, first)]


def test_a_complaint_beside_an_even_pace_is_no_failure(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *steps(1, 69, 10, 10), COMPLAINT, *steps(70, 75, 22, 10))
    assert case.ending.outcome == "running"


def test_a_complaint_where_steps_become_slow_is_the_cause(tmp_path: Path) -> None:
    slow = steps(61, 100, 21, 55)
    case = case_of_lines(tmp_path, *steps(1, 60, 10, 10), COMPLAINT, *slow)
    assert case.lead is not None
    assert case.lead.signature == "storage.slow"


def test_a_complaint_before_steps_of_an_even_pace_does_not_explain_a_crash(tmp_path: Path) -> None:
    crash = ["2026-03-01 10:30:00 Worker group FAILED. No attempts left, stopping worker group"]
    case = case_of_lines(tmp_path, *steps(1, 69, 10, 10), COMPLAINT, *steps(70, 75, 22, 10), *crash)
    assert case.ending.outcome == "failed"
    assert case.lead.signature != "storage.slow"

"""An hour without the site, or a clock that jumps, is no hang, no lost node and no burst."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.live import judge, note_judgement, record


def kinds(job: Any) -> list[str]:
    note_judgement(job.state, job.now)
    return [alarm.kind for alarm in judge(job.state, job.now)]


def goes_on(job: Any, steps: int, **seen: Any) -> None:
    for _ in range(steps):
        job.trains(1, **seen)
        note_judgement(job.state, job.now)


def test_after_an_hour_without_the_site_jobs_get_time_to_catch_up_before_they_hang(job: Any) -> None:
    job.trains(103)
    assert kinds(job) == []
    job.now += 3_600
    assert kinds(job) == []
    for _ in range(59):
        job.now += 5
        assert kinds(job) == []
    job.now += 30
    assert kinds(job) == ["hang"]


def test_an_alarm_that_held_when_the_site_went_away_holds_until_the_job_goes_on(job: Any) -> None:
    goes_on(job, 60, writers=[f"node-{n}" for n in range(6)])
    goes_on(job, 60, writers=[f"node-{n}" for n in range(5)])
    job.now += 30
    assert kinds(job) == ["hang", "silent"]
    record(job.state, judge(job.state, job.now), job.now)
    job.now += 3_600
    for _ in range(5):
        assert kinds(job) == ["hang", "silent"]
        record(job.state, judge(job.state, job.now), job.now)
        job.now += 100
    goes_on(job, 3, writers=[f"node-{n}" for n in range(6)])
    assert kinds(job) == []


def test_progress_after_the_return_is_judged_at_once(job: Any) -> None:
    job.trains(103)
    kinds(job)
    job.now += 3_600
    kinds(job)
    job.trains(3)
    assert kinds(job) == []
    job.now += 30
    assert kinds(job) == ["hang"]


def test_a_clock_that_is_set_back_delays_no_alarm(job: Any) -> None:
    job.trains(103)
    kinds(job)
    job.now -= 100
    kinds(job)
    for _ in range(61):
        job.now += 5
        found = kinds(job)
    assert found == ["hang"]


@pytest.mark.parametrize("tally", ["errors", "retries"])
def test_the_lines_of_an_hour_that_come_at_once_are_no_burst_and_not_usual(job: Any, tally: str) -> None:
    lines = {"tallies": {"errors": 0, "retries": 0, tally: 30}}
    goes_on(job, 200)
    job.now += 3_600
    note_judgement(job.state, job.now)
    for _ in range(50):
        goes_on(job, 1, **lines)
        assert kinds(job) == []
    goes_on(job, 200)
    goes_on(job, 100, **lines)
    assert kinds(job) == ["burst" if tally == "errors" else "retries"]


def test_nodes_that_catch_up_later_than_others_are_not_silent(job: Any) -> None:
    goes_on(job, 60, writers=[f"node-{n}" for n in range(6)])
    job.now += 3_600
    note_judgement(job.state, job.now)
    goes_on(job, 100, writers=[f"node-{n}" for n in range(5)])
    assert kinds(job) == []
    goes_on(job, 60, writers=[f"node-{n}" for n in range(5)])
    assert kinds(job) == ["silent"]

"""The alarm of a job that still runs is evidence like any other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from diagnosis.conclusion.invariants import violations
from diagnosis.conclusion.model import Answer, symptom_of
from diagnosis.evidence import decode
from diagnosis.live.watches import TABLE, Watch
from diagnosis.model import AlarmNote, JobHints
from tests.diagnosis.conclusion.test_conclude import FAILED, HEALTHY, reported

HANG = AlarmNote("hang", "No progress after iteration 40.", 1_000.0)
RUNNING = replace(HEALTHY, outcome="running")


def test_a_running_job_without_progress_is_hung_and_the_sentence_says_since_when() -> None:
    report = reported(RUNNING, hints=JobHints(outcome="running", alarms=(HANG,)))
    told = report["conclusion"]
    assert (told["condition"], told["id"]) == ("hung", "unknown")
    assert report["headline"].startswith("The running job hangs. No progress after iteration 40.")
    assert [f["t"] for f in told["chain"] if f["source"] == "watch"] == [1_000.0]
    assert violations(report) == []


def test_a_running_job_that_became_slow_is_degraded() -> None:
    slow = AlarmNote("slow", "Steps take 4.0 s, 2.0 times as long as before.", 1_000.0)
    report = reported(RUNNING, hints=JobHints(outcome="running", alarms=(slow,)))
    assert report["conclusion"]["condition"] == "degraded"
    assert violations(report) == []


def test_what_the_logs_know_of_a_failure_outranks_the_alarm() -> None:
    report = reported(FAILED, hints=JobHints(outcome="running", alarms=(HANG,)))
    assert report["conclusion"]["condition"] == "failed"


def test_an_alarm_that_ended_leaves_the_running_job_degraded_with_what_it_was() -> None:
    over = replace(HANG, until=1_300.0)
    report = reported(RUNNING, hints=JobHints(outcome="running", alarms=(over,)))
    assert report["conclusion"]["condition"] == "degraded"
    assert report["headline"].startswith("The running job had an alarm for 300 s and continued. No progress after")
    assert violations(report) == []


def test_a_hang_that_held_until_the_job_was_ended_is_the_failure() -> None:
    held = replace(HANG, ended_at=1_400.0)
    report = reported(RUNNING, hints=JobHints(outcome="failed", alarms=(held,)))
    told = report["conclusion"]
    assert (told["condition"], told["outcome"]) == ("hung", "failed")
    assert report["headline"].startswith("The job hung for 400 s until it was ended. No progress after iteration 40.")
    assert violations(report) == []


def test_a_pause_before_a_good_end_is_no_hang() -> None:
    held = replace(HANG, ended_at=1_400.0)
    report = reported(HEALTHY, hints=JobHints(alarms=(held,)))
    assert report["conclusion"]["condition"] != "hung"


@pytest.mark.parametrize("watch", TABLE, ids=lambda watch: watch.id)
def test_every_watch_opens_an_incident_of_its_category_and_symptom(watch: Watch) -> None:
    alarm = AlarmNote(watch.id, "Something is wrong.", 1_000.0, category=watch.category)
    report = reported(RUNNING, hints=JobHints(outcome="running", alarms=(alarm,)))
    told = report["conclusion"]
    assert told["condition"] == ("hung" if watch.id == "hang" else "degraded")
    assert told["id"] == watch.category
    assert symptom_of(decode(told, Answer), "none") == {"hang": "hang", "slow": "slow"}.get(watch.id, "none")
    assert report["headline"].endswith("Something is wrong.")
    assert violations(report) == []

"""When lines without a stamp were written."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.pace import dating
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.cases import case_of_lines
from tests.diagnosis.synthetic import read_files

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]


def test_what_ended_training_is_not_older_than_its_last_progress(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *STEPS, "RuntimeError: bad shape")
    event = case.catalogue.events.filter(case.catalogue.events["is_exception"])["event"][0]
    occurrences = dating.occurrences_with_times(case.catalogue, case.pace, {event: "root"})
    assert occurrences.filter(occurrences["event"] == event)["stated_at"][0] >= case.pace.last_at


def test_what_followed_a_cause_is_not_older_than_the_cause_that_states_its_time(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T10:30:00 ***"
    case = case_of_lines(tmp_path, *STEPS, "srun: Job step aborted: Waiting up to 62 seconds.", cancelled)
    of = dict(case.catalogue.events.select("example", "event").iter_rows())
    aborted = next(event for text, event in of.items() if "aborted" in text)
    cause = next(event for text, event in of.items() if "CANCELLED" in text)
    occurrences = dating.occurrences_with_times(case.catalogue, case.pace, {aborted: "teardown", cause: "root"})
    at = dict(occurrences.select("event", "stated_at").iter_rows())
    assert case.pace.last_at < at[aborted] == at[cause]


def test_an_event_says_whether_its_lines_state_a_time_and_the_conclusion_does(tmp_path: Path) -> None:
    for last, is_stamped in (("RuntimeError: bad shape", False), ("2026-03-01 10:08:09 RuntimeError: bad shape", True)):
        parsed, read = read_files({"train.log": "\n".join([*STEPS, last, ""]).encode()}, tmp_path / str(is_stamped))
        report = to_json(diagnose(parsed, read=read))
        event = next(e for e in report["logs"]["events"] if "bad shape" in e["example"])
        found = next(f for f in report["conclusion"]["chain"] if "bad shape" in f["text"])
        assert event["is_stamped"] is found["is_stamped"] is is_stamped

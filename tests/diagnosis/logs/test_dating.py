"""When lines without a stamp were written."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs import dating
from tests.diagnosis.cases import case_of_lines

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]


def test_what_ended_training_is_not_older_than_its_last_progress(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *STEPS, "RuntimeError: bad shape")
    event = case.catalogue.events.filter(case.catalogue.events["is_exception"])["event"][0]
    cells = dating.stated_at(case.catalogue, case.pace, {event: "root"})
    assert cells.filter(cells["event"] == event)["stated_at"][0] >= case.pace.last_at


def test_what_followed_a_cause_is_not_older_than_the_cause_that_states_its_time(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T10:30:00 ***"
    case = case_of_lines(tmp_path, *STEPS, "srun: Job step aborted: Waiting up to 62 seconds.", cancelled)
    of = dict(case.catalogue.events.select("example", "event").iter_rows())
    aborted = next(event for text, event in of.items() if "aborted" in text)
    cause = next(event for text, event in of.items() if "CANCELLED" in text)
    cells = dating.stated_at(case.catalogue, case.pace, {aborted: "teardown", cause: "root"})
    at = dict(cells.select("event", "stated_at").iter_rows())
    assert case.pace.last_at < at[aborted] == at[cause]

"""Each log says what was read of it, and what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.decide.read_notes import read_notes
from tests.diagnosis.cases import case_of_files

STEPS = [f"2026-03-01 08:00:0{n} INFO step {n} loss 2.{n}" for n in range(1, 10)]
TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "KeyError: 'lengths'"]


def note_of(tmp_path: Path, lines: list[str]) -> str:
    return read_notes(case_of_files(tmp_path, {"a.log": lines}), {})["a.log"]


def test_lines_writers_times_progress_and_known_messages_are_told(tmp_path: Path) -> None:
    note = note_of(tmp_path, [*STEPS, *TRACEBACK])
    assert note == (
        "Read as a log: 12 lines of 1 writer; 2026-03-01 08:00:01 to 08:00:09 UTC; "
        "3 lines without a time of their own; iterations 1 to 9; 3 lines with a message that a rule knows."
    )


def test_facts_of_the_set_up_are_counted(tmp_path: Path) -> None:
    note = read_notes(case_of_files(tmp_path, {"a.log": STEPS}), {"a.log": 2})["a.log"]
    assert note.endswith("; 2 facts of the set-up.")


def test_lines_of_reports_in_a_file_are_no_lines_of_its_log(tmp_path: Path) -> None:
    assert "Read as a log: 9 lines of 1 writer" in note_of(tmp_path, ["   ", "", *STEPS, " "])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["INFO model is built", "INFO data are read"], "no line states a time; no progress"),
        (
            ["2019-03-01 08:00:01 INFO a", "2026-03-01 08:00:01 INFO b"],
            "so far apart that some may not say when",
        ),
    ],
)
def test_what_a_log_lacks_is_told(tmp_path: Path, lines: list[str], told: str) -> None:
    assert told in note_of(tmp_path, lines)

"""Events of a job, and their roles relative to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.meaning import catalogue, resolved_roles
from diagnosis.kinds.logs.meaning.signatures import load
from tests.diagnosis.cases import case_of_lines

LIMIT = "slurmstepd: error: *** JOB 9 ON trn-1 CANCELLED AT 14:00:00 DUE TO TIME LIMIT ***"
CRASH = "worker 3 exited with code -11"


def roles(work: Path, *lines: str) -> dict[str, str]:
    events = case_of_lines(work, *lines).catalogue.events
    return dict(events.drop_nulls("signature").select("signature", "role").iter_rows())


def test_a_death_after_a_stop_is_its_consequence(tmp_path: Path) -> None:
    assert roles(tmp_path, LIMIT, CRASH)["elastic.exit_crashed"] == "cascade"


def test_a_death_before_a_stop_is_a_cause(tmp_path: Path) -> None:
    assert roles(tmp_path, CRASH, LIMIT)["elastic.exit_crashed"] == "root"


def test_without_any_time_one_file_is_ordered_by_its_lines(tmp_path: Path) -> None:
    found = case_of_lines(tmp_path, "loading", CRASH, LIMIT).catalogue
    order = dict(zip(found.events["signature"], catalogue.event_starts(found), strict=True))
    assert order["elastic.exit_crashed"] == 2


def test_a_frame_of_a_traceback_is_no_exception(tmp_path: Path) -> None:
    lines = ['  File "a.py", line 3, in ValueError', "ValueError: bad"]
    events = case_of_lines(tmp_path, *lines).catalogue.events
    assert events.filter("is_exception")["example"].to_list() == ["ValueError: bad"]


@pytest.mark.parametrize("raised", ["BrokenProcessPool: a process ended", "MémoireÉpuisée: 8 Gio refusés"])
def test_a_class_that_ends_a_traceback_is_an_exception_whatever_it_is_called(raised: str, tmp_path: Path) -> None:
    frames = ["Traceback (most recent call last):", '  File "a.py", line 3, in run', "    fit(plan)"]
    events = case_of_lines(tmp_path, "Trainer: ready", *frames, raised).catalogue.events
    assert events.filter("is_exception")["example"].to_list() == [raised]


def test_what_training_survived_explains_nothing(tmp_path: Path) -> None:
    found = case_of_lines(tmp_path, "CUDA out of memory. Tried to allocate 2 GiB", "KeyError: 'labels'").catalogue
    oom = found.events.filter(found.events["signature"].str.starts_with("cuda."))["event"].to_list()
    from_rules = resolved_roles.resolve_roles(found, load(), survived=oom).events
    assert from_rules.filter(from_rules["is_exception"])["role"].to_list() == ["root"]

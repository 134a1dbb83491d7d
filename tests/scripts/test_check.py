"""What `make test` relies on and prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check
from tests.patience import PATIENCE_S, wait_for
from tests.processes import is_alive
from triage.places import ROOT


def test_the_costliest_tests_are_printed() -> None:
    assert "--costs=10" in check.PYTEST


def test_short_stages_run_while_what_the_tests_share_is_made() -> None:
    first, *others = check.STAGES
    runs_tests = ["pytest" in stage.argv or "mutants" in stage.argv for stage in others]
    assert runs_tests == sorted(runs_tests)
    assert {stage.after for stage, is_long in zip(others, runs_tests, strict=True) if is_long} == {first.name}


def test_a_stage_that_is_not_there_is_reported_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["rain"]) == 2
    assert "mypy, openapi" in capsys.readouterr().err


def test_every_test_belongs_to_a_stage_and_none_to_two() -> None:
    """PostgreSQL repeats what touches the database."""
    argv = [stage.argv for stage in check.STAGES if stage.name.startswith("tests") and "PostgreSQL" not in stage.name]
    chosen = [one[len(check.PYTEST) :] for one in argv]
    assert chosen.pop(0) == ["tests/e2e", "-m", "e2e"]
    assert {tuple(one[: len(check._WITHOUT_BROWSER)]) for one in chosen} == {check._WITHOUT_BROWSER}
    paths = [one[len(check._WITHOUT_BROWSER) :] for one in chosen]
    assert paths == [
        ["tests/triage"],
        ["tests", "--ignore=tests/triage", "--ignore=tests/diagnosis", "--ignore=tests/fuzz", "-m", "not e2e"],
        ["tests/diagnosis/kinds/logs", *check._WITHOUT_DJANGO],
        ["tests/diagnosis", "--ignore=tests/diagnosis/kinds", *check._WITHOUT_DJANGO],
        ["tests/diagnosis/kinds", "--ignore=tests/diagnosis/kinds/logs", *check._WITHOUT_DJANGO],
        ["lab", "tests/fuzz"],
    ]
    marked = ["grep", "-rlE", r"pytest\.mark\.e2e", "--include=*.py", "tests", "lab"]
    found = subprocess.run(marked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [path for path in found if not path.startswith(("tests/e2e/", "tests/conftest.py", "tests/scripts"))] == []


def _staged(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
    stages = [check.Stage(f"stage {n}", [sys.executable, "-c", script]) for n, script in enumerate(scripts)]
    monkeypatch.setattr(check, "STAGES", tuple(stages))


def test_a_failed_stage_is_shown_whole_and_fails_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _staged(monkeypatch, "print('fine')", "print('broken'); raise SystemExit(1)")
    assert check.main([]) == 1
    said = capsys.readouterr().out
    assert "broken" in said
    assert "fine" not in said
    assert said.rstrip().endswith("s: stage 1")


def test_the_last_line_counts_the_tests_of_all_stages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _staged(monkeypatch, "print('3 passed, 1 skipped, 9 deselected in 2.00s')", "print('40 passed in 1.00s')")
    monkeypatch.setattr(check, "PYTEST", [sys.executable])
    assert check.main([]) == 0
    assert capsys.readouterr().out.rstrip().rpartition("\n")[2].startswith("43 passed, 1 skipped in ")


def test_a_stage_waits_for_the_one_that_it_comes_after(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = tmp_path / "made"
    first = f"import pathlib, time; time.sleep(0.3); pathlib.Path({str(made)!r}).touch()"
    stages = (
        check.Stage("first", [sys.executable, "-c", first]),
        check.Stage("then", ["test", "-e", str(made)], after="first"),
    )
    monkeypatch.setattr(check, "STAGES", stages)
    assert check.main([]) == 0
    made.unlink()
    assert check.main(["then"]) == 1, "it waits for nothing that does not run"


@pytest.mark.parametrize(("is_beside", "together"), [(False, False), (True, True)])
def test_stages_that_compute_take_turns_and_those_that_wait_run_beside_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_beside: bool, together: bool
) -> None:
    runs = tmp_path / "runs"
    other = f"import pathlib, sys, time; time.sleep(0.3); sys.exit(pathlib.Path({str(runs)!r}).exists())"
    first = f"import pathlib, time; p = pathlib.Path({str(runs)!r}); p.touch(); time.sleep(0.6); p.unlink()"
    stages = tuple(
        check.Stage(f"stage {n}", [sys.executable, "-c", script], is_beside=is_beside)
        for n, script in enumerate((first, other))
    )
    monkeypatch.setattr(check, "STAGES", stages)
    monkeypatch.setattr(check, "PROCESSORS", 1)
    assert check.main([]) == together


def test_what_runs_is_ended_with_the_checks(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    long = f"import os, pathlib, time; pathlib.Path({str(told)!r}).write_text(str(os.getpid())); time.sleep(600)"
    script = (
        "import signal, sys; from scripts import check; signal.signal(signal.SIGTERM, check._end); "
        "check.STAGES = (check.Stage('long', [sys.executable, '-c', sys.argv[1]]),); check.main([])"
    )
    checks = subprocess.Popen([sys.executable, "-c", script, long], cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: told.exists() and told.read_text(), "the stage never began")
    checks.terminate()
    assert checks.wait(PATIENCE_S) != 0, "it waited for the stage"
    wait_for(lambda: not is_alive(int(told.read_text())), "the stage runs on")

"""`faultline alive PART`: what orchestrators ask before they restart a container."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest import broker, processes, sweeper
from triage.serve import alive, commands
from triage.serve.children import ServiceError, free_port


@pytest.fixture(autouse=True)
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sweeper, "_part", "parse")
    monkeypatch.setattr(sweeper, "_turned_at", -sweeper.LOOP_MAX_S)
    yield


@pytest.fixture
def is_queue_there(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    state = {"is_there": True}
    monkeypatch.setattr(broker, "send", lambda *_, **__: state["is_there"])
    return state


def test_a_worker_whose_loop_turns_works(is_queue_there: dict[str, bool]) -> None:
    assert "no worker of this machine" in alive.problem_of("parse", {})
    sweeper.loop_turned()
    sweeper.send_due(is_tidied=True)
    assert alive.problem_of("parse", {}) == ""
    assert alive.problem_of("notify", {}), "another part did not say it"


def test_a_worker_whose_loop_hangs_does_not_work_though_its_process_is_there(is_queue_there: dict[str, bool]) -> None:
    sweeper.send_due(is_tidied=False)
    assert alive.problem_of("parse", {})


def test_a_lost_queue_restarts_no_worker(is_queue_there: dict[str, bool]) -> None:
    """Its processes work on; Celery's loop stands still while it connects."""
    is_queue_there["is_there"] = False
    sweeper.send_due(is_tidied=False)
    assert alive.problem_of("parse", {}) == ""


def test_a_worker_that_was_silent_for_a_minute_does_not_work() -> None:
    sweeper.say_alive("parse")
    before = time.time() - alive.SILENT_AFTER_S - 30
    os.utime(processes.alive_path("parse"), (before, before))
    assert "silent for 90 s" in alive.problem_of("parse", {})


def test_a_server_that_does_not_answer_does_not_work() -> None:
    assert "does not answer" in alive.problem_of("web", {"FAULTLINE_PORT": str(free_port())})


def test_the_command_says_it_by_its_exit_code(capsys: Any) -> None:
    sweeper.say_alive("parse")
    assert commands.main(["alive", "parse"]) == 0
    assert commands.main(["alive", "diagnose"]) == 1
    assert commands.main(["alive", "beat"]) == 2
    assert "no part 'beat'" in capsys.readouterr().err


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ServiceError, match="no part"):
        alive.problem_of("scheduler", {})

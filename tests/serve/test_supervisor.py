import fcntl
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, WORK_S, wait_for
from tests.processes import is_alive
from triage.places import ROOT
from triage.serve import supervisor
from triage.serve.children import ServiceError, free_port, spawn, stop, wait_until


def start(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FAULTLINE_DATA_DIR": str(tmp_path), "FAULTLINE_PORT": str(free_port()), **variables}
    env.pop("REDIS_URL", None)
    argv = [sys.executable, "-m", "triage.serve"]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_taken_port_is_one_line_that_proposes_another(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = start(tmp_path, FAULTLINE_PORT=str(port))
    assert done.returncode == 1
    assert done.stderr == f"Port {port} is taken: FAULTLINE_PORT={port + 1} make run\n"


def test_a_port_that_is_no_number_is_named(tmp_path: Path) -> None:
    assert start(tmp_path, FAULTLINE_PORT="http").stderr == "FAULTLINE_PORT is 'http': use a whole number\n"


def test_a_second_start_from_the_same_data_says_where_the_first_is(tmp_path: Path) -> None:
    with (tmp_path / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("http://localhost:8000")
        lock.flush()
        done = start(tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"Faultline already runs from {tmp_path}: http://localhost:8000\n"


def test_a_start_waits_for_one_that_is_stopping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before, a start within seconds of a stop said that Faultline already runs, at an address that did not answer."""
    with supervisor.sole_owner(tmp_path, "http://localhost:8000") as note:
        note(supervisor.STOPPING)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(supervisor, "STOPPING_MAX_S", 0)
            with (
                pytest.raises(ServiceError, match="has been stopping for 0 s"),
                supervisor.sole_owner(tmp_path, "again"),
            ):
                pass
        waiting = threading.Thread(target=_own, args=(tmp_path,))
        waiting.start()
        wait_for(lambda: capsys.readouterr().out.count("still stopping"), lambda: "it did not wait")
        assert (tmp_path / "run.lock").read_text() == supervisor.STOPPING
    waiting.join(PATIENCE_S)
    assert (tmp_path / "run.lock").read_text() == "http://localhost:8001"


def _own(data: Path) -> None:
    with supervisor.sole_owner(data, "http://localhost:8001"):
        pass


def test_a_data_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = start(tmp_path, FAULTLINE_DATA_DIR=str(tmp_path / "file" / "data"))
    assert done.returncode == 1
    assert done.stderr.startswith("Cannot write below")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "NEEDED_BYTES", 2**80)
    with pytest.raises(ServiceError, match=r"^The disk is full: \d+ MB free below .*, Faultline needs \d+ MB\.$"):
        supervisor.prepare_directory(tmp_path)


def test_a_database_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    done = start(tmp_path, DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("prepare failed: CommandError: the database cannot be used")


def test_a_child_that_keeps_dying_ends_the_whole_with_its_last_words(tmp_path: Path) -> None:
    child = supervisor.Child(
        "The worker", [sys.executable, "-c", "print('no such broker')"], tmp_path / "log", dict(os.environ)
    )
    child.start()
    with pytest.raises(ServiceError, match=r"The worker keeps ending .*no such broker"):
        for _ in range(supervisor.MAX_DEATHS):
            assert child.process
            child.process.wait()
            child.restart_if_dead()


def test_large_logs_are_put_aside_at_a_start(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "web.log").write_bytes(b"x" * (supervisor.LOG_MAX_BYTES + 1))
    supervisor.prepare_directory(tmp_path)
    assert {path.name: path.stat().st_size for path in (tmp_path / "log").iterdir()} == {
        "web.log": 0,
        "web.log.1": supervisor.LOG_MAX_BYTES + 1,
    }


def test_a_log_is_rotated_while_its_program_writes(tmp_path: Path) -> None:
    """Long installations are not restarted for their logs."""
    log = tmp_path / "log" / "web.log"
    argv = [sys.executable, "-uc", f"import signal; print('x' * {supervisor.LOG_MAX_BYTES}); signal.pause()"]
    process = spawn(argv, log=log)
    try:
        wait_for(lambda: log.stat().st_size > supervisor.LOG_MAX_BYTES, lambda: "the program wrote too little")
        supervisor.rotate_logs(tmp_path)
        stop(process)
        with log.open("a") as more:
            more.write("later\n")
    finally:
        stop(process)
    assert log.stat().st_size < 1000, "what comes later is at the beginning"
    assert log.with_suffix(".log.1").stat().st_size == supervisor.LOG_MAX_BYTES + 1


def test_a_killed_child_takes_its_own_children_with_it_before_it_is_started_again(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    code = (
        f"import os, subprocess, sys, time; forked = subprocess.Popen(['sleep', '{WORK_S}']); "
        f"open({str(told)!r}, 'a').write(f'{{forked.pid}}\\n'); time.sleep({WORK_S})"
    )
    child = supervisor.Child("The child", [sys.executable, "-c", code], tmp_path / "child.log", dict(os.environ))
    first = child.start()
    try:
        wait_until(lambda: told.exists() and told.read_text() != "", first, what="child", log=child.log)
        (forked,) = map(int, told.read_text().split())
        first.kill()
        first.wait()
        child.restart_if_dead()
        wait_for(lambda: not is_alive(forked), "the child's own child lives on")
        assert child.process is not first
    finally:
        child.stop()

"""The life of `make run`: what it starts it also ends, however it ends."""

import contextlib
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from tests import migrated
from tests.patience import PATIENCE_S, WORK_S, wait_for
from tests.processes import is_alive
from triage.serve import supervisor
from triage.serve.children import free_port, spawn, stop, wait_until

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        sys.platform != "linux", reason="reads /proc, and only Linux tells a child of its parent's death"
    ),
]


class Start:
    """One `make run` without demo people, on its own data and port."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.port = free_port()
        ours = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
        env = {name: value for name, value in os.environ.items() if name not in ours}
        env |= {"FAULTLINE_DATA_DIR": str(folder / "data"), "FAULTLINE_PORT": str(self.port), "FAULTLINE_DEMO": "0"}
        env |= {"FAULTLINE_WEB_PROCESSES": "1", "FAULTLINE_WORKER_PROCESSES": "1"}  # each takes seconds to start
        migrated.begin(folder / "data")
        self.log = folder / f"run-{self.port}.log"
        self.process = spawn([sys.executable, "-m", "triage.serve"], log=self.log, env=env | variables)
        wait_until(
            lambda: "Ctrl-C ends it" in self.log.read_text(),
            self.process,
            what="run",
            log=self.log,
            timeout_s=WORK_S,
        )

    def descendants(self) -> dict[int, str]:
        """Every process below this one, with its command line."""
        found, below = processes(), {self.process.pid}
        while more := {pid for pid, (parent, _) in found.items() if parent in below} - below:
            below |= more
        return {pid: found[pid][1] for pid in below - {self.process.pid}}

    def child(self, part: str, but: int = 0) -> int:
        """Wait for the supervisor's own process of this part, another one than ``but``; returns its number.

        A new process bears the supervisor's command line until it has started its program.
        """
        found: list[int] = []

        def is_there() -> bool:
            found[:] = [
                pid
                for pid, (parent, name) in processes().items()
                if parent == self.process.pid and part in name and pid != but
            ]
            return bool(found)

        wait_for(is_there, lambda: f"{part} was not started: {self.log.read_text()}")
        return found[0]


def processes() -> dict[int, tuple[int, str]]:
    """Each process's parent and command line."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            found[int(entry.name)] = int(parent), (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has ended meanwhile
            continue
    return found


def wait_until_gone(pids: dict[int, str]) -> None:
    wait_for(lambda: not any(map(is_alive, pids)), lambda: {pid: name for pid, name in pids.items() if is_alive(pid)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the life of a run")


def test_what_dies_is_started_again_and_ctrl_c_ends_every_process(folder: Path) -> None:
    start = Start(folder)
    try:
        first = {part: start.child(part) for part in ("valkey-server", "granian", "celery")}
        for times, part in enumerate(("granian", "celery"), 1):
            os.killpg(first[part], signal.SIGKILL)
            wait_for(lambda n=times: start.log.read_text().count("starting it again") >= n, start.log.read_text)
            start.child(part, but=first[part])
        wait_for(lambda: supervisor.answers(start.port, "127.0.0.1"), start.log.read_text)
        below = start.descendants()
        start.process.send_signal(signal.SIGINT)
        assert start.process.wait(PATIENCE_S) == 0
        wait_until_gone(below)
        assert start.log.read_text().endswith("Faultline has stopped.\n")
    finally:
        stop(start.process, grace_s=30)


def test_a_second_start_keeps_the_data_has_less_to_do_and_dies_whole_with_its_supervisor(folder: Path) -> None:
    """The first one of this module has migrated and collected."""
    key = (folder / "data" / "secret_key").read_text()
    with contextlib.closing(sqlite3.connect(folder / "data" / "faultline.sqlite3")) as database:
        tables = database.execute("select count(*) from sqlite_master where type = 'table'").fetchone()[0]
    stamp = folder / "data" / "static" / ".stamp"
    collected = stamp.stat().st_mtime_ns
    start = Start(folder)
    try:
        assert tables > 10
        assert (folder / "data" / "secret_key").read_text() == key
        assert stamp.stat().st_mtime_ns == collected, "static files were collected again"
        below = start.descendants()
        start.process.kill()
        start.process.wait()
        wait_until_gone(below)
    finally:
        stop(start.process, grace_s=30)

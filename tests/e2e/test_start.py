"""The life of `make run`: what it starts it also ends, however it ends."""

import contextlib
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from scripts import run
from scripts.services import free_port, spawn, stop, wait_until
from tests.patience import PATIENCE_S, WORK_S, wait_for

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
        self.log = folder / f"run-{self.port}.log"
        self.process = spawn([sys.executable, "-m", "scripts.run"], log=self.log, env=env | variables)
        wait_until(
            lambda: "Ctrl-C ends it" in self.log.read_text(),
            self.process,
            what="run",
            log=self.log,
            timeout_s=WORK_S,
        )

    def descendants(self) -> dict[int, str]:
        """Every process below this one, with its command line."""
        parents, names = {}, {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text()
                    names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
                except OSError:
                    continue
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
        below = {self.process.pid}
        while True:
            more = {pid for pid, parent in parents.items() if parent in below} - below
            if not more:
                return {pid: names[pid] for pid in below - {self.process.pid}}
            below |= more

    def has_another(self, part: str, than: int | None = None) -> bool:
        """Whether a process of this part runs, another one ``than`` the given."""
        return any(part in name and pid != than for pid, name in self.descendants().items())


def alive(pids: dict[int, str]) -> dict[int, str]:
    def is_alive(pid: int) -> bool:
        try:
            return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False

    return {pid: name for pid, name in pids.items() if is_alive(pid)}


def wait_until_gone(pids: dict[int, str], timeout_s: float = PATIENCE_S) -> dict[int, str]:
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not alive(pids), within_s=timeout_s)
    return alive(pids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the life of a run")


def test_what_dies_is_started_again_and_ctrl_c_ends_every_process(folder: Path) -> None:
    start = Start(folder)
    try:
        for part in ("valkey-server", "granian", "celery"):
            # A new process bears the supervisor's command line until it has started its program.
            wait_for(lambda part=part: start.has_another(part), f"{part} was not started")
        for times, part in enumerate(("granian", "celery"), 1):
            first = min(pid for pid, name in start.descendants().items() if part in name)
            os.killpg(first, signal.SIGKILL)
            wait_for(lambda n=times: start.log.read_text().count("starting it again") >= n, start.log.read_text)
            wait_for(lambda first=first, part=part: start.has_another(part, first), start.log.read_text)
        wait_for(lambda: run.answers(start.port, "127.0.0.1"), start.log.read_text)
        below = start.descendants()
        start.process.send_signal(signal.SIGINT)
        assert start.process.wait(PATIENCE_S) == 0
        assert wait_until_gone(below) == {}
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
        assert wait_until_gone(below) == {}
    finally:
        stop(start.process, grace_s=30)

"""``make run`` and ``faultline`` start all servers that no variable configures elsewhere, prepare the database, serve,
and stop all.

Processes: this supervisor; Valkey (unless REDIS_URL); granian with the site; one Celery worker with its pool. A child
that dies is restarted; a child that keeps dying ends everything with the last lines of its log. Every child dies with
the supervisor, also after ``kill -9``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TextIO

from triage.places import IS_CHECKOUT, ROOT, data_dir
from triage.serve import parts
from triage.serve.children import Process, ServiceError, spawn, stop, wait_until
from triage.serve.valkey import start_valkey, valkey_url

#: what started this
COMMAND = "make run" if IS_CHECKOUT else "faultline"
NEEDED_BYTES = 200 * 2**20
LOG_MAX_BYTES = 20 * 2**20
ROTATE_EVERY_S = 60
#: a child that dies this often within this time is not restarted
MAX_DEATHS, DEATHS_WINDOW_S = 5, 60
#: the worker finishes its tasks within this time; unfinished tasks are repeated at the next start
GRACE_S = 8
#: in the lock file while the children end, and the longest time a next start waits for that: GRACE_S for each child
STOPPING = "stopping"
STOPPING_MAX_S = 60


class StopRequested(Exception):
    """A signal requested the end."""


@dataclass(slots=True)
class Child:
    name: str
    argv: list[str]
    log: Path
    env: dict[str, str]
    process: Process | None = None
    deaths: list[float] = field(default_factory=list)

    def start(self) -> Process:
        self.process = spawn(self.argv, log=self.log, env=self.env)
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process, grace_s=GRACE_S)

    def restart_if_dead(self) -> None:
        """Restart it after a death.

        Raises:
            ServiceError: it keeps dying.
        """
        if self.process is None or self.process.poll() is None:
            return
        now = time.monotonic()
        self.deaths = [at for at in self.deaths if now - at < DEATHS_WINDOW_S] + [now]
        if len(self.deaths) >= MAX_DEATHS:
            raise ServiceError(f"{self.name} keeps ending (log: {self.log}): {last_line(self.log)}")
        say(f"{self.name} ended with status {self.process.returncode}; starting it again (log: {self.log})")
        stop(self.process)  # children of a killed process would run at the same time as the new ones
        self.start()


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "its log is empty"


def say(text: str) -> None:
    print(text, flush=True)


def check_port(host: str, port: int) -> None:
    """Raises ServiceError with instructions if the address is in use or not allowed."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ServiceError(f"Port {port} is taken: FAULTLINE_PORT={port + 1} {COMMAND}") from None
            raise ServiceError(f"Cannot listen on {host} port {port}: {error.strerror}") from None


def prepare_directory(data: Path) -> None:
    """Create the data directory and rotate large logs. Raises ServiceError if the disk is full."""
    try:
        (data / "log").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "FAULTLINE_DATA_DIR names another place"
        raise ServiceError(f"Cannot write below {data}: {error.strerror} ({hint})") from None
    free = shutil.disk_usage(data).free
    if free < NEEDED_BYTES:
        need = NEEDED_BYTES // 2**20
        raise ServiceError(f"The disk is full: {free // 2**20} MB free below {data}, Faultline needs {need} MB.")
    rotate_logs(data)


def rotate_logs(data: Path) -> None:
    """Move what large logs hold to ``….log.1``. Children keep their files open, so they are emptied in place; a line
    that is written in this moment may be lost.
    """
    for log in (data / "log").glob("*.log"):
        if log.stat().st_size <= LOG_MAX_BYTES:
            continue
        with contextlib.suppress(OSError):  # the disk is full: it stays until the next look
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)


@contextlib.contextmanager
def sole_owner(data: Path, url: str) -> Iterator[Callable[[str], None]]:
    """Lock the data directory: two supervisors on one SQLite database and one Valkey would conflict.

    Waits for one that is stopping. Yields the function that writes the state of this supervisor into the lock file: its
    address, or ``STOPPING``.
    """
    with (data / "run.lock").open("a+") as lock:
        _take(lock, data)

        def note(text: str) -> None:
            lock.truncate(0)
            lock.write(text)
            lock.flush()

        note(url)
        yield note


def _take(lock: TextIO, data: Path) -> None:
    """Get the lock. Raises ServiceError if another supervisor runs, or does not end although it is stopping."""
    deadline = None
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            note = lock.read().strip()
        if note != STOPPING:
            raise ServiceError(f"Faultline already runs from {data}: {note}")
        if deadline is None:
            say("Faultline is still stopping; starting as soon as it has ended …")
            deadline = time.monotonic() + STOPPING_MAX_S
        if time.monotonic() > deadline:
            raise ServiceError(f"Faultline has been stopping for {STOPPING_MAX_S} s (logs: {data / 'log'})")
        time.sleep(0.1)


def answers(port: int, host: str) -> bool:
    """Whether an HTTP server answers there. A redirect counts: behind TLS every plain request gets one."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared, not bound
    client = http.client.HTTPConnection(target, port, timeout=5)
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status < 600
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def prepare(env: dict[str, str]) -> None:
    """Migrate the database and collect static files; print sign-ins. Raises ServiceError with one line."""
    argv = [sys.executable, "-m", "django", "prepare"]
    done = subprocess.run(argv, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ServiceError(f"prepare failed: {lines[-1] if lines else f'status {done.returncode}'}")


def children(data: Path, env: dict[str, str], host: str, port: int) -> list[Child]:
    logs = data / "log"
    web = parts.web_command(host, port, parts.web_processes(env))
    worker = parts.worker_command(parts.QUEUES, parts.worker_processes(env))
    return [Child("The web server", web, logs / "web.log", env), Child("The worker", worker, logs / "worker.log", env)]


def serve(data: Path, host: str, port: int, url: str, note: Callable[[str], None]) -> None:
    """Start everything and watch it until a signal arrives; then note ``STOPPING`` and stop everything."""
    env = {**os.environ, "FAULTLINE_DATA_DIR": str(data), "PYTHONUNBUFFERED": "1"}
    env["DJANGO_SETTINGS_MODULE"] = "triage.settings"
    running: list[Child] = []
    with contextlib.ExitStack() as stack:
        if not env.get("REDIS_URL") and not env.get("REDIS_URL_FILE"):
            env["REDIS_URL"] = valkey_url(data)
            valkey = start_valkey(data, url=env["REDIS_URL"])
            keeper = Child("Valkey", valkey.argv, data / "log" / "valkey.log", env, valkey.process)
            running.append(keeper)
            stack.callback(keeper.stop)
        prepare(env)
        web, worker = children(data, env, host, port)
        for child in (web, worker):
            stack.callback(child.stop)
            running.append(child)
            process = child.start()
            if child is web:  # nothing else starts until it answers, because somebody waits for it
                wait_until(lambda: answers(port, host), process, what=web.name, log=web.log, timeout_s=600)
        say(f"\n  Faultline: {url}\n  Logs:      {data / 'log'}\n  Ctrl-C ends it.\n")
        load = [sys.executable, "-m", "django", "samples"]
        samples = Child("Loading the sample jobs", load, data / "log" / "samples.log", env)
        loading: Process | None = samples.start()
        stack.callback(samples.stop)
        stack.callback(note, STOPPING)  # runs first, before the children end
        rotated_at = time.monotonic()
        while True:
            time.sleep(0.5)
            for child in running:
                child.restart_if_dead()
            if time.monotonic() - rotated_at > ROTATE_EVERY_S:
                rotated_at = time.monotonic()
                rotate_logs(data)
            if loading is not None and loading.poll() is not None:
                if loading.returncode:
                    say(f"{samples.name} failed (log: {samples.log}): {last_line(samples.log)}")
                loading = None


def main() -> int:
    host = os.environ.get("FAULTLINE_HOST", "127.0.0.1")
    data = data_dir()

    def end(_signal: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave children behind
        raise StopRequested

    # Installed in every case: a shell that starts us in the background makes SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        port = parts.port_of(os.environ)
        shown = "localhost" if host in {"0.0.0.0", "127.0.0.1", "::", "::1"} else host  # noqa: S104  # compared, not bound
        url = f"http://{shown}:{port}"
        prepare_directory(data)
        with sole_owner(data, url) as note:
            check_port(host, port)
            serve(data, host, port, url, note)
    except StopRequested:
        say("Faultline has stopped.")
    except ServiceError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0

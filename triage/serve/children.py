"""Child processes that never outlive their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from triage.places import ROOT

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


type Process = subprocess.Popen[bytes]


class ServiceError(RuntimeError):
    """A server did not start; the text says which and why."""


def spawn(argv: list[str], *, log: Path, env: dict[str, str] | None = None, user: str | None = None) -> Process:
    """Start a child in its own session (Ctrl-C reaches only the parent, which stops children in order).

    On Linux the kernel sends SIGTERM to the child when the thread that started it dies, also after ``kill -9``. On
    other systems only the parent's clean-up ends it.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent died between fork and prctl
                os._exit(1)

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # two system calls, no lock, nothing allocated
            user=user,
        )


def stop(process: Process, *, grace_s: float = 5, polite: signal.Signals = signal.SIGTERM) -> None:
    """Ask the child to end, wait, then kill its whole process group."""
    if process.poll() is None:
        process.send_signal(polite)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(is_ready: Callable[[], bool], process: Process, *, what: str, log: Path, timeout_s: float = 60) -> None:
    """Poll until ready. A child that ends or does not answer raises ServiceError with the last line of its log."""
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            raise ServiceError(f"{what} did not start (log: {log}): {lines[-1] if lines else 'its log is empty'}")
        time.sleep(0.02)

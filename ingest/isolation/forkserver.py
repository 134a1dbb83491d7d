"""The fork server and the readers that it forks: ``python -m ingest.isolation.forkserver FD MODULE``.

FD is a socket to the worker, which sends one byte per request: ``n`` with a file descriptor starts a reader that serves
that socket, and answers its process id; ``k`` ends it and answers how it ended. When the worker closes its end of the
socket, all end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import signal
import socket
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, Final

from ingest.isolation import framing

_PAGE: Final = resource.getpagesize()
_DEATH_OF_PARENT: Final = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_REPORT_EVERY_S: Final = 1.0
#: So long a reader that has closed its connection may take to end, because the reason is in its status. On a machine
#: whose processors others use, a process that was killed takes its time.
_ENDING_S: Final = 30.0
#: Added to the niceness of the worker: pages and uploads of the same machine come before the reading of evidence. A
#: reader holds no lock of the database, so nobody waits for one that the system has put off.
_NICENESS: Final = 10


def main(descriptor: int, module: str) -> None:
    """Serve one worker until it ends. ``module`` has the calls; it loads the engine, once for all readers."""
    gc.disable()
    inside = importlib.import_module(module)
    gc.freeze()  # readers share its memory until a search for cycles writes into it
    gc.enable()
    worker = socket.socket(fileno=descriptor)
    reader = 0
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")  # idle threads of BLAS
    while True:
        try:
            request, fds, _, _ = socket.recv_fds(worker, 1, 1)
        except OSError:
            request = b""
        if request != b"n":
            status = _end(reader, _ENDING_S if request == b"w" else 0)
            reader = 0
            if request not in (b"k", b"w"):
                return
            worker.sendall(framing.STATUS.pack(status))
            continue
        _end(reader, 0)
        reader = os.fork()
        if reader == 0:
            worker.close()
            _serve(socket.socket(fileno=fds[0]), inside)
            os._exit(0)
        os.close(fds[0])
        worker.sendall(framing.STATUS.pack(reader))


def _end(reader: int, within_s: float) -> int:
    """End the reader if it does not end by itself in that time; returns its wait status, or that it did not."""
    if not reader:
        return 0
    deadline = time.monotonic() + within_s
    while True:
        done, status = os.waitpid(reader, os.WNOHANG)
        if done:
            return status
        if time.monotonic() >= deadline:
            break
        time.sleep(0.005)
    os.kill(reader, signal.SIGKILL)
    os.waitpid(reader, 0)
    return framing.DID_NOT_END


def _serve(worker: socket.socket, inside: Any) -> None:
    """A reader: takes calls until the worker closes the socket or its memory has grown to half its limit."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_OF_PARENT, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")  # the system should rather end this than the database
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever sends it ends this from outside, like other signals
    os.nice(_NICENESS)
    before = data_bytes()
    limit = 0
    while True:
        try:
            name, memory_bytes, arguments = framing.receive_pickle(worker)
        except (EOFError, OSError):
            return
        if memory_bytes != limit:
            limit = memory_bytes
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            soft = before + limit if hard == resource.RLIM_INFINITY else min(before + limit, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (soft if limit else hard, hard))
        answer: dict[str, Any]
        try:
            answer = {"done": getattr(inside, name)(WorkerConnection(worker), **arguments)}
        except BaseException as error:
            answer = {
                "failed": type(error).__name__,
                "message": str(error)[:2000],
                "errno": getattr(error, "errno", None),
                "traceback": "" if isinstance(error, MemoryError) else traceback.format_exc()[-8000:],
            }
        is_last = "failed" in answer or bool(limit and data_bytes() - before > limit // 2)
        try:
            framing.send_json(worker, {**answer, "last": is_last})
        except OSError:
            return
        if is_last:
            return


class WorkerConnection:
    """A running call's connection to its worker."""

    def __init__(self, worker: socket.socket) -> None:
        self._worker = worker
        self._last_message_at = 0.0
        self._work = self._told_work = 0

    def advance(self, amount: int) -> None:
        """State that so many more bytes, rows or steps are done; the worker learns it at most once a second. Only this
        keeps a call from being stopped for silence.
        """
        self._work += amount
        is_due = time.monotonic() - self._last_message_at > _REPORT_EVERY_S
        if is_due and self._work > self._told_work:
            self.tell("beat")

    def tell(self, name: str, *arguments: Any) -> None:
        """Send a message; no answer comes."""
        self._send({"tell": name, "arguments": arguments})

    def ask(self, name: str, *arguments: Any) -> Any:
        """Request something from the worker, and wait for its result."""
        self._send({"ask": name, "arguments": arguments})
        return framing.receive_pickle(self._worker)

    def _send(self, message: dict[str, Any]) -> None:
        self._last_message_at = time.monotonic()
        self._told_work = self._work
        framing.send_json(self._worker, {**message, "work": self._work})


def data_bytes() -> int:
    """Memory of this process that a limit of data counts; 0 if the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

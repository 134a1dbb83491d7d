"""The worker's side: keeps a reader, sends it calls, ends it when it is silent or slow, and reports the result."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ingest import processes
from ingest.isolation import framing

log = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parents[2]
_CHECK_EVERY_S = 1.0
type Handlers = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one call: memory of data in bytes (0: none), seconds in which it does not advance, seconds in total,
    seconds of processor time (0: no limit; nor where the system does not tell them).
    """

    memory_bytes: int
    silence_s: float
    wall_s: float
    cpu_s: float = 0.0


class End(StrEnum):
    """How a process ended that another try may outlive."""

    OUTSIDE = "outside"  # somebody ended it: that says nothing about what it did
    OWN = "own"  # the system ran out of memory, or it hung


class ReaderLost(Exception):
    """The reader returned no answer. The text is a sentence for the sender of the evidence.

    ``end`` is None if what it read ended it: then another try ends in the same way.
    """

    def __init__(self, sentence: str, end: End | None = None) -> None:
        super().__init__(sentence)
        self.end = end


class _Direct:
    """Calls without isolation: connects a call and its worker in one process."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def ask(self, name: str, *arguments: Any) -> Any:
        return self._handlers[name](*arguments)

    tell = ask

    def advance(self, amount: int) -> None:
        if amount:
            self.ask("beat")


class _Spent:
    """What a call has spent of its limits. Time in handlers (storage, database) is not the reader's."""

    def __init__(self, limits: Limits, pid: int) -> None:
        self._limits, self._pid = limits, pid
        self._work = 0
        self._began = self._advanced_at = time.monotonic()
        self._cpu_before_s = processes.cpu_s(pid) or 0.0

    def advanced(self, work: int) -> bool:
        """Whether ``work`` is more than what the reader had done before. Only that is progress, not a message."""
        if work <= self._work:
            return False
        self._work, self._advanced_at = work, time.monotonic()
        return True

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Around a handler."""
        began = time.monotonic()
        yield
        self._advanced_at += time.monotonic() - began

    def check(self) -> None:
        """Raises :class:`ReaderLost` if a limit is reached."""
        now, limits = time.monotonic(), self._limits
        if now - self._advanced_at > limits.silence_s:
            raise ReaderLost(_SILENT.format(seconds=round(limits.silence_s)))
        if now - self._began > limits.wall_s:
            raise ReaderLost(_TOO_LONG.format(seconds=round(limits.wall_s)))
        cpu_s = (processes.cpu_s(self._pid) or 0.0) - self._cpu_before_s
        if limits.cpu_s and cpu_s > limits.cpu_s:
            raise ReaderLost(_TOO_MUCH_CPU.format(seconds=round(limits.cpu_s)))


def call(name: str, handlers: Handlers, limits: Limits | None, /, **arguments: Any) -> Any:
    """Run ``inside.name(worker, **arguments)`` in the reader; without ``limits`` in this process. Its answer is JSON.

    ``handlers`` answer the call's requests and get its messages (``beat`` always: it advanced); their exceptions end
    the call. ``check``, if there is one, is called every second while the reader works, whether it says something or
    not.
    Raises :class:`ReaderLost`, or ``OSError`` with the reader's error number (a full disk is not the evidence's fault).
    """
    if limits is None:
        from ingest.isolation import inside  # noqa: PLC0415  # the site imports this module and never reads evidence

        return getattr(inside, name)(_Direct(handlers), **arguments)
    return _keeper().call(name, handlers, limits, arguments)


def warm() -> None:
    """Start this process's fork server without waiting: the engine is then loaded before the first call."""
    _keeper().start()


_kept: tuple[int, Any] = (0, None)


def _keeper() -> Keeper:
    """The keeper of this process: a forked worker must not use its parent's sockets."""
    global _kept  # noqa: PLW0603  # one per process
    if _kept[0] != os.getpid():
        _kept = (os.getpid(), Keeper())
    return _kept[1]  # type: ignore[no-any-return]


class Keeper:
    """Fork server and reader of this process; each is started on demand."""

    def __init__(self, module: str = "ingest.isolation.inside") -> None:
        self._module = module
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._reader: socket.socket | None = None
        self._pid = 0

    def call(self, name: str, handlers: Handlers, limits: Limits, arguments: dict[str, Any]) -> Any:
        oom_kills = processes.oom_kills()
        reader = self._ready()
        has_answered = False
        try:
            try:
                framing.send_pickle(reader, (name, limits.memory_bytes, arguments))
                answer = self._talk(reader, handlers, limits)
            except (EOFError, ConnectionError):
                raise self._ended(b"w", limits, oom_kills) from None
            except ValueError:  # it may still run
                raise self._ended(b"k", limits, oom_kills) from None
            has_answered = not answer["last"]
        finally:
            if not has_answered:
                self._drop()
        if "failed" not in answer:
            return answer["done"]
        if answer["failed"] == "MemoryError":
            raise ReaderLost(_TOO_MUCH.format(size=_size(limits.memory_bytes)))
        log.error("the reader failed in %s:\n%s", name, answer["traceback"])
        if answer["errno"] and answer["failed"] in ("OSError", "PermissionError", "FileNotFoundError"):
            raise OSError(answer["errno"], answer["message"])
        raise ReaderLost(_FAILED.format(kind=answer["failed"], message=" ".join(answer["message"].split())[:300]))

    def _talk(self, reader: socket.socket, handlers: Handlers, limits: Limits) -> dict[str, Any]:
        """Handle messages until the answer comes."""
        spent = _Spent(limits, self._pid)
        check = handlers.get("check", lambda: None)
        while True:
            spent.check()
            with spent.handling():
                check()
            check_again_at = time.monotonic() + _CHECK_EVERY_S
            while (left := check_again_at - time.monotonic()) > 0:
                if not select.select([reader], [], [], left)[0]:
                    break
                message = _received(reader)
                is_progress = spent.advanced(message.get("work", 0))
                if not message.keys() & {"tell", "ask"}:
                    return message
                with spent.handling():
                    _handle(message, handlers, reader, is_progress=is_progress)

    def _ready(self) -> socket.socket:
        if self._reader is not None:
            return self._reader
        for is_last in (False, True):
            try:
                self._fork()
                break
            except (OSError, EOFError) as error:  # the fork server has ended
                self.stop()
                if is_last and isinstance(error, EOFError | ConnectionError):
                    raise ReaderLost(_KILLED, End.OUTSIDE) from None
                if is_last:
                    raise
        assert self._reader is not None
        return self._reader

    def start(self) -> None:
        """Start the fork server if it does not run; does not wait until it is ready."""
        if self._control is None:
            self._control, theirs = socket.socketpair()
            argv = [sys.executable, "-m", "ingest.isolation.forkserver", str(theirs.fileno()), self._module]
            with theirs:
                self._server = subprocess.Popen(  # noqa: S603  # our own module
                    argv, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
                )

    def _fork(self) -> None:
        self.start()
        assert self._control is not None
        own, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"n"], [theirs.fileno()])
        self._pid = self._status()
        self._reader = own

    def _status(self) -> int:
        assert self._control is not None
        data = b""
        while len(data) < framing.STATUS.size:
            more = self._control.recv(framing.STATUS.size - len(data))
            if not more:
                raise EOFError
            data += more
        return int(framing.STATUS.unpack(data)[0])

    def _ended(self, request: bytes, limits: Limits, oom_kills: int | None) -> ReaderLost:
        """Why the reader ended. ``request``: whether the fork server waits for its end or kills it; ``oom_kills``: of
        the system, before it began.
        """
        try:
            assert self._control is not None
            self._control.sendall(request)
            status = self._status()
        except (OSError, EOFError, AssertionError):
            self.stop()
            return _killed_sentence(oom_kills)
        if status == framing.DID_NOT_END:
            return ReaderLost(_CRASHED.format(how="it sent no answer that can be read"))
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGABRT:  # native code aborts if it gets no memory
            return ReaderLost(_ABORTED.format(size=_size(limits.memory_bytes)))
        if code < 0 and -code not in _CRASHES:
            return _killed_sentence(oom_kills)
        return ReaderLost(_CRASHED.format(how=signal.strsignal(-code) if code < 0 else f"exit code {code}"))

    def _drop(self) -> None:
        """End the reader in any state."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._control is not None:
            try:
                self._control.sendall(b"k")
                self._status()
            except (OSError, EOFError):
                self.stop()

    def stop(self) -> None:
        """End both processes; the next call starts them again."""
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(2)
            self._server.kill()
            self._server.wait()
        self._server = self._control = self._reader = None


def _received(reader: socket.socket) -> dict[str, Any]:
    """The next message. Raises ``ValueError`` for one that is invalid or does not end."""
    reader.settimeout(60)  # once begun, a message arrives completely
    try:
        return dict(framing.receive_json(reader))
    except TimeoutError:
        raise ValueError("a message that does not end") from None
    finally:
        reader.settimeout(None)


def _handle(message: dict[str, Any], handlers: Handlers, reader: socket.socket, *, is_progress: bool) -> None:
    if "ask" in message:
        framing.send_pickle(reader, handlers[message["ask"]](*message["arguments"]))
    elif is_progress or message["tell"] != "beat":  # a beat without work renews nothing
        handlers[message["tell"]](*message["arguments"])


def _killed_sentence(oom_kills: int | None) -> ReaderLost:
    now = processes.oom_kills()
    is_short = now is None or oom_kills is None or now > oom_kills  # a system that does not tell may be short of memory
    return ReaderLost(_NO_MEMORY, End.OWN) if is_short else ReaderLost(_KILLED, End.OUTSIDE)


#: with these a process ends itself; all others are sent by somebody
_CRASHES = frozenset(
    (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS, signal.SIGXFSZ)
)
_TOO_MUCH = (
    "Reading this needs more memory than the {size} that one reading may take: it was left out. Send it in smaller "
    "parts, or give readings more memory and retry."
)
_ABORTED = (
    "A library aborted on this: it was left out. It needs more than the {size} that one reading may take, or it is "
    "malformed. Send it in smaller parts or as text, or give readings more memory and retry."
)
_KILLED = (
    "Something outside ended the process that read this, again and again: it was left out. Look into the log of the "
    "workers, and retry it."
)
_NO_MEMORY = (
    "The system ran out of memory while this was read, and ended the process that read it: it was left out. Send it in "
    "smaller parts, or give the machine more memory, and retry it."
)
_CRASHED = (
    "The process that read this crashed ({how}): it was left out. The file is most likely malformed; export it again "
    "or as text, and report it if it stays."
)
_FAILED = "Reading this failed unexpectedly ({kind}: {message}). Retry it, and report the file if it stays."
_SILENT = (
    "Reading this made no progress for {seconds:,} seconds: it was stopped and left out. The file is most likely "
    "malformed; export it again or as text."
)
_TOO_MUCH_CPU = (
    "Reading this took more than the {seconds:,} seconds of processor time that evidence of its size may take: it was "
    "stopped and left out. Send it in smaller parts; if it is real, give readings more time and retry."
)
_TOO_LONG = "Reading this took longer than the {seconds:,} seconds allowed: it was stopped. Send it in smaller parts."


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20:,} MiB"

"""Calls for a reader that fail as reading hostile bytes has failed: see ``test_isolation``."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from pathlib import Path
from typing import Any


def pid(line: Any) -> int:
    return os.getpid()


def niceness(line: Any) -> int:
    return os.nice(0)


def crash(line: Any) -> None:
    ctypes.string_at(0)


def abort(line: Any) -> None:
    os.abort()


def killed(line: Any, marker: str) -> str:
    """The system kills it the first time."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "read"


def signalled(line: Any, number: int) -> None:
    if number == signal.SIGHUP:
        signal.signal(number, signal.SIG_DFL)  # under nohup it is ignored
    os.kill(os.getpid(), number)
    time.sleep(600)


def killed_slowly(line: Any) -> None:
    """As on a machine whose processors others use: the connection is closed long before the process has ended."""
    line._worker.close()
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def send_nonsense_and_stay(line: Any) -> None:
    line._worker.sendall(b"\xff" * 8)
    time.sleep(600)


def exit_quietly(line: Any) -> None:
    os._exit(0)


def hang(line: Any) -> None:
    time.sleep(600)


def go_on_for_ever(line: Any) -> None:
    while True:
        time.sleep(0.01)
        line.advance(1)


def say_without_work(line: Any) -> None:
    """As a reader does that asks again and again at the end of a file."""
    while True:
        time.sleep(0.01)
        line.advance(0)
        line.tell("beat")


def compute_for_ever(line: Any) -> None:
    while True:
        line.advance(1)


def compute(line: Any, seconds: float) -> str:
    until = time.process_time() + seconds
    while time.process_time() < until:
        line.advance(1)
    return "done"


def take(line: Any, size: int) -> int:
    return len(bytearray(size))


def take_natively(line: Any, size: int) -> int:
    import numpy as np

    return int(np.ones(size // 8).sum())


def grow(line: Any) -> int:
    """Leaves memory allocated, as fragments and caches do."""
    _left.append(bytearray(600 << 20))
    return os.getpid()


_left: list[bytearray] = []


def panic(line: Any) -> None:
    import polars as pl

    raise pl.exceptions.PanicException("range end index 2146303 out of range")


def disk_full(line: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def answer_in_the_middle(line: Any) -> None:
    line._worker.sendall(b"\0\0\0\0\0\0\0\x10half")
    os._exit(1)


def ask(line: Any, number: int) -> int:
    return 1 + int(line.ask("double", number))

"""Which process holds what: names of processes that tell, later, whether they are still there."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


def own() -> str:
    """This process: its machine, ``#``, its id and start time."""
    return f"{machine()}#{started(os.getpid())}"


def is_gone(name: str) -> bool | None:
    """Whether the process that :func:`own` named has ended. None where another machine must know."""
    place, _, process = name.rpartition("#")
    if place != machine():
        return None
    pid = process.partition(":")[0]
    return not pid.isdigit() or started(int(pid)) != process


@cache
def machine() -> str:
    """Host and process namespace: two containers may share a name, but not their process ids."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"[:150]


def started(pid: int) -> str:
    """Process id and start time, so that a reused id is not taken for the old process; just the id where the system
    does not tell; empty where there is no such process.
    """
    try:
        when = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        try:
            os.kill(pid, 0)
        except OSError:
            return ""
        when = ""
    return f"{pid}:{when}"

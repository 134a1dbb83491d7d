"""Names of processes, which later show whether the process still runs."""

from __future__ import annotations

import os
import socket
import tempfile
from functools import cache
from pathlib import Path


def process_name() -> str:
    """The name of this process: its machine, ``#``, its id and start time."""
    return f"{machine()}#{id_and_start(os.getpid())}"


def has_ended(name: str) -> bool | None:
    """Whether the process that :func:`process_name` named has ended. None for a process of another machine."""
    host, _, process = name.rpartition("#")
    if host != machine():
        return None
    pid = process.partition(":")[0]
    return not pid.isdigit() or id_and_start(int(pid)) != process


@cache
def machine() -> str:
    """Host and process namespace: two containers may have the same host name, but not the same process ids."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"[:150]


def id_and_start(pid: int) -> str:
    """Process id and start time, because the system reuses ids. Only the id if the system does not tell the time; empty
    if no such process runs.
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


def alive_path(part: str) -> Path:
    """The file that the worker of a part touches while it works. It is of this machine (or container) alone: a lost
    disk of the data must restart nobody.
    """
    return Path(tempfile.gettempdir()) / f"faultline-{os.getuid()}" / f"{part}.alive"


def memory_bytes(pid: int) -> int:
    """The memory of a process and all that it started, directly or not: each process's own share (PSS), so that shared
    memory counts once. 0 if the system does not tell. Milliseconds for each process of the machine.
    """
    return sum(map(share_bytes, tree(pid)))


def tree(pid: int) -> set[int]:
    """A process and all that it started, directly or not."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        children.setdefault(_parent_of(path), []).append(int(path.name))
    found, waiting = set(), [pid]
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting += children.get(one, ())
    return found


def _parent_of(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def share_bytes(pid: int) -> int:
    """The memory of one process, its share of what it shares with others. 0 if it has ended or is another user's."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))
    except (OSError, StopIteration, ValueError):
        return 0


def cpu_s(pid: int) -> float | None:
    """Seconds of processor time that a process has taken, with its ended children; None if the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))
    except (OSError, ValueError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def oom_kills() -> int | None:
    """How many processes the system has ended for lack of memory since it started; None if it does not tell."""
    try:
        rows = dict(row.split() for row in Path("/proc/vmstat").read_text().splitlines())
        return int(rows["oom_kill"])
    except (OSError, KeyError, ValueError):
        return None

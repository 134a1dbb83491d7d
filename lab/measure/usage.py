"""The cost of a command: wall and CPU seconds of it and its children, and the memory of all of them together."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.25
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


@dataclass(frozen=True)
class Usage:
    """``peak_mib`` is the largest sum of the processes' own shares of memory (PSS), measured four times a second;
    ``largest_mib`` the largest share of one of them.
    """

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str
    largest_mib: float = 0.0


def run(argv: Sequence[str]) -> Usage:
    """Run a command to its end; raises ``CalledProcessError`` if it fails. Processes that outlive it, such as servers
    that fork its workers, are adopted and counted; call it while no other child runs.
    """
    ctypes.CDLL(None).prctl(_ADOPT, 1)
    began, is_over = time.perf_counter(), threading.Event()
    peak, largest = 0.0, 0.0
    before = os.times()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def watch() -> None:
        nonlocal peak, largest
        while not is_over.wait(_POLL_S):
            each = _memory(process.pid)
            peak = max(peak, sum(each))
            largest = max(largest, *each, 0.0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    output, _ = process.communicate()
    wall_s = time.perf_counter() - began
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    is_over.set()
    watcher.join()
    after = os.times()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv, output)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Usage(wall_s, cpu, peak, output, largest)


def _memory(session: int) -> list[float]:
    """MiB of each process of a session."""
    each = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                rows = (stat.parent / "smaps_rollup").read_text().splitlines()
                each.append(sum(int(r.split()[1]) for r in rows if r.startswith("Pss:")) / 1024)
        except (OSError, IndexError, ValueError):  # it ended meanwhile
            continue
    return each

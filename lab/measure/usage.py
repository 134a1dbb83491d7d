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
    """``peak_mib`` is the largest sum of the processes' own shares of memory (PSS), measured four times a second."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


def run(argv: Sequence[str]) -> Usage:
    """Run a command to its end; raises ``CalledProcessError`` if it fails. Processes that outlive it, such as servers
    that fork its workers, are adopted and counted; call it while no other child runs.
    """
    ctypes.CDLL(None).prctl(_ADOPT, 1)
    began, peak, is_over = time.perf_counter(), 0.0, threading.Event()
    before = os.times()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(_POLL_S):
            peak = max(peak, _memory(process.pid))

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
    return Usage(wall_s, cpu, peak, output)


def _memory(session: int) -> float:
    """MiB of every process of a session."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                rows = (stat.parent / "smaps_rollup").read_text().splitlines()
                total += sum(int(r.split()[1]) for r in rows if r.startswith("Pss:"))
        except (OSError, IndexError, ValueError):  # it ended meanwhile
            continue
    return total / 1024

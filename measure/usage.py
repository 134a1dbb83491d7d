"""What a command costs: wall and CPU seconds of it and its children, and the memory of all of them together."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.25


@dataclass(frozen=True)
class Usage:
    """``peak_mib`` is the largest sum of the processes' own shares of memory (PSS), looked at four times a second."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


def run(argv: Sequence[str]) -> Usage:
    """Run a command to its end; raises ``CalledProcessError`` where it fails."""
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
    is_over.set()
    watcher.join()
    after = os.times()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv, output)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Usage(time.perf_counter() - began, cpu, peak, output)


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

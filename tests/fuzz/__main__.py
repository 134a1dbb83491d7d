"""Fuzzes for as long as asked: ``python -m tests.fuzz readers|archives|flows|patterns [options]``."""

from __future__ import annotations

import sys

from tests.fuzz import archives, flows, patterns, readers

PROGRAMS = {"readers": readers.main, "archives": archives.main, "flows": flows.main, "patterns": patterns.main}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        raise SystemExit(f"python -m tests.fuzz {'|'.join(PROGRAMS)} [options]")
    raise SystemExit(PROGRAMS[sys.argv.pop(1)]())

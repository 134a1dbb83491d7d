"""What is kept of old jobs, and whether a diagnosis from that alone says the same: `python -m lab.measure keeping
JOB…`.

Each JOB is a directory or archive. Prints for each: bytes, lines, kept lines, bytes of the kept lines as they are
stored, and how much smaller that is; then the sum. A job whose verdict needs all its lines is not condensed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from diagnosis import keeping
from diagnosis.files import gathering
from diagnosis.model import LOG_KINDS, ParseHints


def _measure(job: Path) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "tables").mkdir()
        found = gathering.gather([job], Path(name) / "tables")
        hints = {p.path: ParseHints(kind=p.kind) for p in found.parsed}
        logs = [p for p in found.parsed if p.kind in LOG_KINDS]
        size = sum(p.bytes for p in logs)
        kept = keeping.condense(found.parsed, read=found.read, hints=hints, out=Path(name) / "kept.parquet")
        found.close()
        lines = sum(p.lines for p in logs)
        if kept is None:
            print(f"{job.name:32} {size:12,} {lines:9,} lines  not condensed", flush=True)
            return size, size
        stored = (Path(name) / "kept.parquet").stat().st_size
        said = f"{size:12,} {lines:9,} lines {sum(kept.values()):7,} kept {stored:9,} bytes"
        print(f"{job.name:32} {said} {size / stored:6.1f} times smaller", flush=True)
        return size, stored


def main() -> None:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("jobs", nargs="+", type=Path)
    sizes = [_measure(job) for job in options.parse_args().jobs]
    before, after = (sum(row) for row in zip(*sizes, strict=True))
    print(f"{len(sizes)} jobs: {before:,} bytes, {after:,} kept: {before / max(1, after):.1f} times smaller")

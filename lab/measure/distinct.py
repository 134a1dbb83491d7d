"""A job whose lines all have different messages: `python -m lab.measure distinct [--messages 1000000] [--nodes 10]`.

Writes one log a node, with `--messages` lines in total, almost all with a template of their own, and an error at the
end of each; then parses and diagnoses them in this process. Prints seconds and CPU seconds of both, the peak memory,
the headline, and what the report says was left out.
"""

from __future__ import annotations

import argparse
import random
import resource
import string
import tempfile
import time
from pathlib import Path

from diagnosis import Parsed, ParseHints, parse
from diagnosis.pipeline import diagnose

_SEED = 3
_VOCABULARY = 20_000
_DIED = "2026-01-02 04:30:00 ERROR CUDA error: an illegal memory access was encountered\n"


def write(path: Path, lines: int, rng: random.Random) -> None:
    """A log of ``lines`` lines of five words each, and one error."""
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(4, 9))) for _ in range(_VOCABULARY)]
    with path.open("w") as out:
        for n in range(lines):
            out.write(f"2026-01-02 03:{n // 60 % 60:02d}:{n % 60:02d} INFO {' '.join(rng.choices(words, k=5))} done\n")
        out.write(_DIED)


def main() -> None:
    """Measures one job."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--nodes", type=int, default=10)
    chosen = options.parse_args()
    rng = random.Random(_SEED)
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"node-{n:04d}.log" for n in range(chosen.nodes)]
        for log in logs:
            write(log, chosen.messages // chosen.nodes, rng)
        clock, cpu = time.perf_counter(), time.process_time()
        parsed: list[Parsed] = []
        for log in logs:
            with log.open("rb") as stream:
                parsed.append(parse(stream, log.name, ParseHints(), log.with_suffix(".work")))
        _row("parse", clock, cpu)
        clock, cpu = time.perf_counter(), time.process_time()
        diagnosis = diagnose(parsed, read=lambda path, offset, length: _range(Path(folder) / path, offset, length))
        _row("diagnose", clock, cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{chosen.messages:,} messages, peak {peak:,.0f} MiB: {diagnosis.headline}")
    print(*diagnosis.missing, sep="\n")


def _range(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(length)


def _row(name: str, clock: float, cpu: float) -> None:
    print(f"{name:10}{time.perf_counter() - clock:8.1f} s {time.process_time() - cpu:8.1f} CPU s", flush=True)

"""An archive of very many small logs, whole: `python -m lab.measure members [--members 50000] [--lines 16]`.

Writes a .tar.gz of `--members` logs of a few lines, one a rank as torchrun writes them, then unpacks, parses and
diagnoses it as the command line does. One of the ranks dies. Prints seconds, CPU seconds and milliseconds a member of
each part, and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import io
import resource
import tarfile
import tempfile
import time
from pathlib import Path

from diagnosis import Parsed, ParseHints, parse
from diagnosis.archive import archives
from diagnosis.pipeline import diagnose
from lab.measure.generate import lines

_DIED = b"RuntimeError: CUDA error: an illegal memory access was encountered\n"


def write(path: Path, members: int, length: int) -> None:
    """An archive of ``members`` logs of ``length`` lines, eight ranks a node."""
    pool = [line.split(": ", 1)[1].encode() + b"\n" for line in lines(4_096, ranks=8)]
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for number in range(members):
            first = 7 * number % (len(pool) - length)
            data = b"".join(pool[first : first + length]) + (_DIED if number == members // 3 else b"")
            info = tarfile.TarInfo(f"logs/node-{number // 8:05d}/attempt_0/{number % 8}/stderr.log")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def main() -> None:
    """Measures one archive."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--members", type=int, default=50_000)
    options.add_argument("--lines", type=int, default=16)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, work = Path(folder) / "all.tar.gz", Path(folder) / "work"
        write(source, chosen.members, chosen.lines)
        clock, cpu = time.perf_counter(), time.process_time()
        parsed: list[Parsed] = []
        offsets: dict[str, bytes] = {}
        with source.open("rb") as stream:
            for member in archives.walk(stream, source.name):
                data = member.stream.read()
                offsets[member.path] = data
                parsed.append(parse(io.BytesIO(data), member.path, ParseHints(), work / f"{len(parsed):06d}"))
        _row("unpack and parse", clock, cpu, len(parsed))
        clock, cpu = time.perf_counter(), time.process_time()
        diagnosis = diagnose(parsed, read=lambda path, offset, length: offsets[path][offset : offset + length])
        _row("diagnose", clock, cpu, len(parsed))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{len(parsed):,} members, peak {peak:,.0f} MiB: {diagnosis.headline[:160]}")


def _row(name: str, clock: float, cpu: float, members: int) -> None:
    wall, spent = time.perf_counter() - clock, time.process_time() - cpu
    print(f"{name:18}{wall:8.1f} s {spent:8.1f} CPU s {1000 * spent / members:8.2f} CPU ms a member", flush=True)

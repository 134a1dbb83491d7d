"""The command line on one large job that looks like real ones: `python -m lab.measure job [--nodes 1024] [--lines
8860]`.

Writes the job of ``lab.exams.large`` (NeMo-style, RDMA errors, about forty line formats in eight voices, many rare
messages), once with a file a node and, with ``--files 1 8``, again with eight files a node; runs `python -m diagnosis`
on it as a user would, and prints wall and CPU seconds and the memory of all its processes. ``--apart`` times parsing
and diagnosing separately, in this process.

``--draw new`` draws a job anew (how it tells its progress, how often each format occurs, storms of RDMA errors, usage
texts, rare messages) and prints the name of the draw, by which ``--draw NAME`` writes the same job again. With
``--most-cpu-s 1.5`` the command fails if a million lines took more CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from diagnosis.files.parsing import parse
from diagnosis.model import Parsed, ParseHints
from diagnosis.pipeline import diagnose
from lab.exams.large import write
from lab.measure.usage import run


@dataclass(frozen=True)
class Measurement:
    """Seconds and CPU seconds of both halves, and the findings."""

    parse_s: float
    parse_cpu_s: float
    diagnose_s: float
    diagnose_cpu_s: float
    headline: str


def measure(nodes: int, lines: int, files: int = 1, draw: str | None = None) -> Measurement:
    """Write, parse, diagnose in this process."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "logs"
        write(base, nodes, lines, files_a_node=files, draw=draw)
        parsed: list[Parsed] = []
        wall, cpu = time.perf_counter(), time.process_time()
        for number, path in enumerate(sorted(p for p in base.rglob("*") if p.is_file())):
            with path.open("rb") as stream:
                told = path.relative_to(base).as_posix()
                parsed.append(parse(stream, told, ParseHints(), Path(name) / "work" / str(number)))
        parse_s, parse_cpu_s = time.perf_counter() - wall, time.process_time() - cpu

        def read(path: str, offset: int, length: int) -> bytes:
            with (base / path).open("rb") as stream:
                stream.seek(offset)
                return stream.read(length)

        wall, cpu = time.perf_counter(), time.process_time()
        found = diagnose(parsed, read=read)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        return Measurement(parse_s, parse_cpu_s, *spent, found.headline)


def main() -> None:
    """One line for each number of files."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=1024)
    options.add_argument("--lines", type=int, default=8860, help="a node")
    options.add_argument("--files", type=int, nargs="+", choices=(1, 8), default=[1], help="a node")
    options.add_argument("--apart", action="store_true", help="time parsing and diagnosing apart, in this process")
    options.add_argument("--draw", metavar="NAME", help="of a drawn job; `new` draws one")
    options.add_argument("--most-cpu-s", type=float, help="a million lines, with the start of the program")
    chosen = options.parse_args()
    draw = secrets.token_hex(3) if chosen.draw == "new" else chosen.draw
    if draw:
        print(f"draw {draw}", flush=True)
    for files in chosen.files:
        size = f"{chosen.nodes} nodes, {chosen.nodes * files} files, {chosen.nodes * chosen.lines:,} lines"
        if chosen.apart:
            found = measure(chosen.nodes, chosen.lines, files, draw)
            print(
                f"{size}: parse {found.parse_s:.1f} s ({found.parse_cpu_s:.1f} CPU), diagnose {found.diagnose_s:.1f} s "
                f"({found.diagnose_cpu_s:.1f} CPU): {found.headline[:160]}",
                flush=True,
            )
            continue
        with tempfile.TemporaryDirectory() as folder:
            held = write(Path(folder), chosen.nodes, chosen.lines, files_a_node=files, draw=draw)
            cost = run([sys.executable, "-m", "diagnosis", folder, "--json"])
        print(
            f"{size}, {held / 1e9:.2f} GB: {cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} CPU s, {cost.peak_mib:,.0f} MiB: "
            f"{json.loads(cost.output)['headline'][:160]}",
            flush=True,
        )
        million_cpu_s = cost.cpu_s / (chosen.nodes * chosen.lines) * 1e6
        if chosen.most_cpu_s and million_cpu_s > chosen.most_cpu_s:
            sys.exit(f"A million lines took {million_cpu_s:.1f} CPU s, allowed are {chosen.most_cpu_s:.1f}.")

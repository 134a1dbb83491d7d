"""Lines a second and peak memory of reading a log, with Drain3 in the same run: `python -m lab.measure parse [--lines
1000000 10000000]`.

Faultline does more than Drain3 here: it also reads times, writers and levels, joins records and writes the column
files; then it mines templates. Drain3 gets the one mask that Faultline applies to every line, on the first
`--drain-lines` lines. Two choices favour Drain3: it need not apply the naming masks, which Faultline applies to
distinct lines only, and its rate falls with more lines. Each measurement runs in its own process. Wall time varies on a
shared machine; CPU seconds are reliable.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The mask that Faultline applies to every line, as one pattern: hexadecimal words and numbers.
_PER_LINE = (
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|0[xX][0-9a-fA-F]+"
    r"|\b[0-9][0-9a-fA-F]*\b|\b[0-9a-fA-F]{8,}\b|[0-9]+"
)


def _usage() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def parse_ours(path: Path) -> dict[str, float]:
    """Parse and mine ``path``."""
    import polars as pl

    from diagnosis import ParseHints, parse
    from diagnosis.kinds.logs.rows import templates

    with tempfile.TemporaryDirectory() as work:  # loads the compiled code, as a worker does once in its life
        parse(
            io.BytesIO(b"[rank1]: [2026-01-01 00:00:00,000] host-1:12:13 [0] NCCL INFO warm\n  3: host-1: up\n"),
            "warm",
            ParseHints(),
            Path(work),
        )
    cpu, _ = _usage()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as work, path.open("rb") as stream:
        parsed = parse(stream, path.name, ParseHints(), Path(work))
        mined = templates.of_texts(pl.read_parquet(parsed.uniques)["text"].to_list())
    wall = time.perf_counter() - began
    after, peak = _usage()
    return {
        "lines": parsed.lines,
        "templates": len(set(mined.values())),
        "wall_s": wall,
        "cpu_s": after - cpu,
        "peak_mib": peak,
    }


def drain(path: Path, limit: int, has_all_masks: bool) -> dict[str, float]:
    """Drain3 over the first ``limit`` lines of ``path``, with Faultline's mask of every line, or with all its masks."""
    from drain3 import TemplateMiner
    from drain3.template_miner_config import TemplateMinerConfig

    from diagnosis.kinds.logs.text import mask

    first = re.compile(_PER_LINE, re.ASCII)
    named = mask.MASKS if has_all_masks else ()
    masks = [(re.compile(pattern), re.sub(r"\$\{(\d)\}", r"\\g<\1>", name)) for pattern, name in named]
    miner = TemplateMiner(config=TemplateMinerConfig())
    cpu, _ = _usage()
    began = time.perf_counter()
    count = 0
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            text = first.sub("0" if has_all_masks else "<NUM>", line)
            for pattern, name in masks:
                text = pattern.sub(name, text)
            miner.add_log_message(text)
            count += 1
            if count == limit:
                break
    wall = time.perf_counter() - began
    after, peak = _usage()
    return {
        "lines": count,
        "templates": len(miner.drain.clusters),
        "wall_s": wall,
        "cpu_s": after - cpu,
        "peak_mib": peak,
    }


def _in_process(*arguments: str) -> dict[str, float]:
    """Runs this file in another process, so that peak memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "lab.measure", "parse", *arguments], check=True, capture_output=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--drain-lines", type=int, default=100_000)
    parser.add_argument("--one-line", type=int, metavar="MB", help="measure a log of one line of so many megabytes")
    parser.add_argument("--file", type=Path, help="measure this log instead of generated ones")
    parser.add_argument("--one", choices=("ours", "drain", "drain-all"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if options.one == "ours":
            result = parse_ours(options.file)
        else:
            result = drain(options.file, options.drain_lines, options.one == "drain-all")
        print(json.dumps(result))
        return
    print(
        f"{'':22}{'lines':>12}{'MB':>9}{'wall s':>9}{'CPU s':>9}{'klines/s':>10}{'MB/s':>8}"
        f"{'peak MiB':>10}{'templates':>11}"
    )
    with tempfile.TemporaryDirectory() as folder:
        if options.one_line:
            path = Path(folder) / "line.log"
            with path.open("wb") as out:
                out.write(b"2026-03-01 08:00:00 [ERROR] ")
                for _ in range(options.one_line):
                    out.write(b"tensor([0.25, 1]) " * 55_555)
            _row("Faultline", _in_process("--one", "ours", "--file", str(path)), path.stat().st_size)
            return
        for count in [0] if options.file else options.lines:
            path = options.file or Path(folder) / f"{count}.log"
            if not options.file:
                from lab.measure.generate import write

                write(path, count)
            mine = _in_process("--one", "ours", "--file", str(path))
            _row("Faultline", mine, path.stat().st_size)
            for name, one in (("Drain3, one mask", "drain"), ("Drain3, all masks", "drain-all")):
                theirs = _in_process("--one", one, "--file", str(path), "--drain-lines", str(options.drain_lines))
                _row(name, theirs, 0)
                wall = (mine["lines"] / mine["wall_s"]) / (theirs["lines"] / theirs["wall_s"])
                cpu = (mine["lines"] / mine["cpu_s"]) / (theirs["lines"] / theirs["cpu_s"])
                print(f"{'':22}{wall:.1f} times its lines a second, {cpu:.1f} times its lines a CPU second")


def _row(name: str, row: dict[str, float], size: int) -> None:
    rate = row["lines"] / row["wall_s"]
    print(
        f"{name:22}{row['lines']:>12,}{size / 1e6:>9.0f}{row['wall_s']:>9.2f}{row['cpu_s']:>9.2f}{rate / 1e3:>10.0f}"
        f"{size / 1e6 / row['wall_s']:>8.0f}{row['peak_mib']:>10.0f}{row['templates']:>11}",
        flush=True,
    )

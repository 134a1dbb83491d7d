"""Coverage-guided fuzzing of everything that reads evidence: `python -m tests.fuzz readers [--seconds 600] [--seed 1]`.

Inputs that reach a line or a branch of the engine that no input reached before, or that give a line whose columns look
new, are kept and changed further. Coverage comes from `sys.monitoring`, so no compiler and no package is needed. Every
input must keep the promises of ``complaint``. The same seed and number of rounds make the same inputs. Failing ones
are written to `--keep` and printed with what they broke.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import polars as pl

import diagnosis
from diagnosis import Kind, Parsed, ParseHints, merge, parse
from diagnosis.files.recognise import is_divisible
from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.read import lines
from diagnosis.kinds.logs.rows import stored_rows

_ENGINE = str(Path(diagnosis.__file__).parent)
_TOOL = 4
#: One input takes milliseconds; beyond this it hangs, and the process ends with a traceback. Wall time, so generous: a
#: busy machine must not look like a hang.
_HANG_S = 300
_MOST_BYTES = 6_000

SEEDS: tuple[tuple[str, bytes], ...] = (
    (
        "n7/x.log",
        b"[rank3]: [2026-03-01 08:00:00,250] [INFO] opened /data/p-1.bin\n"
        b"[rank3]: Traceback (most recent call last):\n"
        b'[rank3]:   File "/opt/train.py", line 7, in <module>\n[rank3]: ValueError: bad sample 17\n',
    ),
    (
        "dmesg.log",
        b"Feb 29 08:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n" * 3,
    ),
    ("wrapped.log", b'{"time": "2026-03-01T08:00:00Z", "level": "info", "msg": "step 1", "rank": 3}\n' * 6),
    ("journal.json", b'{"MESSAGE": [104, 105], "__REALTIME_TIMESTAMP": "1772352000000000", "_HOSTNAME": "n1"}\n' * 6),
    ("wide.log", "[rank1]: 2026-03-01 08:00:00 näh\nE0301 08:00:00.000000 1 x] 漢\n".encode("utf-16")),
    (
        "flows.csv",
        b"start_time,duration,src,dst,src_port,dst_port,proto,bytes\n1,0.5,10.0.0.1,10.0.0.2,1,2,6,100\n" * 2,
    ),
    (
        "flows.jsonl",
        b'{"time_received": 1, "src_addr": "10.0.0.1", "dst_addr": "10.0.0.2", "bytes": 5, "packets": 1}\n' * 3,
    ),
    (
        "stack.txt",
        b'Process 12: python train.py\nPython v3.12 (/usr/bin/python)\n\nThread 12 (active): "MainThread"\n'
        b"    forward (model.py:12)\n    main (train.py:3)\n",
    ),
    (
        "stack.log",
        b'Thread 0x00007f0 (most recent call first):\n  File "a.py", line 3 in f\n  File "a.py", line 9 in g\n',
    ),
    ("trace.json", b'{"version": "2.4", "entries": [{"seq_id": 1, "state": "started", "profiling_name": "a"}]}'),
    ("job.json", b'{"job_id": "7", "nodes": ["n1", "n2"], "world_size": 16, "framework": "megatron"}'),
    ("layout.json", b'{"tp": 2, "pp": 2, "dp": 4, "order": "tp-dp-pp"}'),
    ("hosts.csv", b"node,ip,gpus\nn1,10.0.0.1,8\nn2,10.0.0.2,8\n"),
    ("sacct.txt", b"JobID|State|ExitCode|NodeList\n7|FAILED|1:0|n[1-2]\n"),
)
TOKENS: tuple[bytes, ...] = (
    b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b"\x1b[31m", b"\t", b"  ", b"[rank3]: ", b"[default3]:[rank7]: ",
    b"  12: ", b"worker-2: ", b"gpu-12:123:456 [3] NCCL ", b"[1,5]<stderr>:", b"[pod/a-1/b] ", b"web-0 | ",
    b"2026-03-01 08:00:00,123 ", b"2026-02-30T24:00:00+99:99 ", b"srun: error: n7: task 3: Exited with exit code 1",
    b"[ERROR] ", b"<6>", b"::::", b"Traceback (most recent call last):", b"ValueError: 7",
    b" 45%|##  | 4/9 [00:01<00:02]", b"exit code 137", b"errno[12", b"Xid (PCI:0000:3b:00): 79", b"\xff\xfe",
    b"\xfe\xff", b"\xef\xbb\xbf", b"\xe4", "漢😀".encode(), b"0x", b"0X1f", b"3fa2b1cd-aaaa-bbbb-cccc-deadbeef0123",
    b"1e999", b"NaN", b"-1", b"99999999999999999999", b'{"msg": "x", "time": 1e999}', b"{", b"}", b"[", b"]", b'"',
    b",", b";", b":", b"null", b"a" * 3000, b"/a/b.c:7", b"Feb 29 08:00:00 n1 kernel: ",
    b"E0230 08:00:00.000000 1 x]", b"Backtrace:", b"Call Trace:", b"1772352000.5 ",
    b":::MLLOG {\"time_ms\": 1772352000000}",
)  # fmt: skip


@dataclass
class Found:
    """What a run found: ``failures`` are (name, input, what it broke)."""

    rounds: int = 0
    kept: int = 0
    reached: int = 0
    failures: list[tuple[str, bytes, str]] = field(default_factory=list)


class Coverage:
    """Lines and branches of the engine reached for the first time."""

    def __init__(self) -> None:
        self.places: set[tuple[CodeType, int, int]] = set()  # code, line or instruction, where it went or -1
        self._first_way: dict[tuple[CodeType, int], int] = {}

    def __enter__(self) -> Coverage:
        watch = sys.monitoring
        watch.use_tool_id(_TOOL, "fuzz")
        watch.register_callback(_TOOL, watch.events.LINE, self._line)
        watch.register_callback(_TOOL, watch.events.BRANCH, self._branch)
        watch.set_events(_TOOL, watch.events.LINE | watch.events.BRANCH)
        return self

    def __exit__(self, *_: object) -> None:
        sys.monitoring.set_events(_TOOL, 0)
        sys.monitoring.free_tool_id(_TOOL)

    def _line(self, code: CodeType, line: int) -> object:
        if code.co_filename.startswith(_ENGINE):
            self.places.add((code, line, -1))
        return sys.monitoring.DISABLE

    def _branch(self, code: CodeType, at: int, to: int) -> object:
        if not code.co_filename.startswith(_ENGINE):
            return sys.monitoring.DISABLE
        self.places.add((code, at, to))
        has_both = self._first_way.setdefault((code, at), to) != to
        return sys.monitoring.DISABLE if has_both else None


def complaint(name: str, data: bytes, cut: float, work: Path) -> tuple[str, set[tuple[Any, ...]]]:
    """Which promise is broken, "" if none, and what the lines of the result look like.

    Reading raises nothing and finishes; a log's lines are numbered from 1 and point back to their own bytes; its
    messages count all of them; blocks of any size and byte ranges give the same tables.
    """
    try:
        parsed = parse(io.BytesIO(data), name, ParseHints(), work / "w")
        if parsed.skipped and "Error: " in parsed.skipped and "could not be read (" in parsed.skipped:
            return parsed.skipped, set()
        if parsed.kind not in (Kind.LOG, Kind.KERNEL, Kind.SCHEDULER) or parsed.columns is None or parsed.skipped:
            return "", {(parsed.kind, bool(parsed.skipped), len(parsed.notes))}
        columns, uniques = _tables(parsed)
        broken = _lines(parsed, columns, data) or _messages(columns, uniques)
        if not broken:
            small = _in_small_blocks(name, data, work / "s", 1 + int(cut * 999))
            broken = "" if columns.equals(small) else "blocks of another size give other lines"
        ends = [at + 1 for at, byte in enumerate(data[:-1]) if byte == 10]
        at = ends[int(cut * len(ends))] if ends else 0
        # A first range is never shorter than the head that a file is judged by.
        if not broken and at and is_divisible(data, name) and is_divisible(data[:at], name):
            hints = ParseHints(kind=parsed.kind)
            first = parse(io.BytesIO(data[:at]), name, hints, work / "a")
            second = parse(io.BytesIO(data[at:]), name, ParseHints(kind=parsed.kind, offset=at), work / "b")
            merged = merge([first, second], work / "m")
            same = [one.equals(two) for one, two in zip(_tables(merged), (columns, uniques), strict=True)]
            if not all(same) or merged.sources != parsed.sources:
                broken = f"ranges cut at {at} do not add up: lines, messages alike {same}"
        looks = columns.select("level", "flags", pl.col("time").is_null(), pl.col("source").clip(0, 3)).unique().rows()
        return broken, {(parsed.kind, *look) for look in looks}
    except Exception as error:  # any that comes out of the engine is what is looked for
        return f"{type(error).__name__}: {error}"[:300], set()


def _tables(parsed: Parsed) -> tuple[pl.DataFrame, pl.DataFrame]:
    assert parsed.uniques is not None
    return stored_rows.read([stored_rows.lines_of(parsed)], COLUMNS), pl.read_parquet(parsed.uniques)


def _lines(parsed: Parsed, columns: pl.DataFrame, data: bytes) -> str:
    encoding = parsed.facts["encoding"]
    newline = "\n".encode(encoding)
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 2 if data[:2] in (b"\xff\xfe", b"\xfe\xff") else 0
    if len(columns) != parsed.lines or columns["line"].to_list() != list(range(1, parsed.lines + 1)):
        return "lines are not numbered from 1 on"
    at = start
    for offset, length in columns.select("offset", "length").iter_rows():
        if offset != at:
            return f"a line begins at {offset}, not at {at}"
        if encoding == "utf-8" and b"\n" in data[offset : offset + length]:
            return f"the line at {offset} holds a newline"
        at = offset + length + len(newline)
        if at <= len(data) and data[at - len(newline) : at] != newline:
            return f"the line at {offset} does not end in a newline"
    return "" if at >= len(data) - len(newline) else f"bytes after {at} are in no line"


def _messages(columns: pl.DataFrame, uniques: pl.DataFrame) -> str:
    counted = columns.group_by("masked").agg(
        count=pl.len().cast(pl.UInt64), level=pl.col("level").max(), first_line=pl.col("line").min()
    )
    told = uniques.select("masked", "count", "level", "first_line").sort("masked")
    return "" if counted.sort("masked").equals(told) else "messages do not count the lines"


def _in_small_blocks(name: str, data: bytes, work: Path, size: int) -> pl.DataFrame:
    usual = lines.blocks.__kwdefaults__
    lines.blocks.__kwdefaults__ = {**(usual or {}), "block_bytes": size}
    try:
        return _tables(parse(io.BytesIO(data), name, ParseHints(), work))[0]
    finally:
        lines.blocks.__kwdefaults__ = usual


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """``data`` with one to four changes."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        first = rng.randrange(len(out) + 1)
        last = min(len(out), first + rng.choice((1, 2, 8, 40, 200)))
        way = rng.randrange(7)
        if way <= 1:
            out[first:first] = rng.choice(TOKENS)
        elif way == 2:
            del out[first:last]
        elif way == 3:
            out[first:first] = out[first:last] * rng.randrange(1, 4)
        elif way == 4:
            begin = rng.randrange(len(other) + 1)
            out[first:last] = other[begin : begin + rng.choice((8, 80, 800))]
        elif way == 5 and out:
            out[first % len(out)] = rng.randrange(256)
        else:
            out[first:last] = rng.choice(TOKENS)
    return bytes(out[:_MOST_BYTES])


def run(seed: int, *, rounds: int | None = None, seconds: float | None = None) -> Found:
    """Fuzzes for so many rounds or seconds of CPU, whichever is given."""
    rng = random.Random(seed)
    pool = list(SEEDS)
    found, looks = Found(), set[tuple[Any, ...]]()
    began = time.process_time()
    with Coverage() as coverage, tempfile.TemporaryDirectory() as folder:
        while found.rounds != rounds and (seconds is None or time.process_time() - began < seconds):
            if found.rounds < len(SEEDS):
                name, data = SEEDS[found.rounds]
            else:
                name, data = rng.choice(pool[-200:] if rng.random() < 0.5 else pool)
                data = mutated(rng, data, rng.choice(pool)[1])
            before, cut = len(coverage.places), rng.random()
            faulthandler.dump_traceback_later(_HANG_S, exit=True)
            broken, seen = complaint(name, data, cut, Path(folder) / str(found.rounds % 8) / str(found.rounds))
            faulthandler.cancel_dump_traceback_later()
            if len(coverage.places) > before or seen - looks:
                looks |= seen
                pool.append((name, data))
                found.kept += 1
            if broken:
                found.failures.append((name, data, broken))
            found.rounds += 1
        found.reached = len(coverage.places)
    return found


def main() -> None:
    """Fuzzes and prints what was found; fails if anything was."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=600.0)
    options.add_argument("--rounds", type=int)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, help="directory for failing inputs")
    chosen = options.parse_args()
    found = run(chosen.seed, rounds=chosen.rounds, seconds=None if chosen.rounds else chosen.seconds)
    by_kind: dict[str, tuple[str, bytes, str]] = {}
    for failure in found.failures:
        by_kind.setdefault(failure[2][:60], failure)
    for number, (name, data, broken) in enumerate(by_kind.values()):
        print(f"{broken}\n  {name}: {data[:400]!r}")
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            (chosen.keep / f"{number:03d}-{Path(name).name}").write_bytes(data)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{found.rounds:,} inputs, {found.kept:,} of them reach something new, {found.reached:,} lines and branches, "
        f"{len(found.failures):,} failures of {len(by_kind)} kinds, {time.process_time():.0f} CPU s, {peak:.0f} MiB"
    )
    sys.exit(bool(found.failures))

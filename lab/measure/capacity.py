"""What a job larger than one worker costs, in one process and in parts: `python -m lab.measure capacity [--lines
4000000]`.

Writes one log of many ranks, then reads and diagnoses it in one process, and again as the workers do: a call for each
range, one that joins them, one that diagnoses. Prints CPU seconds and peak memory of each, whether both reports are
equal, the share that no other worker can take, and a model of the time on more cores with its check: the ranges run in
one and in two processes, and the processor seconds of their calls are laid end to end as the processes took them, which
other programs on the machine do not change much. Each call is a process of its own; loading the engine is not counted,
as workers keep it loaded. With ``--parts-only`` there is no single process to compare with, ranges are read two at a
time, and the log repeats its first two hours: for the largest logs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnosis import ParseHints, merge, parse
from diagnosis.files import parsed as stored
from diagnosis.model import Kind
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from lab.measure.generate import write, write_long

_CORES = (1, 2, 16, 64, 256)
_PATH = "logs/all-ranks.log"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one call: seconds, CPU seconds, MiB of its process with the engine."""

    wall_s: float
    cpu_s: float
    peak_mib: float


class _Part:
    """``length`` bytes of a file from ``offset`` on, as a stream."""

    def __init__(self, path: Path, offset: int, length: int) -> None:
        self._file, self._left = path.open("rb"), length
        self._file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _read(log: Path, into: Path, offset: int, length: int) -> None:
    hints = ParseHints(kind=Kind.LOG, offset=offset)
    stored.save(parse(_Part(log, offset, length), _PATH, hints, into), into)  # type: ignore[arg-type]


def _join(into: Path, parts: list[str]) -> None:
    stored.save(merge([stored.load(Path(part)) for part in parts], into), into)


def _diagnose(log: Path, parsed: Path, out: Path) -> None:
    def read(_path: str, offset: int, length: int) -> bytes:
        with log.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    report = to_json(diagnose([stored.load(parsed)], read=read))
    out.write_text(json.dumps({name: report[name] for name in report if name != "inputs"}, sort_keys=True))


def _child(step: str, arguments: list[Any]) -> None:
    """One call in this process; prints its cost."""
    with tempfile.TemporaryDirectory() as name:  # compiled code is loaded at its first use that is not small
        folder, small = Path(name), Path(name) / "small.log"
        write(small, 5_000)
        for part in ("1", "2"):
            _read(small, folder / part, 0, small.stat().st_size)
        if step != "read":
            _join(folder / "joined", [str(folder / "1"), str(folder / "2")])
            _diagnose(small, folder / "1", folder / "report.json")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    wall, cpu = time.perf_counter(), time.process_time()
    steps: dict[str, Callable[..., None]] = {"read": _read, "join": _join, "diagnose": _diagnose}
    steps[step](*(Path(one) if isinstance(one, str) else one for one in arguments))
    cost = time.perf_counter() - wall, time.process_time() - cpu
    peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print(json.dumps([*cost, int(peak) / 1024]))


def _call(step: str, *arguments: Any) -> Cost:
    argv = [
        sys.executable,
        "-m",
        "lab.measure",
        "capacity",
        "--step",
        step,
        "--arguments",
        json.dumps(arguments, default=str),
    ]
    process = subprocess.run(argv, check=True, capture_output=True, text=True)
    return Cost(*json.loads(process.stdout.splitlines()[-1]))


def _cuts(log: Path, unit: int) -> Iterator[tuple[int, int]]:
    """Offset and length of each range of about ``unit`` bytes, cut at line ends."""
    size, at = log.stat().st_size, 0
    with log.open("rb") as file:
        while at < size:
            file.seek(min(at + unit, size))
            file.readline()
            yield at, file.tell() - at
            at = file.tell()


def _print_costs(name: str, costs: list[Cost]) -> None:
    wall_s, cpu_s = sum(cost.wall_s for cost in costs), sum(cost.cpu_s for cost in costs)
    peak = max(cost.peak_mib for cost in costs)
    print(f"{name:24} {len(costs):4} calls {cpu_s:8.1f} CPU s {wall_s:8.1f} s wall {peak:8.0f} MiB at most", flush=True)


def _makespan(costs: list[Cost], workers: int) -> float:
    """Processor seconds until all calls are done, each taken by the next free worker."""
    free = [0.0] * workers
    for cost in costs:
        free[free.index(min(free))] += cost.cpu_s
    return max(free)


def _largest_share(ranges: int, cores: int) -> float:
    """The share of the ranges' seconds that the busiest of ``cores`` workers has: ranges are taken whole."""
    return -(-ranges // cores) / ranges


def main() -> None:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lines", type=int, default=4_000_000)
    options.add_argument("--log", type=Path, help="an existing log instead; --lines is then its number of lines")
    options.add_argument("--unit", type=int, default=64 << 20, help="bytes of a range")
    options.add_argument("--parts-only", action="store_true", help="no comparison with one process")
    options.add_argument("--folder", type=Path, help="where the files are written; default: a temporary directory")
    options.add_argument("--step", help=argparse.SUPPRESS)
    options.add_argument("--arguments", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.step:
        _child(chosen.step, json.loads(chosen.arguments))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        log = chosen.log or Path(name) / "all-ranks.log"
        if chosen.log is None and chosen.parts_only:
            write_long(log, chosen.lines, 2)
        elif chosen.log is None:
            write(log, chosen.lines)
        _measure(Path(name), log, chosen.lines, chosen.unit, is_compared=not chosen.parts_only)


def _measure(folder: Path, log: Path, lines: int, unit: int, *, is_compared: bool) -> None:
    size = log.stat().st_size
    print(f"{lines:,} lines, {size / 1e9:.2f} GB", flush=True)
    single_process: list[Cost] = []
    if is_compared:
        single_process = [
            _call("read", log, folder / "whole", 0, size),
            _call("diagnose", log, folder / "whole", folder / "one"),
        ]
        for what, cost in zip(("one process: read", "one process: diagnose"), single_process, strict=True):
            _print_costs(what, [cost])
    cuts = list(_cuts(log, unit))
    costs_by_workers: dict[int, list[Cost]] = {}
    for workers in (1, 2) if is_compared else (2,):
        with ThreadPoolExecutor(workers) as pool:
            parts = [folder / f"{workers}-{number}" for number in range(len(cuts))]
            costs_by_workers[workers] = list(pool.map(lambda part, cut: _call("read", log, part, *cut), parts, cuts))
        _print_costs(f"ranges, {workers} at a time", costs_by_workers[workers])
    join = _call("join", folder / "joined", [str(part) for part in parts])
    _print_costs("join", [join])
    reduce = _call("diagnose", log, folder / "joined", folder / "many")
    _print_costs("diagnose", [reduce])
    ranges = costs_by_workers[min(costs_by_workers)]
    mapped, serial = sum(cost.cpu_s for cost in ranges), join.cpu_s + reduce.cpu_s
    if is_compared:
        is_equal = (folder / "one").read_bytes() == (folder / "many").read_bytes()
        ratio = (mapped + serial) / sum(cost.cpu_s for cost in single_process)
        print(f"reports are {'equal' if is_equal else 'DIFFERENT'}; CPU cost of parts: {ratio:.2f} of one process")
    share = serial / (mapped + serial)
    print(f"serial share: {share:.1%} ({serial / lines * 1e6:.2f} CPU s a million lines)")
    for cores in _CORES:
        wall = serial + mapped * _largest_share(len(cuts), cores)
        measured_text = ""
        if cores in costs_by_workers:
            measured = _makespan(costs_by_workers[cores], cores) + serial
            measured_text = f", measured {measured:.1f} s (the model is {wall / measured - 1:+.0%} off)"
        print(f"model, {cores:3} cores: {wall:8.1f} s{measured_text}")
    for million in (100, 500):
        count = round(len(cuts) / lines * million * 1e6)
        walls = [(mapped * _largest_share(count, cores) + serial) / lines * million * 1e6 for cores in _CORES]
        measured_text = ", ".join(f"{cores} cores {one:,.0f} s" for cores, one in zip(_CORES, walls, strict=True))
        print(f"model of {million} million such lines: {measured_text}")

"""Speed of the flow path: `python -m lab.measure flows_speed [--dp 64] [--steps 160] [--processes 2]`.

Makes the capture of one job (tp 8, pp 8, dp given; dp 64 is 4,096 GPUs), then times the CSV import, the whole analysis,
two timeline views and the pcap import. Prints wall and CPU seconds. Import and analysis have a process each; the most
memory of its own is looked at fifty times a second from outside. Mapped files come on top, which the system drops when
it needs the room. With ``--processes``, so many other processes do parts of the analysis, and the CPU seconds of each
function are printed. ``--data`` keeps the capture for the next call.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib
import io
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from diagnosis.evidence.inventory import machine_of
from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.capture import partitions
from diagnosis.kinds.flows.tell.engine import diagnose_flows
from diagnosis.model import ParseHints
from diagnosis.values.plain import plain
from lab.exams.flows.capture import Case, Spoil, build
from lab.exams.flows.tenants import Fabric, Tenant, span
from triage.flow_tables import timeline_view


def run_timed(label: str, call: Callable[[], Any], count: int | None = None) -> Any:
    """Runs and prints."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rate = f", {count / wall / 1e6:.2f} M/s wall, {count / cpu / 1e6:.2f} M/s CPU" if count else ""
    print(f"{label}: {wall:.2f} s wall, {cpu:.2f} s CPU{rate}", flush=True)
    return out


def run_apart(part: str, directory: str, *more: str) -> int:
    """Run one part in a process of its own; the most memory of its own that it had, in MiB, looked at from here."""
    child = subprocess.Popen([sys.executable, "-m", "lab.measure", "flows_speed", part, directory, *more])
    most = 0
    while child.poll() is None:
        with contextlib.suppress(OSError, IndexError):  # it ends meanwhile
            status = Path(f"/proc/{child.pid}/status").read_text()
            most = max(most, int(status.partition("RssAnon:")[2].split()[0]) >> 10)
        time.sleep(0.02)
    if child.returncode:
        raise SystemExit(child.returncode)
    return most


def generate(directory: Path, dp: int, steps: int) -> None:
    """Writes flows.csv and inventory.csv of one job of ``dp * 64`` GPUs."""
    tenant = Tenant(span(0, dp * 8), tp=8, pp=8, micro=8, steps=steps, seed=1)
    table, inventory, _ = build(Case("speed", Fabric(), (tenant,), Spoil(loss=0.01, split=0.02)))
    table.write_csv(directory / "flows.csv")
    pl.DataFrame(inventory).write_csv(directory / "inventory.csv")
    print(f"generated {table.height} records of {dp * 64} GPUs", flush=True)


def packets(count: int) -> bytes:
    """A pcap of RoCEv2-like packets between 64 addresses, 96 bytes captured of 4,170."""
    out = io.BytesIO()
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1))
    body = bytearray(96)
    body[12:14] = b"\x08\x00"
    body[14], body[23] = 0x45, 17
    body[36:38] = struct.pack(">H", 4791)
    for i in range(count):
        body[26:30] = bytes((10, 0, 0, i % 64 + 1))
        body[30:34] = bytes((10, 0, 1, i % 64 + 1))
        body[34:36] = struct.pack(">H", 49152 + i % 64)
        out.write(struct.pack("<IIII", 1_700_000_000 + i // 1_000_000, i % 1_000_000, 96, 4170))
        out.write(body)
    return out.getvalue()


def read(directory: Path) -> None:
    """The import, in this process; the result is kept for the analysis."""
    path = directory / "flows.csv"
    with path.open("rb") as stream:
        part = run_timed("CSV import", lambda: parse_flow(stream, path.name, ParseHints(), directory / "work"))
    (directory / "part.pickle").write_bytes(pickle.dumps(part))


@dataclass(slots=True)
class CountingRunner:
    """A runner on some processes that adds up the CPU seconds of the parts, by function. ``events``: the own CPU
    seconds at which parts began (-1), or the answer of one was needed, and the number of their step.
    """

    pool: ProcessPoolExecutor
    spent: dict[str, list[float]] = field(default_factory=dict)
    steps: list[list[float]] = field(default_factory=list)
    events: list[tuple[float, int, int]] = field(default_factory=list)
    is_far: bool = False

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        self.events.append((time.process_time(), len(self.steps), -1))
        self.steps.append([])
        found = self.pool.map(_count_cpu, repeat(function), parts, repeat(folder))
        return self._answers(function, len(self.steps) - 1, len(parts), found)

    def _answers(self, function: str, step: int, many: int, found: Iterator[tuple[bytes, float]]) -> Iterator[bytes]:
        for number in range(many):
            self.events.append((time.process_time(), step, number))
            answer, cpu_s = next(found)
            self.steps[step].append(cpu_s)
            self.spent.setdefault(function, []).append(cpu_s)
            yield answer

    def laid_s(self, began: float, ended: float, workers: int) -> float:
        """Seconds until the end if the CPU seconds of all calls were laid end to end on so many processes, parts in the
        order in which they began: what other programs on this machine do changes it little.
        """
        free, done, at, before = [0.0] * workers, {}, 0.0, began
        for moment, step, number in self.events:
            at, before = at + moment - before, moment
            if number >= 0:
                at = max(at, done[step, number])
                continue
            for part, cpu_s in enumerate(self.steps[step]):
                first = free.index(min(free))
                free[first] = done[step, part] = max(free[first], at) + cpu_s
        return at + ended - before

    def print_costs(self, began: float, ended: float) -> None:
        """Prints what each function cost, the share that only one process can do, and a model of the time."""
        own_s = ended - began
        for name, each in sorted(self.spent.items(), key=lambda item: -sum(item[1])):
            print(
                f"  {name.removeprefix('diagnosis.kinds.flows.'):36} {len(each):4} parts {sum(each):8.2f} CPU s",
                flush=True,
            )
        parts_s = sum(map(sum, self.spent.values()))
        whole = own_s + parts_s
        print(f"  parts {parts_s:.2f}, the rest {own_s:.2f}, together {whole:.2f} CPU s; serial {own_s / whole:.1%}")
        laid = ", ".join(f"{n}: {self.laid_s(began, ended, n):.1f}" for n in (1, 2, 4, 16, 64))
        print(f"  seconds with so many processes for parts, by CPU seconds laid end to end: {laid}", flush=True)


def _count_cpu(function: str, part: bytes, folder: Path) -> tuple[bytes, float]:
    began = time.process_time()
    return partitions.run_part(function, part, folder), time.process_time() - began


def analyse(directory: Path, processes: int) -> None:
    """Analysis and views, in this process; parts of it in others, if there are any."""
    part = pickle.loads((directory / "part.pickle").read_bytes())  # written by `read`
    inventory = list(map(machine_of, csv.DictReader((directory / "inventory.csv").open())))
    given: dict[str, Any] = {"inventory": inventory, "tables": directory / "tables"}
    with ProcessPoolExecutor(processes or 1, get_context("spawn"), initializer=_loaded) as pool:
        list(pool.map(abs, range(processes)))  # they are loaded before the analysis
        runner = CountingRunner(pool) if processes else None
        began = time.process_time()
        found = run_timed("analysis", lambda: diagnose_flows([part], runner=runner, **given))
        if runner is not None:
            runner.print_costs(began, time.process_time())
    report = msgspec.to_builtins(found, enc_hook=plain)
    for job in report["jobs"]:
        print(
            f"  {len(job['members'])} members, {job['parallelism']}, {len(job['steps'])} steps, "
            f"{len(job['diagnoses'])} findings"
        )
        table = directory / "tables" / job["table"]
        t0, t1 = job["steps"][0]["start"], job["steps"][-1]["end"]
        run_timed("  view of the whole job", lambda table=table, t0=t0, t1=t1: timeline_view(table, t0, t1, 400))
        near = t0 + 3 * (t1 - t0) / len(job["steps"])
        run_timed("  view of three steps", lambda table=table, t0=t0, near=near: timeline_view(table, t0, near, 400))
    print(f"  at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB with mapped files")


def _loaded() -> None:
    importlib.import_module("diagnosis.kinds.flows.tell.engine")


def main() -> None:
    """Generates, imports and analyses in separate processes, so that none adds to another's memory."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dp", type=int, default=16)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--packets", type=int, default=1_000_000)
    options.add_argument(
        "--processes", type=int, default=0, help="that do parts of the analysis; default: none beside it"
    )
    options.add_argument("--data", type=Path, help="keep what is generated and imported here, or take it from here")
    options.add_argument("--generate", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--analyse", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.read:
        read(chosen.read)
        return
    if chosen.analyse:
        _loaded()
        analyse(chosen.analyse, chosen.processes)
        return
    if chosen.generate:
        generate(chosen.generate, chosen.dp, chosen.steps)
        return
    with tempfile.TemporaryDirectory() if chosen.data is None else nullcontext(str(chosen.data)) as directory:
        sizes = ["--dp", str(chosen.dp), "--steps", str(chosen.steps)]
        if not (Path(directory) / "part.pickle").exists():
            Path(directory).mkdir(exist_ok=True)
            run_apart("--generate", directory, *sizes)
            print(f"  at most {run_apart('--read', directory)} MiB of its own", flush=True)
        most = run_apart("--analyse", directory, "--processes", str(chosen.processes))
        print(f"  at most {most} MiB of its own", flush=True)
        if chosen.data is not None:
            return
        data, work = packets(chosen.packets), Path(directory) / "pcap"
        run_timed("pcap import", lambda: parse_flow(io.BytesIO(data), "x.pcap", ParseHints(), work), chosen.packets)

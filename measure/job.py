"""Diagnoses one big made-up job: `python -m measure job [--nodes 2048] [--lines 19500] [--parts 1]`.

Prints seconds and peak memory.
Every node writes one file of `--lines` lines; on one of them a GPU falls off the bus, the others time out ten minutes
later. Parsing and diagnosis are timed apart, wall and CPU seconds of both; `--parts 1,2,4` repeats with a half and a
quarter of the nodes.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from diagnosis.model import Parsed, ParseHints
from diagnosis.parsing import parse
from diagnosis.pipeline import diagnose

T0 = 1_760_000_000.0
XID = "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4243, name=python3, GPU has fallen off the bus."


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(T0 + at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def template(lines: int) -> str:
    """The text of one node; ``@NODE@`` and ``@RANK@`` stand for its name and first rank."""
    out = []
    for k in range(lines):
        at, turn = 0.5 * k, k % 10
        if turn == 0:
            text = f"[rank@RANK@]: iteration {k // 10:8d}/  500000 | elapsed time per iteration (ms): 5012.5 "
            text += f"| global batch size: 2048 | lm loss: 2.2E+00 | grad norm: {k % 97 / 50:.3f} |"
        elif turn < 4:
            text = f"@NODE@:2134:{2200 + k % 9} [{turn}] NCCL INFO Channel {k % 32:02d}/0 "
            text += f": {k % 512}[{turn}] -> 7[1] via NET/IB/{k % 8}/GDRDMA/Shared comm 0x{k * 977:012x} busId 9b000"
        elif turn < 7:
            text = f"dataloader: rank @RANK@ prefetch depth {k % 16}, "
            text += f"shard /data/corpus/part-{k % 4096:05d}.bin offset {k * 977} waited {k % 90} ms for worker {k % 8}"
        else:
            text = f"gpu-mon: gpu={turn} temp={50 + k % 20}C power={500 + k % 99}W util=100% "
            text += f"sm_clk=1755MHz mem={60000 + k % 999}MiB pcie_rx={k % 977} pcie_tx={k % 499} ecc=0 retired=0"
        out.append(f"{_stamp(at)} {text}")
    return "\n".join(out) + "\n"


def write(directory: Path, nodes: int, lines: int) -> int:
    """Write the job's files; returns their bytes."""
    text, end, total = template(lines), 0.5 * lines, 0
    late = "".join(
        f"{_stamp(end + 600)} [rank@RANK@]:[E1010 10:10:10.1 ProcessGroupNCCL.cpp:632] [Rank @RANK@] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
        for n in (812,)
    )
    for number in range(nodes):
        body = text + (f"{_stamp(end + 1)} {XID}\n" if number == nodes // 3 else late)
        data = body.replace("@NODE@", f"gpu-{number:04d}").replace("@RANK@", str(number)).encode()
        (directory / f"gpu-{number:04d}.log").write_bytes(data)
        total += len(data)
    return total


@dataclass(frozen=True)
class Measured:
    """Seconds and CPU seconds of both halves, the peak memory of the process so far, and what was found."""

    bytes: int
    parse_s: float
    parse_cpu_s: float
    diagnose_s: float
    diagnose_cpu_s: float
    peak_mib: float
    accused: list[str]
    headline: str


def measure(nodes: int, lines: int) -> Measured:
    """Write, parse, diagnose."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "logs").mkdir()
        size = write(base / "logs", nodes, lines)
        parsed: list[Parsed] = []
        wall, cpu = time.perf_counter(), time.process_time()
        for path in sorted((base / "logs").iterdir()):
            with path.open("rb") as stream:
                parsed.append(parse(stream, f"logs/{path.name}", ParseHints(), base / "work" / path.stem))
        parse_s, parse_cpu_s = time.perf_counter() - wall, time.process_time() - cpu

        def read(path: str, offset: int, length: int) -> bytes:
            with (base / path).open("rb") as stream:
                stream.seek(offset)
                return stream.read(length)

        wall, cpu = time.perf_counter(), time.process_time()
        told = diagnose(parsed, read=read)
        return Measured(
            size,
            parse_s,
            parse_cpu_s,
            time.perf_counter() - wall,
            time.process_time() - cpu,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
            [n.node for n in told.logs.nodes if n.is_suspect] if told.logs else [],
            told.headline,
        )


def run(nodes: int, lines: int) -> None:
    """One printed line."""
    found = measure(nodes, lines)
    print(
        f"{nodes} nodes, {nodes * lines:,} lines, {found.bytes / 1e9:.2f} GB: "
        f"parse {found.parse_s:.1f} s ({found.parse_cpu_s:.1f} CPU), "
        f"diagnose {found.diagnose_s:.1f} s ({found.diagnose_cpu_s:.1f} CPU), peak {found.peak_mib:,.0f} MiB, "
        f"accused {found.accused}: {found.headline[:160]}",
        flush=True,
    )


def main() -> None:
    """Run the sizes asked for, the smallest first."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=2048)
    options.add_argument("--lines", type=int, default=19_500)
    options.add_argument("--parts", default="1")
    chosen = options.parse_args()
    for part in sorted((int(p) for p in chosen.parts.split(",")), reverse=True):
        run(chosen.nodes // part, chosen.lines)

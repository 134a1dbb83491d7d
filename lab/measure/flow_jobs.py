"""The command line on one capture of six jobs: ``python -m lab.measure flow_jobs [--copies 6] [--processes 2]``.

Jobs of 128 to 2,048 GPUs, 4,096 together, in one Parquet with groups of a million records in no order. A copy is about
2.5 M records (34 steps); each further one goes on where the one before ended, so a capture of any length is written
with the memory of one copy: 6 copies are the 15 M records of the goal, 40 are 100 M. Prints wall and CPU seconds and
the memory of its processes, and what was found. ``--data`` keeps the capture for
the next call; ``--report`` writes the report there, to compare it with another checkout's. ``--most-cpu-s 4`` makes the
command fail if a million records took more CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import polars as pl

from lab.exams.flows.capture import Case, Spoil, build
from lab.exams.flows.tenants import Fabric, Tenant, span
from lab.measure.usage import Usage, run

#: Replicas of each job; a replica is 8 stages of 8 tensor ranks.
REPLICAS = (32, 16, 8, 4, 2, 2)
STEPS = 34
GROUP_ROWS = 1 << 20
CAPTURE, INVENTORY = "flows.parquet", "inventory.csv"


def tenants(steps: int) -> list[Tenant]:
    """The jobs, on machines of their own, each with its own pace."""
    found, first = [], 0
    for number, replicas in enumerate(REPLICAS):
        nodes = span(first, replicas * 8)
        pace = 0.015 + 0.0007 * number
        found.append(Tenant(nodes, tp=8, pp=8, micro=8, steps=steps, forward=pace, seed=number + 1))
        first += len(nodes)
    return found


def write(folder: Path, copies: int, steps: int = STEPS) -> int:
    """Writes the capture and its inventory; returns the number of records."""
    parts, machines = [], []
    for tenant in tenants(steps):
        table, inventory, truth = build(Case("speed", Fabric(), (tenant,), Spoil(loss=0.01, split=0.02)))
        begins = truth["jobs"][0]["steps"]["compute_start"]
        period = (begins[-1] - begins[0]) * len(begins) / (len(begins) - 1)
        parts.append(table.with_columns(period=pl.lit(period)))
        machines += inventory
    pl.DataFrame(machines).write_csv(folder / INVENTORY)
    block = pl.concat(parts).sample(fraction=1.0, shuffle=True, seed=1)
    parts.clear()
    block.write_parquet(folder / "block.parquet", row_group_size=GROUP_ROWS)
    one = pl.scan_parquet(folder / "block.parquet")
    each = [one.with_columns(pl.col("start_time") + copy * pl.col("period")) for copy in range(copies)]
    pl.concat(each).drop("period").sink_parquet(folder / CAPTURE, row_group_size=GROUP_ROWS)
    (folder / "block.parquet").unlink()
    return block.height * copies


def analyse(folder: Path, processes: int, memory_mb: int, former: Path | None) -> Usage:
    """The command line on the capture; ``former``: with the engine of another checkout."""
    argv = [sys.executable, "-m", "diagnosis", folder / CAPTURE, "--inventory", folder / INVENTORY, "--json"]
    argv += ["--memory-mb", memory_mb] if memory_mb else []
    root = (former or Path.cwd()).resolve()
    own = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:processes]))]
    return run(["env", f"--chdir={root}", *own, *map(str, argv)])


def main() -> None:
    """One line of costs, and a line of each job."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--copies", type=int, default=6)
    options.add_argument("--processes", type=int, default=2, help="cores that the command may use")
    options.add_argument("--memory-mb", type=int, default=0, help="that each of the command's processes may have")
    options.add_argument("--data", type=Path, help="keep the capture here, or take it from here")
    options.add_argument("--report", type=Path, help="write the report here")
    options.add_argument("--former", type=Path, help="a checkout whose engine is measured instead")
    options.add_argument("--most-cpu-s", type=float, help="a million records, with the start of the program")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() if chosen.data is None else nullcontext(str(chosen.data)) as name:
        folder = Path(name).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / CAPTURE).exists():
            write(folder, chosen.copies)
        records = pl.scan_parquet(folder / CAPTURE).select(pl.len()).collect().item()
        cost = analyse(folder, chosen.processes, chosen.memory_mb, chosen.former)
    print(
        f"{records / 1e6:.2f} M records: {cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} CPU s, {cost.peak_mib:,.0f} MiB "
        f"of all processes, {cost.largest_mib:,.0f} MiB of the largest",
        flush=True,
    )
    report = json.loads(cost.output)
    print(*report["missing"], sep="\n")
    for job in report.get("flows", {}).get("jobs", ()):
        print(f"  {len(job['members'])} members, {job['parallelism']}, {len(job['steps'])} steps")
    if chosen.report is not None:
        chosen.report.write_text(cost.output)
    million_cpu_s = cost.cpu_s / records * 1e6
    if chosen.most_cpu_s and million_cpu_s > chosen.most_cpu_s:
        sys.exit(f"A million records took {million_cpu_s:.1f} CPU s, allowed are {chosen.most_cpu_s:.1f}.")

"""Whether what is slow in a whole capture is named: `python -m lab.measure lasting [--seed N] [--count N]`.

One port, leaf, machine or pair is slow from the first step to the last, or nobody is. Printed for each kind of fault:
captures in which it is named first, another is named first, nobody is, and more than two are.
"""

from __future__ import annotations

import argparse
import io
from collections import Counter
from typing import Any

from lab.exams.flows.lasting import FAULTS, QUIET, Shape, World, build, shape, suspects
from lab.measure.flows import Capture, answer


def first_named(report: dict[str, Any]) -> list[set[str]]:
    """Of the suspects that are accused, the names of each: the most probable first."""
    rows = sorted((row for row in report["suspects"] if row.get("suspect")), key=lambda row: -row["score"])
    return [set(row["entity"].split("-")) if row["kind"] == "link" else {row["entity"]} for row in rows]


def verdict(report: dict[str, Any], allowed: list[set[str]], world: World) -> str:
    """How the answer is to be called."""
    named = first_named(report)
    if not named:
        return "nobody" if allowed or world.like.fault in FAULTS else "right"
    if any(one & names for one in allowed for names in named[:1]):
        return "right"
    return "wrong"


def main() -> int:
    """Prints the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--count", type=int, default=8, help="captures of each fault")
    options.add_argument("--fault", choices=(*FAULTS, *QUIET), action="append", help="default: all")
    options.add_argument("--quiet", action="store_true", help="only the sums")
    chosen = options.parse_args()
    sums: Counter[tuple[str, str]] = Counter()
    faults = chosen.fault or (*FAULTS, *QUIET)
    for fault in faults:
        for seed in range(chosen.seed, chosen.seed + chosen.count):
            like = shape(seed, fault)
            said, line = judge(like)
            sums[fault, said] += 1
            if not chosen.quiet:
                print(line, flush=True)
    print(f"{'':10}{'right':>7}{'nobody':>8}{'wrong':>7}{'untold':>8}")
    for fault in faults:
        print(f"{fault:10}" + "".join(f"{sums[fault, one]:8}" for one in ("right", "nobody", "wrong", "untold")))
    return 0


def judge(like: Shape) -> tuple[str, str]:
    """What the answer to one capture is to be called, and a line on it."""
    table, inventory, world = build(like)
    allowed = suspects(world)
    buffer = io.BytesIO()
    table.write_csv(buffer)
    report, records, seconds = answer(Capture(like.name, "flows.csv", buffer.getvalue(), inventory, {}))
    said = verdict(report, allowed, world)
    if like.fault in FAULTS and not allowed and said == "nobody":
        said = "untold"
    wanted = "/".join(sorted(*allowed)) if allowed else "-"
    named = [(row["entity"], row["score"]) for row in report["suspects"][:3]]
    size = f"{like.replicas}x{like.stages}x{like.lanes} {like.leaves}L {'c' if like.chunks else 'w'} {like.waits}"
    noisy = f"x{like.strength:.1f} cross {like.cross} noise {like.noise}"
    return said, f"{like.name:24}{said:8}{records:8}{seconds:6.1f} wanted {wanted:16} {named} {size} {noisy}"

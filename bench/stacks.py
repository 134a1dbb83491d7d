"""Figures of the stack analysis: practice and recorded sets scored, and 4,096 ranks timed.

    python -m bench.stacks            # truth-scored sets (skipped where FAULTLINE_SHARED has none)
    python -m bench.stacks --ranks 4096 [--bundle]

Simulated sets come from the tests' simulator, which plays out who waits for whom; they are other seeds at every run
of ``--seed``.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnosis.model import Kind, Parsed, ParseHints
from diagnosis.stacks import diagnose_stacks, parse_stack, sniff
from tests.diagnosis.stacks import simulate

SHARED = Path(os.environ.get("FAULTLINE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
HELPERS = '\nThread 9 (idle): "Thread-1 (_pin_memory_loop)"\n' + "".join(
    f"    {f}\n"
    for f in (
        "select (selectors.py:416)",
        "wait (multiprocessing/connection.py:931)",
        "get (multiprocessing/queues.py:113)",
        "_pin_memory_loop (torch/utils/data/_utils/pin_memory.py:55)",
        "run (threading.py:953)",
        "_bootstrap (threading.py:973)",
    )
)


def f1(found: set[Any], truth: set[Any]) -> float:
    hit = len(found & truth)
    return 2 * hit / (len(found) + len(truth)) if found or truth else 1.0


def practice() -> Iterator[tuple[str, list[Parsed], dict[str, Any]]]:
    for path in sorted((SHARED / "data" / "practice" / "stacks").glob("*.zip")):
        parsed = []
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                if name.endswith("layout.json"):
                    parsed.append(Parsed(path=name, kind=Kind.LAYOUT, facts={"json": json.loads(data)}))
                elif sniff(data[:65536], name):
                    parsed.append(parse_stack(io.BytesIO(data), name, ParseHints(), Path()))
        yield path.stem, parsed, json.loads((SHARED / "data/practice/truth/stacks" / f"{path.stem}.json").read_text())


def simulated(count: int, seed: int) -> Iterator[tuple[str, list[Parsed], dict[str, Any]]]:
    rng = random.Random(seed)
    layouts = [
        {"tp": 2, "pp": 4, "dp": 4},
        {"tp": 4, "pp": 2, "dp": 8},
        {"tp": 8, "pp": 1, "dp": 8},
        {"tp": 1, "pp": 1, "dp": 16},
        {"tp": 4, "cp": 2, "pp": 4, "dp": 2},
        {"tp": 8, "pp": 8, "dp": 1},
    ]
    for at in range(count):
        sizes = rng.choice(layouts)
        order = rng.choice(["tp-cp-dp-pp", "tp-cp-ep-pp-dp"])
        world = 1
        for n in sizes.values():
            world *= n
        culprits = set(rng.sample(range(world), rng.choice([1, 1, 2])))
        case = simulate.hang(
            sizes, order, culprits, rng.choice([*simulate.CULPRITS, "dead"]), rng.choice(list(simulate.FRAMES))
        )
        form = rng.choice(["pyspy", "json", "faulthandler", "pystack", "pdsh", "label"])
        has_layout = rng.random() < 0.5
        # Task labels name ranks but no nodes: without a layout nobody could tell them.
        nodes = sorted(case.culprit_nodes) if has_layout or form != "label" else []
        truth = {"suspect_ranks": sorted(case.culprits), "suspect_nodes": nodes}
        yield f"sim{at}", simulate.dumps(case, form, layout=has_layout), truth


def score(sets: Iterator[tuple[str, list[Parsed], dict[str, Any]]], *, show: bool) -> dict[str, float]:
    rows = []
    for name, parsed, truth in sets:
        got = diagnose_stacks(parsed)
        ranks, nodes = set(truth["suspect_ranks"]), set(truth["suspect_nodes"])
        row = {
            "rank_f1": f1(set(got["suspect_ranks"]), ranks),
            "node_f1": f1(set(got["suspect_nodes"]), nodes),
            "evict_covers": float(ranks <= set(got["evict_ranks"])),
            "evict_ranks": float(len(got["evict_ranks"])),
        }
        rows.append(row)
        if show or row["rank_f1"] < 1:
            print(f"  {name}: {row}  {got['reason'][:160]}")
    return {k: round(sum(r[k] for r in rows) / len(rows), 4) for k in rows[0]} if rows else {}


def time_ranks(world: int, *, bundle: bool) -> dict[str, Any]:
    """Parse and diagnose one job of ``world`` ranks with two threads each, cut as it is uploaded: a file a rank, or
    one a node."""
    case = simulate.hang({"tp": 8, "pp": 8, "dp": world // 64}, "tp-dp-pp", {world // 3}, "kernel")
    files: dict[str, list[str]] = {}
    for rank, stack in case.stacks.items():
        name = f"stacks/trace-{case.nodes[rank]}.out" if bundle else f"stacks/{case.nodes[rank]}/rank-{rank:05d}.txt"
        files.setdefault(name, []).append(simulate.pyspy_text(stack, 40000 + rank) + HELPERS + "\n")
    data = {name: "".join(parts).encode() for name, parts in files.items()}
    before, wall, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter(), time.process_time()
    parsed = [parse_stack(io.BytesIO(d), n, ParseHints(), Path()) for n, d in data.items()]
    middle = time.process_time()
    got = diagnose_stacks(parsed, layout={**case.layout.sizes, "order": "tp-dp-pp", "world_size": world})
    return {
        "ranks": world,
        "files": len(data),
        "mb": round(sum(map(len, data.values())) / 1e6, 1),
        "wall_s": round(time.perf_counter() - wall, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "parse_cpu_s": round(middle - cpu, 2),
        "right": got["suspect_ranks"] == [world // 3],
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "rss_before_mb": before // 1024,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, default=0)
    options.add_argument("--bundle", action="store_true")
    options.add_argument("--simulated", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--show", action="store_true")
    chosen = options.parse_args()
    if chosen.ranks:
        print(json.dumps(time_ranks(chosen.ranks, bundle=chosen.bundle)))
        return 0
    print("practice ", score(practice(), show=chosen.show) or f"skipped: nothing in {SHARED / 'data/practice/stacks'}")
    print("simulated", score(simulated(chosen.simulated, chosen.seed), show=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

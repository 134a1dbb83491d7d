"""Figures of the stack analysis on hangs of known truth.

    python -m lab.measure stacks [--seeds 6] [--only NAME] [--show]   # the exam: open and held-out hangs
    python -m lab.measure stacks --practice                           # the practice set (needs FAULTLINE_SHARED)
    python -m lab.measure stacks --wide 3                             # 12 jobs of 512 ranks, one stuck on its device
    python -m lab.measure stacks --ranks 4096 [--bundle]              # time and memory of one large job

Frames, tools and launchers of the exam were written from their public sources, without reading the rules of the
analysis. The first held-out part was read once, after its figure was taken; the second was never used for corrections.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnosis.evidence import StackFinding, decode
from diagnosis.kinds.stacks import diagnose_stacks, parse_stack, sniff
from diagnosis.model import Kind, Parsed, ParseHints
from lab.exams.stacks.exam import PARTS, Dumps, exam, large, wide
from lab.measure.evidence import SHARED


def f1(found: set[Any], truth: set[Any]) -> float:
    """Harmonic mean of precision and recall; 1 where both are empty."""
    hit = len(found & truth)
    return 2 * hit / (len(found) + len(truth)) if found or truth else 1.0


def practice() -> Iterator[Dumps]:
    """The practice set."""
    base = SHARED / "data" / "practice"
    for path in sorted((base / "stacks").glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        layout = next((json.loads(files.pop(n)) for n in list(files) if n.endswith("layout.json")), None)
        truth = json.loads((base / "truth" / "stacks" / f"{path.stem}.json").read_text())
        ranks, nodes = set(truth["suspect_ranks"]), set(truth["suspect_nodes"])
        yield Dumps(path.stem, "practice", "", files, layout, ranks, nodes)


def read(dumps: Dumps) -> tuple[list[Parsed], list[str]]:
    """The artifacts, and the files in which nothing was read."""
    parsed, missed = [], []
    for path, data in dumps.files.items():
        part = parse_stack(io.BytesIO(data), path, ParseHints(), Path()) if sniff(data[:65536], path) else None
        if part is None or not any(part.facts.get(kind) for kind in ("dumps", "flight_recorder", "ras")):
            missed.append(path)
        parsed += [part] if part else []
    if dumps.layout:
        parsed.append(Parsed(path="layout.json", kind=Kind.LAYOUT, facts={"json": dumps.layout}))
    return parsed, missed


def score(dumps: Dumps) -> tuple[dict[str, float], str]:
    """The figures of one hang, and a sentence on what was found."""
    parsed, missed = read(dumps)
    report = diagnose_stacks(parsed)
    got = decode(report, StackFinding)
    row = {
        "rank_f1": f1(set(got.suspect_ranks), dumps.ranks),
        "node_f1": f1(set(got.suspect_nodes), dumps.nodes),
        "covered": float(dumps.ranks <= set(report.evict_ranks if report else ())),
        "misread": float(len(missed)),
    }
    told = f"want {sorted(dumps.ranks)[:8]} {sorted(dumps.nodes)[:2]} got {list(got.suspect_ranks[:8])}"
    told += f" {list(got.suspect_nodes[:3])} {(got.reason or 'nothing read')[:110]}"
    return row, f"{dumps.form}; {told}"


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Mean of every figure."""
    return {k: round(sum(r[k] for r in rows) / len(rows), 3) for k in rows[0]} if rows else {}


def speed(world: int, *, bundled: bool) -> dict[str, Any]:
    """Parse and diagnose one job of ``world`` ranks, with a file a rank, or one a node."""
    dumps = large(world, bundled=bundled)
    before, wall, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter(), time.process_time()
    parsed = [parse_stack(io.BytesIO(data), path, ParseHints(), Path()) for path, data in dumps.files.items()]
    middle = time.process_time()
    got = diagnose_stacks(parsed, layout=dumps.layout)
    return {
        "ranks": world,
        "files": len(dumps.files),
        "mb": round(sum(map(len, dumps.files.values())) / 1e6, 1),
        "wall_s": round(time.perf_counter() - wall, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "parse_cpu_s": round(middle - cpu, 2),
        "right": got is not None and set(got.suspect_ranks) == dumps.ranks,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "rss_before_mb": before // 1024,
    }


def main() -> None:
    """Print the requested figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--practice", action="store_true")
    options.add_argument("--ranks", type=int, default=0)
    options.add_argument("--bundle", action="store_true")
    options.add_argument("--wide", type=int, default=0, metavar="SEEDS", help="jobs of 512 ranks, four a seed")
    options.add_argument("--seeds", type=int, default=6)
    options.add_argument("--only", default="")
    options.add_argument("--show", action="store_true", help="the open hangs that fall short")
    options.add_argument("--show-held-out", action="store_true", help="also the held-out ones")
    chosen = options.parse_args()
    if chosen.ranks:
        print(json.dumps(speed(chosen.ranks, bundled=chosen.bundle)))
        return
    start = time.process_time()
    rows: dict[str, list[dict[str, float]]] = {part: [] for part in ("practice", *PARTS)}
    jobs = wide(chosen.wide) if chosen.wide else exam(chosen.seeds, chosen.only)
    for dumps in practice() if chosen.practice else jobs:
        row, told = score(dumps)
        rows[dumps.part].append(row)
        is_shown = chosen.show_held_out or (chosen.show and "held out" not in dumps.part)
        if is_shown and (min(row["rank_f1"], row["node_f1"], row["covered"]) < 1 or row["misread"]):
            numbers = f"{row['rank_f1']:.2f} {row['node_f1']:.2f} {row['covered']:.0f} {row['misread']:.0f}"
            print(f"  {dumps.name}: {numbers}  {told}")
    for part, found in rows.items():
        if found:
            print(f"{part:17} {len(found):4} {mean(found)}")
    print(f"{time.process_time() - start:.1f} CPU s")

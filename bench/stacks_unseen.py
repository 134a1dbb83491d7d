"""An exam of the stack analysis on hangs, tools and launchers that its simulator does not know.

    python -m bench.stacks_unseen [--seeds 6] [--only NAME] [--show]

Frames come from ``bench.stacks_frames``, written from the frameworks' sources without a look at the analysis's rules;
dumps from ``bench.stacks_forms``. Each kind of hang is drawn with several seeds: layout, order, culprits, names of
nodes, tool, bundle, with and without a layout file. Two hold-outs are scored apart: the first was looked at once,
after its figure was taken; the second (``bench.stacks_late``) was written after that and never mended on.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from bench.stacks import f1
from bench.stacks_cases import CASES, HELD_OUT, LATE, NODES, Hang
from bench.stacks_forms import BUNDLES, TOOLS, bundle
from bench.stacks_recorders import RECORDERS
from diagnosis.model import Kind, Parsed, ParseHints
from diagnosis.stacks import diagnose_stacks, parse_stack, sniff

#: Tools that say where one process ends, so that dumps may follow each other in one file.
GLUED = ("pyspy", "pyspy-native", "pyspy-locals")


def write(hang: Hang, rng: random.Random) -> tuple[list[Parsed], list[str], str, bool]:
    """The case as uploaded: artifacts, files that nothing reads, the form, and whether nodes can be told."""
    by_python = len({p.kind for ps in hang.procs.values() for p in ps}) > 1 and set(hang.sizes) == {"dp"}
    tools = hang.tools or tuple(t for t in TOOLS if t != "gdb" or by_python)
    tool = rng.choice(tools)
    forms = [
        b
        for b in BUNDLES
        if tool in GLUED
        or b in {"host/rank", "host/pid", "host-rank.name", "rank only", "srun --label", "mpirun --tag-output"}
    ]
    form = rng.choice([f for f in forms if not hang.needs_rank or "rank" in f or "label" in f])
    hang.node_names = rng.choice(NODES)
    has_layout = bool(hang.told) or rng.random() < 0.6 or (hang.needs_rank and "label" in form)
    if hang.framework in {"megatron", "nemo"}:
        sizes = hang.sizes
        told = f" --tensor-model-parallel-size {sizes.get('tp', 1)} --pipeline-model-parallel-size {sizes.get('pp', 1)}"
        told += f" --context-parallel-size {sizes.get('cp', 1)}" + f" --expert-model-parallel-size {sizes.get('ep', 1)}"
        for proc in (p for ps in hang.procs.values() for p in ps):
            proc.command = "/usr/bin/python3 -u pretrain_gpt.py" + told
    join = "\n" + "-" * 80 + "\n"
    texts = {r: join.join(TOOLS[tool](p) for p in ps) for r, ps in sorted(hang.procs.items())}
    pids = {r: ps[0].pid for r, ps in hang.procs.items()}
    files = bundle(form, texts, {r: hang.node(r) for r in texts}, pids, rng)
    parsed, missed = [], []
    for path, text in files.items():
        data = text.encode()
        if tool.startswith("json"):
            path = path.rsplit(".", 1)[0] + ".json"
        kind = sniff(data[:65536], path)
        artifact = parse_stack(io.BytesIO(data), path, ParseHints(), Path()) if kind else None
        missed += [path] if artifact is None or not artifact.facts.get("dumps") else []
        parsed += [artifact] if artifact else []
    if has_layout:
        rows = [{"rank": r, "node": hang.node(r), "pid": pids.get(r, 30999)} for r in range(hang.world)]
        layout = {**(hang.told or hang.sizes), "order": hang.order, "world_size": hang.world, "ranks": rows}
        parsed.append(Parsed(path="layout.json", kind=Kind.LAYOUT, facts={"json": layout}))
    nodes_known = has_layout or form not in {"rank only", "srun --label", "mpirun --tag-output"}
    return parsed, missed, f"{tool} / {form}{' / layout' if has_layout else ''}", nodes_known


def exam(seeds: int, only: str) -> Iterator[tuple[str, dict[str, float], str]]:
    for name, make in {**CASES, **RECORDERS, **LATE}.items():
        if only and only not in name:
            continue
        for seed in range(seeds):
            rng = random.Random(zlib.crc32(f"{name} {seed}".encode()))
            made = make(rng)
            if isinstance(made, Hang):
                parsed, missed, form, nodes_known = write(made, rng)
                ranks, nodes = made.culprits, {made.node(r) for r in made.culprits} if nodes_known else set()
            else:
                parsed, ranks, nodes, form = made
                missed = [
                    p.path for p in parsed if p.kind == Kind.STACK and not set(p.facts) & {"flight_recorder", "ras"}
                ]
            got = diagnose_stacks(parsed)
            row = {
                "rank_f1": f1(set(got.get("suspect_ranks", ())), ranks),
                "node_f1": f1(set(got.get("suspect_nodes", ())), nodes),
                "covered": float(ranks <= set(got.get("evict_ranks", ()))),
                "misread": float(len(missed)),
            }
            told = f"want {sorted(ranks)[:8]} {sorted(nodes)[:2]} got {got.get('suspect_ranks', [])[:8]}"
            told += f" {got.get('suspect_nodes', [])[:3]} {got.get('reason', 'nothing read')[:110]}"
            yield name, row, f"{form}; {told}"


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {k: round(sum(r[k] for r in rows) / len(rows), 3) for k in rows[0]} if rows else {}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=6)
    options.add_argument("--only", default="")
    options.add_argument("--show", action="store_true", help="the cases that fall short")
    options.add_argument("--show-held-out", action="store_true", help="also those that no rule is mended on")
    chosen = options.parse_args()
    start = time.process_time()
    rows: dict[str, list[dict[str, float]]] = {"mended on": [], "held out, first": [], "held out, second": []}
    for name, row, told in exam(chosen.seeds, chosen.only):
        part = "held out, second" if name in LATE else "held out, first" if name in HELD_OUT else "mended on"
        rows[part].append(row)
        is_shown = chosen.show and (part == "mended on" or chosen.show_held_out)
        if is_shown and (row["rank_f1"] < 1 or row["node_f1"] < 1 or row["covered"] < 1 or row["misread"]):
            told = f"{row['rank_f1']:.2f} {row['node_f1']:.2f} {row['covered']:.0f} {row['misread']:.0f}  {told}"
            print(f"  {name}: {told}")
    for part, scored in rows.items():
        print(f"{part:17} {len(scored):4} {mean(scored)}")
    print(f"{time.process_time() - start:.1f} CPU s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every kind of hang, drawn with seeds: layout, order, culprits, names of nodes, tool, bundle, with or without a layout
file."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.exams.stacks.cases import CASES, HELD_OUT, LATE, NODES, Hang, simulate
from lab.exams.stacks.forms import BUNDLES, TOOLS, bundle
from lab.exams.stacks.frames import STOPS
from lab.exams.stacks.recorders import RECORDERS

#: Tools that mark the end of a process, so that dumps may follow each other in one file.
GLUED = ("pyspy", "pyspy-native", "pyspy-locals")
#: Bundles that separate the dumps of processes.
_APART = {"host/rank", "host/pid", "host-rank.name", "rank only", "srun --label", "mpirun --tag-output"}
#: Bundles that name no node.
_NODELESS = {"rank only", "srun --label", "mpirun --tag-output"}
PARTS = ("open", "held out, first", "held out, second")


@dataclass(frozen=True)
class Dumps:
    """One hang as uploaded: path to bytes, the layout file if there is one, and the ranks at fault."""

    name: str
    part: str
    form: str
    files: dict[str, bytes]
    layout: dict[str, Any] | None
    ranks: set[int]
    nodes: set[str]


def exam(seeds: int, only: str = "") -> Iterator[Dumps]:
    """Every hang whose name contains ``only``, ``seeds`` times."""
    for name, make in {**CASES, **RECORDERS, **LATE}.items():
        part = PARTS[2] if name in LATE else PARTS[1] if name in HELD_OUT else PARTS[0]
        for seed in range(seeds if only in name else 0):
            rng = random.Random(zlib.crc32(f"{name} {seed}".encode()))
            made = make(rng)
            if isinstance(made, Hang):
                yield written(made, rng, name, part)
            else:
                files, ranks, nodes, form = made
                yield Dumps(name, part, form, files, None, ranks, nodes)


def written(hang: Hang, rng: random.Random, name: str, part: str) -> Dumps:
    """The hang in a form that fits its tool."""
    by_python = len({p.kind for ps in hang.procs.values() for p in ps}) > 1 and set(hang.sizes) == {"dp"}
    tool = rng.choice(hang.tools or tuple(t for t in TOOLS if t != "gdb" or by_python))
    forms = [b for b in BUNDLES if tool in GLUED or b in _APART]
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
    bundled = bundle(form, texts, {r: hang.node(r) for r in texts}, pids, rng)
    is_json = tool.startswith("json")
    files = {f"{p.rsplit('.', 1)[0]}.json" if is_json else p: text.encode() for p, text in bundled.items()}
    layout = None
    if has_layout:
        rows = [{"rank": r, "node": hang.node(r), "pid": pids.get(r, 30999)} for r in range(hang.world)]
        layout = {**(hang.told or hang.sizes), "order": hang.order, "world_size": hang.world, "ranks": rows}
    nodes = {hang.node(r) for r in hang.culprits} if has_layout or form not in _NODELESS else set()
    label = f"{tool} / {form}{' / layout' if has_layout else ''}"
    return Dumps(name, part, label, files, layout, hang.culprits, nodes)


#: Layouts of 512 ranks: framework, sizes, order of the dimensions.
WIDE = (
    ("megatron", {"tp": 8, "pp": 8, "dp": 8}, "tp-dp-pp"),
    ("megatron", {"tp": 4, "pp": 4, "dp": 32}, "tp-cp-ep-dp-pp"),
    ("megatron", {"tp": 8, "pp": 4, "dp": 16}, "tp-cp-ep-dp-pp"),
    ("nemo", {"tp": 8, "dp": 64}, "tp-dp"),
)


def wide(seeds: int) -> Iterator[Dumps]:
    """Jobs of 512 ranks in which one rank never returns from a synchronisation with its device, and the others wait in
    several collectives: each layout with other culprits, tools, bundles and names of nodes.
    """
    for seed in range(seeds):
        for number, (framework, sizes, order) in enumerate(WIDE):
            rng = random.Random(zlib.crc32(f"wide {number} {seed}".encode()))
            hang = simulate(framework, sizes, order, {rng.randrange(512)}, STOPS["cuda_sync"][1], "cuda")
            yield written(hang, rng, f"{framework} {sizes}", PARTS[0])


def large(world: int, *, bundled: bool) -> Dumps:
    """One hang of many ranks with a kernel that never ends, a file a rank or (``bundled``) one a node."""
    sizes, order, culprit = {"tp": 8, "pp": 8, "dp": world // 64}, "tp-dp-pp", world // 3
    hang = simulate("megatron", sizes, order, {culprit}, STOPS["cuda_sync"][1], "cuda")
    texts = {r: "\n".join(TOOLS["pyspy"](p) for p in ps) for r, ps in sorted(hang.procs.items())}
    names, pids = {r: hang.node(r) for r in texts}, {r: ps[0].pid for r, ps in hang.procs.items()}
    form = "srun %N" if bundled else "host/rank"
    files = {p: t.encode() for p, t in bundle(form, texts, names, pids, random.Random(1)).items()}
    layout = {**sizes, "order": order, "world_size": world}
    return Dumps("large", PARTS[0], form, files, layout, {culprit}, {hang.node(culprit)})

"""Stacks of a hung job, made by simulating which rank waits for which; with the truth.

A job runs forward and backward over its pipeline, then synchronises gradients. One or more culprits stop at a given
point; every other rank goes on until it needs somebody who has stopped. The frames follow the public sources of the
frameworks.
"""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from diagnosis.kinds.stacks import parse_stack
from diagnosis.kinds.stacks.ranks.layout import Layout, build
from diagnosis.model import Kind, Parsed, ParseHints

Stack = list[tuple[str, str, int]]

MEGATRON = [
    ("train_step", "megatron/training/training.py", 1290),
    ("train", "megatron/training/training.py", 2163),
    ("<module>", "pretrain_gpt.py", 303),
]
SCHEDULE = [
    ("forward_backward_pipelining_without_interleaving", "megatron/core/pipeline_parallel/schedules.py", 1843),
    *MEGATRON,
]
DEEPSPEED = [
    ("_exec_schedule", "deepspeed/runtime/pipe/engine.py", 1404),
    ("train_batch", "deepspeed/runtime/pipe/engine.py", 388),
    ("<module>", "train.py", 90),
]
TITAN = [
    ("train_step", "torchtitan/train.py", 480),
    ("train", "torchtitan/train.py", 560),
    ("<module>", "torchtitan/train.py", 640),
]
WRAP = ("wrapper", "torch/distributed/c10d_logger.py", 81)
C10D = "torch/distributed/distributed_c10d.py"

FRAMES: dict[str, dict[str, Stack]] = {
    "megatron": {
        "tp": [
            ("all_reduce", C10D, 2501),
            WRAP,
            ("_reduce", "megatron/core/tensor_parallel/mappings.py", 33),
            ("forward", "megatron/core/transformer/mlp.py", 120),
            *SCHEDULE,
        ],
        "prev": [
            ("wait", C10D, 700),
            ("_communicate", "megatron/core/pipeline_parallel/p2p_communication.py", 340),
            ("recv_forward", "megatron/core/pipeline_parallel/p2p_communication.py", 390),
            *SCHEDULE,
        ],
        "next": [
            ("wait", C10D, 700),
            ("_communicate", "megatron/core/pipeline_parallel/p2p_communication.py", 340),
            ("send_forward_recv_backward", "megatron/core/pipeline_parallel/p2p_communication.py", 466),
            *SCHEDULE,
        ],
        "dp": [
            ("start_grad_sync", "megatron/core/distributed/param_and_grad_buffer.py", 301),
            ("finish_grad_sync", "megatron/core/distributed/distributed_data_parallel.py", 433),
            *SCHEDULE,
        ],
    },
    "deepspeed": {
        "tp": [("all_reduce", "deepspeed/comm/comm.py", 500), ("forward", "model/parallel_layers.py", 80), *DEEPSPEED],
        "prev": [
            ("recv", "deepspeed/runtime/pipe/p2p.py", 100),
            ("_exec_recv_activations", "deepspeed/runtime/pipe/engine.py", 1100),
            *DEEPSPEED,
        ],
        "next": [
            ("recv", "deepspeed/runtime/pipe/p2p.py", 100),
            ("_exec_recv_grads", "deepspeed/runtime/pipe/engine.py", 1150),
            *DEEPSPEED,
        ],
        "dp": [
            ("all_reduce", "deepspeed/comm/comm.py", 500),
            ("_exec_reduce_grads", "deepspeed/runtime/pipe/engine.py", 270),
            *DEEPSPEED,
        ],
    },
    "titan": {
        "tp": [
            ("wait_tensor", "torch/distributed/_functional_collectives.py", 140),
            ("redistribute", "torch/distributed/tensor/_api.py", 560),
            ("forward", "torchtitan/models/llama3/model.py", 210),
            *TITAN,
        ],
        "prev": [
            ("batch_isend_irecv", C10D, 2800),
            ("_step_microbatches", "torch/distributed/pipelining/schedules.py", 900),
            *TITAN,
        ],
        "next": [
            ("_wait_batch_p2p", "torch/distributed/pipelining/schedules.py", 820),
            ("_step_microbatches", "torch/distributed/pipelining/schedules.py", 940),
            *TITAN,
        ],
        "dp": [
            ("wait_for_unshard", "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", 330),
            ("pre_forward", "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", 360),
            *TITAN,
        ],
    },
}

#: Where a culprit stops: no frame of these is shared with a wait.
CULPRITS: dict[str, Stack] = {
    "loader": [
        ("select", "selectors.py", 416),
        ("wait", "multiprocessing/connection.py", 931),
        ("_try_get_data", "torch/utils/data/dataloader.py", 1251),
        ("__next__", "torch/utils/data/dataloader.py", 708),
    ],
    "storage": [
        ("readinto", "socket.py", 706),
        ("read", "urllib3/response.py", 880),
        ("get_object", "botocore/client.py", 530),
        ("fetch_shard", "mycorp/stream.py", 77),
    ],
    "checkpoint": [
        ("write_bytes", "torch/distributed/checkpoint/filesystem.py", 230),
        ("save", "torch/distributed/checkpoint/state_dict_saver.py", 160),
        ("save_checkpoint", "megatron/training/checkpointing.py", 541),
    ],
    "kernel": [
        ("forward", "transformer_engine/pytorch/attention.py", 3200),
        ("_call_impl", "torch/nn/modules/module.py", 1747),
    ],
    "user loop": [("tokenise_metrics", "mycorp/hooks.py", 12), ("on_step_end", "mycorp/hooks.py", 40)],
    "lock": [("acquire_slot", "mycorp/pool.py", 31), ("log_everything", "mycorp/pool.py", 55)],
    "collect": [("collect", "gc_tools.py", 8), ("maybe_gc", "mycorp/gcutil.py", 20)],
}


@dataclass
class Case:
    """A hung job: stack of each rank (absent: no process), its node and the truth."""

    layout: Layout
    stacks: dict[int, Stack]
    nodes: dict[int, str]
    culprits: set[int]
    command: str = "python pretrain_gpt.py"
    failed: set[int] = field(default_factory=set)

    @property
    def culprit_nodes(self) -> set[str]:
        return {self.nodes[r] for r in self.culprits}


def hang(
    sizes: dict[str, int], order: str, culprits: set[int], kind: str, framework: str = "megatron", per_node: int = 8
) -> Case:
    """Play out a hang in the forward pass; ``kind`` a key of :data:`CULPRITS`, ``dead`` or ``tp`` (stuck inside that
    collective)."""
    world = 1
    for n in sizes.values():
        world *= n
    layout = build(sizes, world_size=world, order=order)
    base = {"megatron": SCHEDULE, "deepspeed": DEEPSPEED, "titan": TITAN}[framework]
    waits = FRAMES[framework]
    stopped: dict[int, Stack | None] = {}
    for r in culprits:
        stopped[r] = None if kind == "dead" else waits["tp"] if kind == "tp" else [*CULPRITS[kind], *base]
    group = {d: {r: g for g in layout.groups(d) for r in g} for d in ("tp", "pp", "dp")}
    if kind != "tp":
        for r in culprits:
            for peer in group["tp"][r]:
                stopped.setdefault(peer, waits["tp"])
    for r in list(stopped):
        chain = group["pp"][r]
        at = chain.index(r)
        for later in chain[at + 1 :]:
            stopped.setdefault(later, waits["prev"])
        for earlier in chain[:at]:
            stopped.setdefault(earlier, waits["next"])
    stacks = {r: stopped.get(r, waits["dp"]) for r in range(world)}
    nodes = {r: f"node-{r // per_node:03d}" for r in range(world)}
    return Case(layout, {r: s for r, s in stacks.items() if s is not None}, nodes, set(culprits))


def pyspy_text(stack: Stack, pid: int, command: str = "python pretrain_gpt.py") -> str:
    lines = [
        f"Process {pid}: {command}",
        "Python v3.11.7 (/usr/bin/python3.11)",
        "",
        f'Thread {pid} (idle): "MainThread"',
    ]
    return "\n".join([*lines, *(f"    {name} ({file}:{line})" for name, file, line in stack)]) + "\n"


def pyspy_json(stack: Stack, pid: int) -> str:
    frames = [
        {"name": n, "filename": f"/opt/venv/{f}", "short_filename": f, "module": None, "line": li, "locals": None}
        for n, f, li in stack
    ]
    return json.dumps(
        [
            {
                "pid": pid,
                "thread_id": pid,
                "thread_name": "MainThread",
                "os_thread_id": pid,
                "active": False,
                "owns_gil": False,
                "frames": frames,
                "process_info": None,
            }
        ]
    )


def faulthandler_text(stack: Stack) -> str:
    return "Current thread 0x00007f334bbc1b80 (most recent call first):\n" + "".join(
        f'  File "/opt/venv/{f}", line {li} in {n}\n' for n, f, li in stack
    )


def pystack_text(stack: Stack, pid: int) -> str:
    rows = [
        f'    (Python) File "/opt/venv/{f}", line {li}, in {n}\n        some_source()\n' for n, f, li in reversed(stack)
    ]
    return f"Traceback for thread {pid} (python3) [Has the GIL] (most recent call last):\n" + "".join(rows)


def parse(text: str | bytes, path: str, work: Path = Path()) -> Parsed:
    data = text.encode() if isinstance(text, str) else text
    return parse_stack(io.BytesIO(data), path, ParseHints(), work)


def layout_file(case: Case) -> Parsed:
    sizes = {**case.layout.sizes, "order": case.layout.order, "world_size": case.layout.world_size}
    rows = [{"rank": r, "node": n} for r, n in case.nodes.items()]
    return Parsed(path="layout.json", kind=Kind.LAYOUT, facts={"json": {**sizes, "ranks": rows}})


def dumps(
    case: Case, form: str = "pyspy", *, round_at: int | None = None, layout: bool = True, seed: int = 0
) -> list[Parsed]:
    """One artifact a rank in the given format, or bundles: ``srun`` (a file a node), ``pdsh`` (one interleaved
    file), ``label`` (``srun --label``)."""
    rng = random.Random(seed)
    files: dict[str, str] = {}
    top = "stacks/" if round_at is None else f"stacks/round-{round_at}/"
    for r, node in case.nodes.items():
        if r not in case.stacks and r not in case.failed:
            continue
        if r in case.failed:
            text = "Error: Failed to suspend process\nReason: EPERM: Operation not permitted\n"
        else:
            pid = 40000 + r
            stack = case.stacks[r]
            text = {
                "json": lambda s=stack, p=pid: pyspy_json(s, p),
                "faulthandler": lambda s=stack: faulthandler_text(s),
                "pystack": lambda s=stack, p=pid: pystack_text(s, p),
            }.get(form, lambda s=stack, p=pid: pyspy_text(s, p, case.command))()
        if form == "srun":
            files[f"{top}trace-{node}.out"] = files.get(f"{top}trace-{node}.out", "") + text + "\n"
        elif form in {"pdsh", "label"}:
            label = node if form == "pdsh" else str(r)
            files.setdefault(f"{top}all.txt", "")
            files[f"{top}all.txt"] += "".join(f"{label}: {x}\n" for x in text.splitlines())
        else:
            files[f"{top}{node}/rank-{r:05d}.{'json' if form == 'json' else 'txt'}"] = text
    if form == "pdsh":
        for path, text in files.items():
            by_host: dict[str, list[str]] = {}
            for line in text.splitlines():
                by_host.setdefault(line.partition(":")[0], []).append(line)
            mixed = []
            while any(by_host.values()):
                host = rng.choice([h for h, lines in by_host.items() if lines])
                mixed.append(by_host[host].pop(0))
            files[path] = "\n".join(mixed) + "\n"
    parsed = [parse(text, path) for path, text in sorted(files.items())]
    return [*parsed, layout_file(case)] if layout else parsed

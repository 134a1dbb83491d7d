"""Hangs of jobs that the simulator of the tests does not have: which ranks stopped, and the stacks of all ranks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.exams.stacks.forms import Proc
from lab.exams.stacks.frames import BASE, STOPS, WAITS, WRAP, Stack
from lab.exams.stacks.late import saving

C10D = "torch/distributed/distributed_c10d.py"


NODES: tuple[Callable[[int], str], ...] = (
    lambda i: f"gpu-h100-{i + 3:04d}",
    lambda i: f"ip-10-0-3-{i + 17}",
    lambda i: f"dgx{i + 41:03d}.cluster.local",
    lambda i: f"llama-worker-{i}",
    lambda i: f"n{i + 118:04d}",
    lambda i: f"10.12.7.{i + 21}",
)


@dataclass
class Hang:
    """A hung job: its processes by rank, their machines, and the ranks at fault."""

    sizes: dict[str, int]
    order: str
    culprits: set[int]
    procs: dict[int, list[Proc]]
    framework: str
    per_node: int = 8
    node_names: Callable[[int], str] = NODES[0]
    #: the content of the layout file if it is wrong on purpose
    told: dict[str, int] = field(default_factory=dict)
    needs_rank: bool = False
    tools: tuple[str, ...] = ()

    @property
    def world(self) -> int:
        total = 1
        for n in self.sizes.values():
            total *= n
        return total

    def node(self, rank: int) -> str:
        return self.node_names(rank // self.per_node)


def groups(sizes: dict[str, int], order: str, dims: tuple[str, ...]) -> dict[int, list[int]]:
    """Group of each rank over ``dims``; the first dimension of ``order`` moves fastest."""
    world = 1
    for n in sizes.values():
        world *= n
    keys: dict[tuple[int, ...], list[int]] = {}
    key_of = {}
    for rank in range(world):
        rest, key = rank, []
        for dim in order.split("-"):
            size = sizes.get(dim, 1)
            if dim not in dims:
                key.append(rest % size)
            rest //= size
        key_of[rank] = tuple(key)
        keys.setdefault(tuple(key), []).append(rank)
    return {rank: keys[key] for rank, key in key_of.items()}


def simulate(
    framework: str,
    sizes: dict[str, int],
    order: str,
    culprits: set[int],
    stop: Stack | None,
    kind: str = "cuda",
    **more: Any,
) -> Hang:
    """Culprits stop; the rest goes on until it needs one that stopped. ``stop`` None: the processes are gone."""
    waits, base = WAITS[framework], BASE[framework]
    world = 1
    for n in sizes.values():
        world *= n
    stacks: dict[int, tuple[Stack | None, str]] = dict.fromkeys(
        culprits, (None if stop is None else (*stop, *base), kind)
    )

    def wait(rank: int, dim: str) -> None:
        stacks.setdefault(rank, ((*waits[dim], *base), "cuda" if "synchronize" in waits[dim][0] else "comm"))

    dims = [d for d in ("ep", "cp", "tp") if sizes.get(d, 1) > 1 and d in waits]
    for dim in dims:
        of = groups(sizes, order, (dim,))
        for rank in list(stacks):
            for peer in of[rank]:
                wait(peer, dim)
    if sizes.get("pp", 1) > 1:
        of = groups(sizes, order, ("pp",))
        for rank in list(stacks):
            chain = of[rank]
            for later in chain[chain.index(rank) + 1 :]:
                wait(later, "prev")
            for earlier in chain[: chain.index(rank)]:
                wait(earlier, "next")
    for rank in range(world):
        wait(rank, "dp")
    procs = {r: [Proc(31000 + r * 13, s, k)] for r, (s, k) in stacks.items() if s is not None}
    return Hang(sizes, order, culprits, procs, framework, **more)


def some(rng: random.Random, sizes: dict[str, int], count: int = 1) -> set[int]:
    world = 1
    for n in sizes.values():
        world *= n
    return set(rng.sample(range(world), count))


def stopped(
    name: str, framework: str, sizes: dict[str, int], order: str = "tp-cp-ep-dp-pp", count: int = 1, **more: Any
) -> Callable[[random.Random], Hang]:
    kind, stack = STOPS[name]
    return lambda rng: simulate(framework, sizes, order, some(rng, sizes, count), stack, kind, **more)


def other_collective(rng: random.Random) -> Hang:
    hang = simulate("fsdp2", {"dp": 16}, "dp", some(rng, {"dp": 16}), None)
    for rank in hang.culprits:
        out = (f"_object_to_tensor {C10D}", f"all_gather_object {C10D}", WRAP, "gather_metrics llm/metrics.py")
        hang.procs[rank] = [Proc(31000 + rank * 13, (*out[1:], *BASE["fsdp2"]))]
    return hang


def pipeline_deadlock(rng: random.Random) -> Hang:
    """Two neighbours send to each other, blocking."""
    sizes, order = {"tp": 1, "dp": 4, "pp": 4}, "tp-dp-pp"
    lane = groups(sizes, order, ("pp",))[rng.randrange(4)]
    at = rng.randrange(3)
    hang = simulate("titan", sizes, order, {lane[at], lane[at + 1]}, None)
    for rank, what in ((lane[at], "send_activation"), (lane[at + 1], "send_gradient")):
        hang.procs[rank] = [Proc(31000 + rank * 13, (f"send {C10D}", WRAP, f"{what} llm/pipe.py", *BASE["titan"]))]
    return hang


def tp_group_stuck(rng: random.Random) -> Hang:
    sizes, order = {"tp": 8, "dp": 4, "pp": 2}, "tp-cp-ep-dp-pp"
    group = set(groups(sizes, order, ("tp",))[rng.randrange(64)])
    return simulate("megatron", sizes, order, group, WAITS["megatron"]["tp"], "comm")


def two_machines(rng: random.Random) -> Hang:
    sizes = {"tp": 8, "dp": 8}
    nodes = rng.sample(range(8), 2)
    culprits = {n * 8 + i for n in nodes for i in range(8)}
    return simulate("nemo", sizes, "tp-dp", culprits, STOPS["cuda_sync"][1], "cuda")


def hung_switch(rng: random.Random) -> Hang:
    """Storage behind one leaf is gone: a quarter of the ranks reads without end."""
    first = rng.randrange(4) * 64
    return simulate("deepspeed", {"dp": 256}, "dp", set(range(first, first + 64)), STOPS["s3"][1], "poll")


def async_writer(rng: random.Random) -> Hang:
    """All trainers ask each other whether the save is done; one rank's writer process hangs on NFS."""
    hang = simulate("megatron", {"tp": 4, "dp": 8}, "tp-dp", some(rng, {"tp": 4, "dp": 8}), None)
    poll = (
        f"all_reduce {C10D}",
        WRAP,
        "sync_all_async_calls megatron/core/dist_checkpointing/strategies/async_utils.py",
        "is_current_async_call_done megatron/core/dist_checkpointing/strategies/async_utils.py",
        *BASE["megatron"][1:],
    )
    idle = (
        "get multiprocessing/queues.py",
        "async_loop megatron/core/dist_checkpointing/strategies/async_utils.py",
        "run multiprocessing/process.py",
        "_bootstrap multiprocessing/process.py",
    )
    busy = (
        "_write_item torch/distributed/checkpoint/filesystem.py",
        "write_preloaded_data megatron/core/dist_checkpointing/strategies/filesystem_async.py",
        *idle[1:],
    )
    for rank in range(hang.world):
        pid = 31000 + rank * 13
        child = Proc(pid + 5, busy if rank in hang.culprits else idle, "write", parent=pid, threads={})
        hang.procs[rank] = [Proc(pid, poll), child]
    hang.tools = ("pyspy",)
    return hang


def uneven_data(rng: random.Random) -> Hang:
    """One rank ran out of data and waits in the barrier at the end."""
    hang = simulate("deepspeed", {"dp": 32}, "dp", some(rng, {"dp": 32}), None)
    for rank in hang.culprits:
        hang.procs[rank] = [
            Proc(
                31000 + rank * 13,
                (
                    f"barrier {C10D}",
                    WRAP,
                    "barrier deepspeed/comm/comm.py",
                    "end_epoch train/loop.py",
                    *BASE["deepspeed"][2:],
                ),
            )
        ]
    return hang


def at_start(name: str, absent: bool = False) -> Callable[[random.Random], Hang]:
    """The others wait in the first barrier."""

    def make(rng: random.Random) -> Hang:
        wait = (
            f"_store_based_barrier {C10D}",
            f"_new_process_group_helper {C10D}",
            f"init_process_group {C10D}",
            WRAP,
            "_initialize_distributed megatron/training/initialize.py",
            "initialize_megatron megatron/training/initialize.py",
            "<module> pretrain_gpt.py",
        )
        sizes = {"tp": 2, "pp": 2, "dp": 8}
        hang = simulate("megatron", sizes, "tp-cp-ep-dp-pp", some(rng, sizes), None, needs_rank=absent)
        for rank in range(hang.world):
            pid = 31000 + rank * 13
            if rank not in hang.culprits:
                hang.procs[rank] = [Proc(pid, wait, "poll", threads={})]
            elif not absent:
                hang.procs[rank] = [
                    Proc(pid, (*STOPS[name][1], "<module> pretrain_gpt.py"), STOPS[name][0], threads={})
                ]
        return hang

    return make


def evaluating(rng: random.Random) -> Hang:
    hang = simulate("nemo", {"tp": 2, "dp": 16}, "tp-dp", some(rng, {"dp": 32}), None)
    base = ("evaluation_loop lightning/pytorch/loops/evaluation_loop.py", *BASE["nemo"][1:])
    for rank in range(hang.world):
        out = (
            (*STOPS["generate"][1], *base)
            if rank in hang.culprits
            else (f"all_reduce {C10D}", WRAP, "reduce_metric lightning/pytorch/strategies/ddp.py", *base)
        )
        hang.procs[rank] = [Proc(31000 + rank * 13, out, "cuda" if rank in hang.culprits else "comm")]
    return hang


def rollout(rng: random.Random) -> Hang:
    hang = simulate("verl", {"dp": 16}, "dp", some(rng, {"dp": 16}), None)
    for rank in range(16):
        late = rank in hang.culprits
        out = (*STOPS["rollout"][1], *BASE["verl"][2:]) if late else (*WAITS["verl"]["dp"], *BASE["verl"])
        title = (
            "ray::WorkerDict.actor_rollout_generate_sequences" if late else "ray::WorkerDict.actor_rollout_update_actor"
        )
        hang.procs[rank] = [Proc(31000 + rank * 13, out, "cuda" if late else "comm", title, threads={})]
    return hang


def gc_pause(rng: random.Random) -> Hang:
    hang = stopped("gc", "megatron", {"tp": 2, "cp": 2, "dp": 8}, "tp-cp-dp-pp")(rng)
    for rank in hang.culprits:
        hang.procs[rank][0].gc = hang.procs[rank][0].gil = True
    return hang


def all_alike(rng: random.Random) -> Hang:
    """All ranks look alike: nobody may be accused."""
    return simulate("fsdp2", {"dp": 32}, "dp", set(), None)


def dead(framework: str, sizes: dict[str, int], order: str, count: int = 1) -> Callable[[random.Random], Hang]:
    return lambda rng: simulate(framework, sizes, order, some(rng, sizes, count), None, needs_rank=True)


def wrong_layout(rng: random.Random) -> Hang:
    hang = stopped("s3", "megatron", {"tp": 2, "pp": 2, "dp": 8})(rng)
    hang.told = {"tp": 4, "pp": 4, "dp": 4}
    return hang


CASES: dict[str, Callable[[random.Random], Hang]] = {
    "other collective (fsdp2)": other_collective,
    "pipeline deadlock (titan)": pipeline_deadlock,
    "loader worker dead (fsdp2)": stopped("loader_worker_dead", "fsdp2", {"dp": 32}),
    "streaming shard (titan tp-pp-dp)": stopped("streaming_shard", "titan", {"tp": 2, "pp": 4, "dp": 4}, "tp-pp-dp"),
    "nfs write (megatron)": stopped("nfs_write", "megatron", {"tp": 4, "pp": 2, "dp": 4}),
    "torch.save (deepspeed)": stopped("torch_save", "deepspeed", {"dp": 24}, per_node=4),
    "lock (nemo)": stopped("lock", "nemo", {"tp": 4, "pp": 4, "dp": 2}),
    "gil held (deepspeed)": stopped("gil", "deepspeed", {"tp": 2, "dp": 16}, "tp-dp"),
    "garbage collection (megatron cp)": gc_pause,
    "cuda sync (megatron)": stopped("cuda_sync", "megatron", {"tp": 4, "pp": 4, "dp": 4}),
    "ep straggler (megatron)": stopped("permute", "megatron", {"tp": 1, "ep": 8, "dp": 4, "pp": 2}),
    "moe router (megatron)": stopped("router", "megatron", {"tp": 2, "ep": 4, "dp": 4}),
    "cp ring (megatron)": stopped("attention", "megatron", {"tp": 2, "cp": 4, "dp": 2, "pp": 2}),
    "two machines (nemo)": two_machines,
    "hung switch (deepspeed, a quarter)": hung_switch,
    "tp group stuck (megatron)": tp_group_stuck,
    "dead rank (megatron)": dead("megatron", {"tp": 2, "pp": 4, "dp": 4}, "tp-cp-ep-dp-pp"),
    "dead ranks (deepspeed)": dead("deepspeed", {"dp": 32}, "dp", 2),
    "evaluation (nemo)": evaluating,
    "import at start": at_start("import"),
    "absent at start": at_start("", absent=True),
    "all alike (fsdp2)": all_alike,
    "wrong layout (megatron)": wrong_layout,
    "async writer (megatron)": async_writer,
    "wandb (nemo)": stopped("wandb", "nemo", {"tp": 2, "dp": 16}, "tp-dp"),
    "loader (jax grain)": stopped("grain", "jax", {"dp": 16}, per_node=1),
    # held out
    "uneven data (deepspeed)": uneven_data,
    "compile (titan)": stopped("compile", "titan", {"tp": 4, "dp": 8}, "tp-dp"),
    "cp ring (fsdp2 ring attention)": stopped("attention", "fsdp2", {"cp": 4, "dp": 8}, "cp-dp"),
    "rollout (verl)": rollout,
    "cpu adam (deepspeed)": stopped("cpu_adam", "deepspeed", {"dp": 16}),
    "pipeline storage (paddle)": stopped("s3", "paddle", {"tp": 2, "pp": 4, "dp": 4}, "dp-pp-tp"),
    "subprocess in hook (titan pp)": stopped("subprocess", "titan", {"tp": 2, "pp": 2, "dp": 8}, "pp-dp-tp"),
    "index build at start": at_start("index_build"),
    "file lock (fsdp2)": stopped("file_lock", "fsdp2", {"dp": 24}, per_node=4),
    "ep storage (deepspeed moe)": stopped("s3", "deepspeed", {"ep": 4, "dp": 8}, "ep-dp", count=2),
    "teardown (verl)": stopped("teardown", "verl", {"dp": 16}),
    "item (nemo pp)": stopped("item", "nemo", {"tp": 2, "pp": 4, "dp": 4}, "tp-cp-ep-pp-dp"),
    "dead rank (paddle)": dead("paddle", {"tp": 4, "pp": 2, "dp": 4}, "tp-pp-dp"),
}
LATE: dict[str, Callable[[random.Random], Hang]] = {
    "stream (accelerate)": stopped("hf_stream", "accelerate", {"dp": 24}),
    "save (accelerate)": lambda rng: saving(rng, simulate),
    "h5 rows (nanotron)": stopped("h5", "nanotron", {"tp": 2, "pp": 4, "dp": 4}, "tp-dp-pp"),
    "nvml (nanotron)": stopped("nvml", "nanotron", {"tp": 4, "pp": 2, "dp": 2}, "pp-dp-tp"),
    "dead (nanotron)": dead("nanotron", {"tp": 2, "pp": 4, "dp": 4}, "pp-dp-tp"),
    "telemetry queue (horovod)": stopped("deadlock", "horovod", {"dp": 32}),
    "print to a full disk (horovod)": stopped("print", "horovod", {"dp": 16}, per_node=4),
    "device (mindspeed)": stopped("npu_sync", "mindspeed", {"tp": 4, "pp": 4, "dp": 2}),
    "sub-process (mindspeed)": stopped("mpi_spawn", "mindspeed", {"tp": 2, "pp": 2, "dp": 8}),
    "two ranks read (mindspeed)": stopped("h5", "mindspeed", {"tp": 8, "dp": 8}, count=2),
}
HELD_OUT = set(list(CASES)[list(CASES).index("uneven data (deepspeed)") :]) | {"mismatch (recorder)", "dead (ras text)"}

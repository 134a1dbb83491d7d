"""Jobs of 512 ranks whose whole output is one file, under several launchers, with machine names of many forms.

Truth is the machine, and for a crash the rank. Texts were written from the launchers' and libraries' public sources.
"""

from __future__ import annotations

import random
import string
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

PER_NODE = 8
NODES = 64
START = datetime(2026, 5, 11, 6, 30, tzinfo=UTC)
LAUNCHERS = ("srun", "torchrun", "mpirun", "kubernetes", "cookies")
FAULTS = ("node failure", "out of memory", "cuda error", "exception")


@dataclass
class Log:
    """One job: its file, and the machine and rank at fault."""

    name: str
    text: str
    node: str
    rank: int | None
    fault: str


def _any(rng: random.Random, letters: str, n: int) -> str:
    return "".join(rng.choice(letters) for _ in range(n))


def _tags(rng: random.Random) -> list[str]:
    upper = string.ascii_uppercase
    return [f"{rng.choice(upper)}{rng.randint(1, 9)}{_any(rng, upper, 3)}{k:02d}" for k in range(NODES)]


def _addresses(rng: random.Random) -> list[str]:
    return [f"ip-10-{rng.randint(0, 9)}-3-{k + 2}" for k in range(NODES)]


def _letters(_: random.Random) -> list[str]:
    short = string.ascii_lowercase
    return [short[k] if k < 26 else short[k // 26 - 1] + short[k % 26] for k in range(NODES)]


def _serials(rng: random.Random) -> list[str]:
    return [f"{rng.randint(1, 9)}{_any(rng, string.ascii_uppercase, 4)}{k:02d}" for k in range(NODES)]


def _uuids(rng: random.Random) -> list[str]:
    return [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(NODES)]


def _ipv6(rng: random.Random) -> list[str]:
    return [f"fd00:{rng.randint(1, 9)}::{k + 16:x}" for k in range(NODES)]


def _mixed(rng: random.Random) -> list[str]:
    return [f"Gpu{_any(rng, string.ascii_letters, 2)}-Rack{k // 8}-{k % 8}" for k in range(NODES)]


def _nested(_: random.Random) -> list[str]:
    return [f"n{k + 1}" for k in range(NODES)]


NAMES: dict[str, Callable[[random.Random], list[str]]] = {
    "tags": _tags,
    "addresses": _addresses,
    "letters": _letters,
    "serials": _serials,
    "uuids": _uuids,
    "ipv6": _ipv6,
    "mixed": _mixed,
    "nested": _nested,
}


@dataclass
class _Writer:
    rng: random.Random
    launcher: str
    nodes: list[str]
    at: datetime = START
    lines: list[str] = field(default_factory=list)

    def node(self, rank: int) -> str:
        return self.nodes[rank // PER_NODE]

    def tick(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def stamp(self) -> str:
        return self.at.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]

    def say(self, rank: int, text: str, *, stamped: bool = True) -> None:
        """A line of one rank, with its launcher's prefix."""
        body = f"{self.stamp()} INFO {text}" if stamped else text
        before = {
            "srun": f"{rank}: ",
            "torchrun": f"[rank{rank}]: ",
            "mpirun": f"[1,{rank}]<stderr>:",
            "kubernetes": f"[pod/llm-worker-{rank // PER_NODE}/trainer] [rank{rank}]: ",
            "cookies": "" if stamped and rank == 0 else f"[rank{rank}]: ",
        }[self.launcher]
        self.lines.append(before + body)

    def launch(self, text: str) -> None:
        self.lines.append(text)


def _preamble(w: _Writer) -> None:
    """The launcher's lines that name its machines."""
    if w.launcher == "srun":
        w.launch(f"SLURM_JOB_NODELIST={','.join(w.nodes)}")
        w.launch(f"SLURM_NTASKS={NODES * PER_NODE} SLURM_NTASKS_PER_NODE={PER_NODE}")
    elif w.launcher == "torchrun":
        w.launch(f"+ torchrun --nnodes {NODES} --nproc_per_node={PER_NODE} --rdzv_backend c10d train.py")
    elif w.launcher == "mpirun":
        w.launch(f"+ mpirun -np {NODES * PER_NODE} --hostfile hosts --tag-output python train.py")
        w.lines += [f"{name} slots={PER_NODE}" for name in w.nodes]
    elif w.launcher == "kubernetes":
        for k, name in enumerate(w.nodes):
            w.launch(
                f"{w.at:%Y-%m-%dT%H:%M:%SZ} Normal Scheduled pod/llm-worker-{k} Successfully assigned "
                f"ml/llm-worker-{k} to {name}"
            )
        w.launch(f"[I] world_size=512 nproc_per_node={PER_NODE} nnodes={NODES}")
    for rank in range(NODES * PER_NODE):
        if w.launcher in ("torchrun", "cookies", "kubernetes") or rank % 97 == 0:
            pid = 2000 + rank
            w.launch(
                f"{w.node(rank)}:{pid}:{pid + 300} [{rank % PER_NODE}] NCCL INFO ncclCommInitRank comm "
                f"0x55d0{rank:05x} rank {rank} nranks 512 cudaDev {rank % PER_NODE} "
                f"nvmlDev {rank % PER_NODE} busId {rank % 8:x}b000 "
                "commId 0x7f11 - Init START"
            )


def _training(w: _Writer, iterations: int) -> None:
    for n in range(1, iterations + 1):
        w.tick(w.rng.uniform(1.9, 2.1))
        loss = 9.0 / (1 + 0.02 * n)
        w.say(
            0,
            f"iteration {n}/ 5000 | consumed samples: {n * 2048} | elapsed time per iteration (ms): 2001.4 | "
            f"lm loss: {loss:.4f}",
        )
        if n % 10 == 0:
            for rank in w.rng.sample(range(512), 4):
                w.say(rank, f"data loader refilled shard {n + rank} in 0.{rank % 9 + 1} s")


_CRASHES: dict[str, tuple[str, ...]] = {
    "out of memory": (
        "Traceback (most recent call last):",
        '  File "/opt/train/train.py", line 212, in <module>',
        "    main()",
        '  File "/opt/train/train.py", line 180, in main',
        "    loss.backward()",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {local} has a total capacity of "
        "79.15 GiB of which 1.02 GiB is free.",
    ),
    "cuda error": (
        "Traceback (most recent call last):",
        '  File "/opt/train/train.py", line 176, in main',
        "    out = model(batch)",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.",
    ),
    "exception": (
        "Traceback (most recent call last):",
        '  File "/opt/train/data/pack.py", line 61, in pack',
        "    tokens = row['tokens']",
        "KeyError: 'tokens'",
    ),
}


def _crash(w: _Writer, fault: str, rank: int) -> None:
    w.tick(0.4)
    for text in _CRASHES[fault]:
        w.say(rank, text.format(local=rank % PER_NODE), stamped=False)
    w.tick(1.5)
    for other in w.rng.sample([r for r in range(512) if r != rank], 60):
        w.say(
            other,
            "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error, NCCL "
            "version 2.21.5",
            stamped=False,
        )
    node = w.node(rank)
    if w.launcher == "srun":
        w.launch(f"srun: error: {node}: task {rank}: Exited with exit code 1")
        w.launch(f"slurmstepd: error: *** STEP 88121.0 ON {w.nodes[0]} CANCELLED AT {w.at:%Y-%m-%dT%H:%M:%S} ***")
    elif w.launcher == "torchrun":
        w.lines += [
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "============================================================",
            "train.py FAILED",
            "------------------------------------------------------------",
            "Root Cause (first observed failure):",
            "[0]:",
            f"  time      : {w.at:%Y-%m-%d_%H:%M:%S}",
            f"  host      : {node}",
            f"  rank      : {rank} (local_rank: {rank % PER_NODE})",
            "  exitcode  : 1 (pid: 4411)",
            "  error_file: <N/A>",
            "============================================================",
        ]
    elif w.launcher == "mpirun":
        w.launch(
            f"mpirun detected that one or more processes exited with non-zero status. The first: Process name: "
            f"[[31411,1],{rank}] Exit code: 1"
        )
    elif w.launcher == "kubernetes":
        w.launch(
            f"{w.at:%Y-%m-%dT%H:%M:%SZ} Warning BackOff pod/llm-worker-{rank // PER_NODE} Back-off restarting failed "
            "container trainer"
        )


def _lost(w: _Writer, number: int) -> None:
    node = w.nodes[number]
    w.tick(31)
    if w.launcher == "srun":
        w.launch(f"srun: error: Node failure on {node}")
        w.launch("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")
        w.launch(
            f"slurmstepd: error: *** STEP 88121.0 ON {w.nodes[0]} CANCELLED AT {w.at:%Y-%m-%dT%H:%M:%S} DUE TO NODE "
            "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
        )
    elif w.launcher == "kubernetes":
        w.launch(f"{w.at:%Y-%m-%dT%H:%M:%SZ} Normal NodeNotReady node/{node} Node {node} status is now: NodeNotReady")
        w.launch(f"{w.at:%Y-%m-%dT%H:%M:%SZ} Warning NodeNotReady pod/llm-worker-{number} Node is not ready")
    elif w.launcher == "mpirun":
        w.lines += [
            "--------------------------------------------------------------------------",
            "ORTE has lost communication with a remote daemon.",
            "  HNP daemon   : [[31411,0],0] on node " + w.nodes[0],
            f"  Remote daemon: [[31411,0],{number}] on node {node}",
            "This is usually due to either a failure of the TCP network connection to the node, or possibly an "
            "internal failure of the daemon itself.",
            "--------------------------------------------------------------------------",
        ]
    else:
        w.launch(f"slurmctld: error: Nodes {node} not responding")
        w.launch(f"srun: error: Node failure on {node}")
    others = [r for r in range(512) if r // PER_NODE != number]
    for other in w.rng.sample(others, 40):
        w.say(other, "NCCL WARN socketProgress: Connection closed by remote peer", stamped=False)


def logs(seed: int) -> Iterator[Log]:
    """24 logs: every launcher with every kind of name at least once, faults in turn. Deterministic in ``seed``."""
    every = list(NAMES)
    for number in range(24):
        rng = random.Random(zlib.crc32(f"single file {seed} {number}".encode()))
        launcher = LAUNCHERS[number % len(LAUNCHERS)]
        style = every[(number + seed) % len(every)]
        fault = FAULTS[(number // 2 + seed) % len(FAULTS)]
        if launcher == "srun" and style == "ipv6":
            style = "serials"  # Slurm knows no such names
        w = _Writer(rng, launcher, NAMES[style](rng))
        _preamble(w)
        _training(w, rng.randint(40, 90))
        rank = rng.randrange(PER_NODE, 512)
        node = w.node(rank)
        if fault == "node failure":
            _lost(w, rank // PER_NODE)
        else:
            _crash(w, fault, rank)
        name = f"{number:02d} {launcher}, {style}, {fault}"
        yield Log(name, "\n".join(w.lines) + "\n", node, None if fault == "node failure" else rank, fault)

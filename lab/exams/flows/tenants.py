"""The parts of a flow world: fabrics, tenants, faults."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]


def span(first: int, count: int) -> tuple[int, ...]:
    """Machines in a row."""
    return tuple(range(first, first + count))


@dataclass(frozen=True)
class Fabric:
    """``rail``: one leaf a GPU number and pod; ``rail3`` the same with a spine a pod and cores above; ``tor``: a leaf
    for ``width`` machines; ``fat3``: leaf, aggregation, core; ``lingjun``: ASW a rail and plane, PSW a pod, DSW above.
    ``shown``: only switches whose names begin so export flows.
    """

    kind: str = "rail"
    width: int = 4
    spines: int = 4
    shown: tuple[str, ...] = ("",)

    def leaf(self, node: int, gpu: int, lane: int = 0) -> str:
        if self.kind in ("rail", "rail3"):
            return f"leaf-{node // (8 * self.width)}-{gpu}"
        if self.kind == "lingjun":
            return f"S{node // (4 * self.width)}-{2 * gpu + lane % 2}"
        return f"tor-{node // self.width}"

    def path(self, a: tuple[int, int], b: tuple[int, int], lane: int) -> str:
        """The crossed switches that export flows."""
        return ";".join(part for part in self._crossed(a, b, lane).split(";") if part.startswith(self.shown))

    def _crossed(self, a: tuple[int, int], b: tuple[int, int], lane: int) -> str:
        first, last = self.leaf(*a, lane), self.leaf(*b, lane)
        if first == last:
            return first
        chosen = hash((a, b, lane, 7)) % self.spines
        if self.kind == "rail3":
            pods = a[0] // (8 * self.width), b[0] // (8 * self.width)
            up, down = (f"spine-{pod}-{chosen % 2}" for pod in pods)
            return f"{first};{up};{last}" if up == down else f"{first};{up};core-{chosen};{down};{last}"
        if self.kind == "fat3":
            pods = a[0] // (2 * self.width), b[0] // (2 * self.width)
            if pods[0] != pods[1]:
                return f"{first};agg-{pods[0]}-{chosen % 2};core-{chosen};agg-{pods[1]}-{chosen % 2};{last}"
            return f"{first};agg-{pods[0]}-{chosen % 2};{last}"
        if self.kind == "lingjun":
            pods = a[0] // (8 * self.width), b[0] // (8 * self.width)
            middle = f"P{pods[0]}-{chosen};"
            return (
                f"{first};{middle}{last}"
                if pods[0] == pods[1]
                else f"{first};{middle}G{chosen};P{pods[1]}-{chosen};{last}"
            )
        return f"{first};spine-{chosen};{last}"


@dataclass(frozen=True)
class Fault:
    """``kind``: gpu (a machine computes ``factor`` times as long), nic (a port carries 1/factor), switch, loader or
    checkpoint (``factor`` seconds before step ``first``).
    """

    kind: str
    first: int
    last: int
    factor: float
    rank: int = 0
    switch: str = ""


@dataclass(frozen=True)
class Tenant:
    """One job; times in seconds, sizes in bytes."""

    nodes: tuple[int, ...]
    gpus: int = 8
    tp: int = 8
    cp: int = 1
    pp: int = 1
    vpp: int = 1
    ep: int = 1
    mode: str = "ring"  # ring, hier, tree, dbtree, rsag, agnext, zero3, hsdp, sharp
    plan: str = "1f1b"  # 1f1b, zero (zero bubble), dual (DualPipe)
    shard: int = 0  # hsdp: this number of ranks shares one copy of the weights
    skew: float = 0.0  # variation of the experts' loads (standard deviation of their logarithm)
    rollout: int = 0  # generates samples before each group of this many steps
    async_save: int = 0  # writes a checkpoint during training after each group of this many steps
    after: float | None = None  # begins this many seconds after the tenant listed before
    steps: int = 40
    micro: int = 4
    forward: float = 0.015
    buckets: tuple[int, ...] = (402_653_184, 402_653_184, 268_435_456, 91_226_112)
    overlap: bool = True
    layers: int = 8
    act: int = 50_331_648
    varying: bool = False
    lanes: int = 1
    rate: float = 2.4e10
    begin: float = 0.8
    gap: float = 0.012
    eval_every: int = 0
    checkpoint_every: int = 0
    jitter: float = 0.006
    last_stage: float = 1.0  # factor of the compute time of the last pipeline stage
    imbalance: float = 0.0  # variation of a replica's work from step to step (standard deviation of its logarithm)
    compressed: float = (
        0.0  # variation of the size of one bucket from step to step (standard deviation of its logarithm)
    )
    both_ways: bool = False  # rings run in both directions, half of the volume each
    faults: tuple[Fault, ...] = ()
    seed: int = 1

    @property
    def world(self) -> int:
        return len(self.nodes) * self.gpus

    @property
    def dp(self) -> int:
        return self.world // (self.tp * self.cp * self.pp)

    def place(self, rank: int) -> tuple[int, int]:
        """Machine and GPU number; ranks beyond the last are the aggregation points of the switches."""
        if rank >= self.world:
            return 1000 + self.nodes[0], rank - self.world
        return self.nodes[rank // self.gpus], rank % self.gpus

    def ranks(self, stage: int, t: int) -> Whole:
        """The gradient group of a stage and tensor rank: all replicas and context ranks."""
        both = np.arange(self.dp * self.cp)
        return t + self.tp * (both + self.dp * self.cp * stage)

    def sharing(self) -> list[Whole]:
        """The gradient groups; under DualPipe the first and the last stage hold the same weights, the second and the
        second-last too, and so on.
        """
        if self.plan != "dual":
            return [self.ranks(p, t) for p in range(self.pp) for t in range(self.tp)]
        half = range(self.pp // 2)
        return [
            np.concatenate([self.ranks(p, t), self.ranks(self.pp - 1 - p, t)]) for p in half for t in range(self.tp)
        ]

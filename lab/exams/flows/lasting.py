"""Captures in which one port, leaf, machine or pair is slow from the first step to the last, and healthy ones.

There is no time before to compare with. Written apart from the other worlds of this folder: causes are simulated (who
waits for whom), records are what an exporter between them would see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

T0 = 1_790_000_000.0
#: Rank of a lane: its place in the job (replica · stages + stage), and the number of its port in the machine.
type Port = tuple[int, int]
type Record = tuple[float, float, Port, Port, float]

KINDS = ("pipeline", "rings", "experts", "sharded")
SHARES = (0.4, 0.15, 0.3, 0.15)
FAULTS = ("port", "leaf", "machine", "pair")
QUIET = ("quiet", "uneven", "heavy", "thin", "unlike")


@dataclass(frozen=True)
class Shape:
    """What a job is like. ``chunks``: each step of a ring is a record; ``waits``: a record begins when its sender is
    ready (sender), both are (both), or lasts from the sender's readiness on (held); ``cross``: the rate between
    leaves as a share; ``fault`` and ``strength``: how many times as slow.
    """

    seed: int
    kind: str
    fault: str
    strength: float
    replicas: int
    stages: int
    lanes: int
    leaves: int
    steps: int
    chunks: bool
    waits: str
    cross: float
    noise: float
    is_shuffled: bool
    by_rail: bool
    has_paths: bool
    place: tuple[int, int, int]

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"{self.fault}-{self.kind}-{self.seed}"


def shape(seed: int, fault: str) -> Shape:
    """A job drawn by its seed."""
    dice = np.random.default_rng((seed, len(fault), ord(fault[1])))
    kind = str(dice.choice(KINDS, p=SHARES))
    stages = int(dice.choice([2, 4])) if kind == "pipeline" else 1
    replicas = int(dice.choice([4, 6, 8])) if stages < 4 else 4
    lanes = int(dice.choice([1, 2, 4]))
    if stages == 1 and kind in ("rings", "sharded"):
        lanes = int(dice.choice([2, 4]))
        replicas = int(dice.choice([8, 12]))
    strength = float(dice.uniform(1.2, 1.6) if fault == "machine" else dice.uniform(1.8, 4.0))
    return Shape(
        seed=seed,
        kind=kind,
        fault=fault,
        strength=strength,
        replicas=replicas,
        stages=stages,
        lanes=lanes,
        leaves=int(dice.choice([3, 4, 6] if fault == "leaf" else [2, 3, 4])),
        steps=int(dice.integers(24, 50)),
        chunks=bool(dice.random() < 0.15),
        waits=str(dice.choice(["sender", "both", "held"])),
        cross=float(dice.choice([1.0, 0.8, 0.5])) if fault != "thin" else 0.3,
        noise=float(dice.choice([0.01, 0.03, 0.08])),
        is_shuffled=fault == "leaf" or bool(dice.random() < 0.5),
        by_rail=lanes > 1 and bool(dice.random() < 0.3),
        has_paths=bool(dice.random() < 0.5),
        place=(int(dice.integers(1 << 20)), int(dice.integers(lanes)), int(dice.integers(1 << 20))),
    )


@dataclass
class World:
    """One job in the making."""

    like: Shape
    records: list[Record] = field(default_factory=list)
    sending: defaultdict[tuple[Port, Port], float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        like = self.like
        self.dice = np.random.default_rng((like.seed, 77))
        self.machines = like.replicas * like.stages
        rows = np.arange(self.machines)
        self.row = self.dice.permutation(rows) if like.is_shuffled else rows
        self.rate = 5e9 * np.exp(self.dice.normal(0, 0.015, (self.machines, like.lanes)))
        self.speed = np.exp(self.dice.normal(0, 0.004, self.machines))
        if like.fault == "unlike":
            self.rate *= np.exp(self.dice.normal(0, 0.06, self.rate.shape))
        self.machine, self.lane = like.place[0] % self.machines, like.place[1]
        if like.fault == "machine":
            self.speed[self.machine] *= like.strength
        if like.fault == "port":
            self.rate[self.machine, self.lane] /= like.strength

    def leaf(self, port: Port) -> int:
        """The leaf that a port hangs on: of its rail, or of its row of machines."""
        if self.like.by_rail:
            return port[1] * self.like.leaves + int(self.row[port[0]]) * self.like.leaves // self.machines
        return int(self.row[port[0]]) * self.like.leaves // self.machines

    @cached_property
    def slow_pair(self) -> frozenset[Port]:
        """A pair that sends to each other, drawn among those of the lane."""
        pairs = sorted({tuple(sorted(pair)) for pair in self.ways(self.lane)})
        return frozenset(pairs[self.like.place[2] % len(pairs)])

    def leaves(self, hops: list[tuple[Port, Port]]) -> set[int]:
        """The leaves that some of these hops cross."""
        ends = [{self.leaf(a), self.leaf(b)} for a, b in hops]
        return set().union(*(pair for pair in ends if len(pair) == 2))

    def member(self, replica: int, stage: int) -> int:
        """Its machine."""
        return replica * self.like.stages + stage

    def ways(self, lane: int) -> Iterator[tuple[Port, Port]]:
        """Who sends to whom in a lane."""
        like = self.like
        for replica in range(like.replicas):
            for stage in range(like.stages):
                here = self.member(replica, stage)
                following = self.member((replica + 1) % like.replicas, stage)
                yield (here, lane), (following, lane)
                if stage + 1 < like.stages:
                    yield (here, lane), (self.member(replica, stage + 1), lane)
        if like.kind == "experts":
            yield from (((a, lane), (b, lane)) for a in range(self.machines) for b in range(self.machines) if a != b)

    def is_hit(self, a: Port, b: Port) -> bool:
        """Whether a transfer crosses what is slow."""
        if self.like.fault == "port":
            return (self.machine, self.lane) in (a, b)
        if self.like.fault == "pair":
            return self.slow_pair == {a, b}
        is_across = self.leaf(a) != self.leaf(b)
        return (
            self.like.fault == "leaf"
            and is_across
            and self.leaf((self.machine, self.lane)) in (self.leaf(a), self.leaf(b))
        )

    def seconds(self, a: Port, b: Port, size: float, share: float = 1.0) -> float:
        """How long a transfer takes that gets this share of its ports."""
        rate = min(self.rate[a], self.rate[b]) * share
        if self.leaf(a) != self.leaf(b):
            rate *= self.like.cross
        if self.like.fault in ("pair", "leaf") and self.is_hit(a, b):
            rate /= self.like.strength
        return 30e-6 + size / rate * (1.0 + abs(float(self.dice.normal(0, self.like.noise))))

    def send(self, a: Port, b: Port, size: float, ready: float, wanted: float = 0.0, share: float = 1.0) -> float:
        """One transfer after the one before on its way; ``wanted``: when the receiver asks for it. When it ended."""
        free = self.sending[a, b]
        both = ready if self.like.waits == "sender" else max(ready, wanted)
        start = max(both, free)
        end = start + self.seconds(a, b, size, share)
        self.sending[a, b] = end
        self.records.append((max(ready, free) if self.like.waits == "held" else start, end, a, b, size))
        return end

    def computed(self, machine: int, usual: float) -> float:
        """Seconds that a machine needs for some work."""
        return usual * float(self.speed[machine]) * (1.0 + abs(float(self.dice.normal(0, 0.01))))

    def ring(self, machines: list[int], lane: int, size: float, ready: list[float], passes: int = 2) -> list[float]:
        """A ring of one bucket; when each member ended."""
        count = len(machines)
        ports = [(machine, lane) for machine in machines]
        hops = [(ports[at], ports[(at + 1) % count]) for at in range(count)]
        rounds = passes * (count - 1)
        if self.like.chunks:
            at = list(ready)
            for _ in range(rounds):
                ends = [self.send(a, b, size / count, at[k]) for k, (a, b) in enumerate(hops)]
                at = [max(ends[k], ends[k - 1]) for k in range(count)]
            return at
        lasts = max(self.seconds(a, b, size / count) for a, b in hops) * rounds
        end = max(ready) + lasts
        for (a, b), start in zip(hops, ready, strict=True):
            over = end + abs(float(self.dice.normal(0, 20e-6)))
            self.records.append((start, over, a, b, size / count * rounds))
        return [end] * count


def build(like: Shape) -> tuple[pl.DataFrame, list[dict[str, str]], World]:
    """Records, inventory, and the world."""
    world = World(like)
    at = np.zeros(world.machines)
    for _ in range(like.steps):
        at = np.asarray({"pipeline": _pipeline, "experts": _experts}.get(like.kind, _sharded)(world, at))
    return _table(world), _inventory(world), world


def _pipeline(world: World, at: np.ndarray) -> np.ndarray:
    """One step of pipelines, one forward and one backward pass by turns, and the gradients' rings."""
    like, micro = world.like, 6
    work = _work(world)
    heavy = np.ones(like.stages)
    heavy[-1] = 1.3 if like.fault == "heavy" else 1.0
    done = np.zeros(world.machines)
    for replica in range(like.replicas):
        came: dict[tuple[str, int, int], list[float]] = {}
        free = [float(at[world.member(replica, stage)]) for stage in range(like.stages)]
        waiting = [_order(stage, like.stages, micro) for stage in range(like.stages)]
        while any(waiting):
            for stage in range(like.stages):
                while waiting[stage]:
                    way, batch = waiting[stage][0]
                    is_first = stage == (0 if way == "F" else like.stages - 1)
                    if not is_first and (way, stage, batch) not in came:
                        break
                    waiting[stage].pop(0)
                    machine = world.member(replica, stage)
                    ready = came.get((way, stage, batch), [0.0] * like.lanes)
                    begin = max(free[stage], *ready)
                    usual = 0.012 if way == "F" else 0.024
                    free[stage] = begin + world.computed(machine, usual * float(work[replica] * heavy[stage]))
                    following = stage + (1 if way == "F" else -1)
                    if 0 <= following < like.stages:
                        other = world.member(replica, following)
                        came[way, following, batch] = [
                            world.send((machine, lane), (other, lane), 60e6, free[stage], free[following])
                            for lane in range(like.lanes)
                        ]
        for stage in range(like.stages):
            done[world.member(replica, stage)] = free[stage]
    ended = done.copy()
    for stage in range(like.stages):
        machines = [world.member(replica, stage) for replica in range(like.replicas)]
        for lane in range(like.lanes):
            ready = [float(done[m]) for m in machines]
            for _ in range(3):
                ready = world.ring(machines, lane, 200e6, ready)
            ended[machines] = np.maximum(ended[machines], ready)
    return ended + 0.004


def _order(stage: int, stages: int, micro: int) -> list[tuple[str, int]]:
    """What a stage does one after another."""
    first = min(stages - stage, micro)
    order = [("F", batch) for batch in range(first)]
    for batch in range(micro):
        order.append(("B", batch))
        if batch + first < micro:
            order.append(("F", batch + first))
    return order


def _sharded(world: World, at: np.ndarray) -> np.ndarray:
    """One step of replicas: gradients while the backward pass runs, or weights gathered layer by layer as well."""
    like = world.like
    machines = list(range(world.machines))
    work = _work(world)
    busy = [0.05 * float(work[m]) for m in machines]
    layers, passes = 4, 2 if like.kind == "sharded" else 1
    now = [float(at[m]) for m in machines]
    if like.kind == "rings":
        now = [now[m] + world.computed(m, busy[m]) for m in machines]
    ring_ready = [[now[m] for m in machines] for _ in range(like.lanes)]
    for _ in range(passes):
        for _ in range(layers):
            now = [now[m] + world.computed(m, busy[m] / layers) for m in machines]
            for lane in range(like.lanes):
                ready = [max(now[m], ring_ready[lane][m]) for m in machines]
                ring_ready[lane] = world.ring(machines, lane, 160e6, ready, 3 - passes)
            if like.kind == "sharded":
                now = [max(ring_ready[lane][m] for lane in range(like.lanes)) for m in machines]
    ended = np.maximum(now, np.max(ring_ready, axis=0))
    return np.asarray(ended) + 0.004


def _experts(world: World, at: np.ndarray) -> np.ndarray:
    """One step with experts: attention, tokens out, experts, tokens back, for each layer both ways, then gradients."""
    like = world.like
    machines = list(range(world.machines))
    count = world.machines
    now = [float(at[m]) for m in machines]
    work = _work(world)
    for _ in range(6):
        now = [now[m] + world.computed(m, 0.008 * float(work[m])) for m in machines]
        tokens = world.dice.dirichlet(np.full(count, 40.0), count) * 120e6
        now = _exchange(world, now, tokens)
        load = tokens.sum(axis=0) / 120e6
        now = [now[m] + world.computed(m, 0.008 * float(load[m])) for m in machines]
        now = _exchange(world, now, tokens.T)
    for lane in range(like.lanes):
        ended = world.ring(machines, lane, 120e6, now)
        now = [max(one, other) for one, other in zip(now, ended, strict=True)]
    return np.array(now) + 0.004


def _exchange(world: World, now: list[float], tokens: np.ndarray) -> list[float]:
    """Everybody sends to everybody; each has what it needs when all of it came."""
    count = len(now)
    came = list(now)
    for lane in range(world.like.lanes):
        for a in range(count):
            for b in range(count):
                if a == b:
                    continue
                size = round(float(tokens[a, b]) / 4096) * 4096.0
                end = world.send((a, lane), (b, lane), size, now[a], now[b], share=1.0 / (count - 1))
                came[b], came[a] = max(came[b], end), max(came[a], end)
    return came


def _work(world: World) -> np.ndarray:
    """How much work each replica has in this step."""
    spread = 0.25 if world.like.fault == "uneven" else 0.0
    return np.exp(world.dice.normal(0, 1, max(world.machines, world.like.replicas)) * spread)


def address(port: Port) -> str:
    """The address of a port."""
    return f"10.{60 + port[1]}.{port[0] // 200}.{port[0] % 200 + 1}"


def _table(world: World) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for start, end, a, b, size in world.records:
        row = {"start_time": round(T0 + start, 6), "end": round(T0 + end, 6), "src": address(a), "dst": address(b)}
        rows.append(row | {"bytes": int(size), "switches": _path(world, a, b)})
    table = pl.DataFrame(rows).sort("start_time", "src", "dst")
    return table if world.like.has_paths else table.drop("switches")


def _path(world: World, a: Port, b: Port) -> str:
    one, other = world.leaf(a), world.leaf(b)
    return f"leaf{one}" if one == other else f"leaf{one};spine{(a[0] + b[0]) % 2};leaf{other}"


def _inventory(world: World) -> list[dict[str, str]]:
    ports = [(machine, lane) for machine in range(world.machines) for lane in range(world.like.lanes)]
    return [{"ip": address(p), "node": f"host{p[0]:02}", "switch": f"leaf{world.leaf(p)}"} for p in ports]


def suspects(world: World) -> list[set[str]]:
    """The answers that these records allow, best first: sets of addresses, or of leaves; none where nobody is at
    fault. Where a ring's records show only the ring, and others explain the same rings, no answer is wanted: [].
    """
    like = world.like
    if like.fault not in FAULTS:
        return []
    if like.fault == "machine":
        return [{f"host{world.machine:02}"}]
    units = list(_units(world))
    seen = frozenset(at for at, hops in enumerate(units) if any(world.is_hit(a, b) for a, b in hops))
    if like.fault == "pair":
        is_alone = any(len(units[at]) == 1 for at in seen)
        return [{f"host{port[0]:02}" for port in world.slow_pair}] if is_alone else []
    across = {at for at, hops in enumerate(units) if world.leaves(hops)}
    if like.fault == "leaf" and (len(seen) < 2 or len(across - seen) < 3):
        return []
    alike = [name for name, own in _places(world, units) if own == seen]
    wanted = f"host{world.machine:02}" if like.fault == "port" else f"leaf{world.leaf((world.machine, world.lane))}"
    return [set(alike)] if wanted in alike and len(set(alike)) <= 2 else []


def _units(world: World) -> Iterator[list[tuple[Port, Port]]]:
    """What is measured as one: a way, or a ring whose records show no rounds."""
    like = world.like
    for lane in range(like.lanes):
        for stage in range(like.stages):
            machines = [world.member(replica, stage) for replica in range(like.replicas)]
            ring = [((a, lane), (b, lane)) for a, b in zip(machines, [*machines[1:], machines[0]], strict=True)]
            yield from ([hop] for hop in ring) if like.chunks else [ring]
        if like.kind == "pipeline":
            yield from ([way] for way in world.ways(lane) if way[0][0] // like.stages == way[1][0] // like.stages)
        if like.kind == "experts":
            yield from ([way] for way in list(world.ways(lane))[like.replicas :])


def _places(world: World, units: list[list[tuple[Port, Port]]]) -> Iterable[tuple[str, frozenset[int]]]:
    """Each port and each leaf, with the units that cross it."""
    ports = sorted({port for hops in units for hop in hops for port in hop})
    for port in ports:
        yield f"host{port[0]:02}", frozenset(at for at, hops in enumerate(units) if any(port in hop for hop in hops))
    for leaf in sorted({world.leaf(port) for port in ports}):
        yield f"leaf{leaf}", frozenset(at for at, hops in enumerate(units) if leaf in world.leaves(hops))

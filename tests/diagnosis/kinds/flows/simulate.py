"""A small training-traffic simulator: known truth for tests and benchmarks, written against no other generator.

One job is laid out tensor ranks fastest, then data-parallel replicas, then pipeline stages; a step is one 1F1B
schedule followed by the gradient exchange. Only traffic between machines becomes records, as a network would see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

T0 = 1_700_000_000.0


@dataclass(frozen=True)
class Slow:
    """``kind``: gpu (computes ``factor`` times as long), nic (its links carry 1/factor), switch, step (``factor``
    seconds more at the start).
    """

    kind: str
    first: int
    last: int
    factor: float
    dp: int = 0
    pp: int = 0
    tp: int = 0
    switch: str = ""


@dataclass(frozen=True)
class Job:
    """What a job is like; times in seconds, sizes in bytes."""

    tp: int = 8
    pp: int = 1
    dp: int = 4
    gpus: int = 8
    steps: int = 30
    microbatches: int = 4
    forward: float = 0.02
    buckets: tuple[int, ...] = (160_000_000, 160_065_536, 90_000_000)
    activation: int = 33_554_432
    mode: str = "ring"  # ring, rsag, tree, zero3, none
    layers: int = 6
    ep: int = 1
    interleaved: bool = False
    varying: bool = False  # sequence length differs from step to step
    first_node: int = 0
    bandwidth: float = 2e10
    begin: float = 0.3
    gap: float = 0.03
    slow: tuple[Slow, ...] = ()
    seed: int = 1
    rails: bool = True  # rail-optimised fabric: one leaf a GPU number

    @property
    def world(self) -> int:
        return self.tp * self.pp * self.dp

    def rank(self, t: int, d: int, p: int) -> int:
        return t + self.tp * (d + self.dp * p)

    def node(self, rank: int) -> int:
        return self.first_node + rank // self.gpus

    def address(self, rank: int) -> str:
        node, gpu = self.node(rank), rank % self.gpus
        return f"10.{gpu + 10}.{node // 200}.{node % 200 + 1}"

    def leaf(self, rank: int) -> str:
        return f"leaf-{rank % self.gpus}" if self.rails else f"leaf-{self.node(rank) // 2}"


@dataclass
class Capture:
    """Records with their truth."""

    records: pl.DataFrame
    inventory: list[dict[str, object]]
    ends: list[float]
    pairs: dict[tuple[str, str], str]
    members: list[str]


@dataclass
class _Sink:
    job: Job
    rng: np.random.Generator
    columns: dict[str, list[np.ndarray]] = field(
        default_factory=lambda: {k: [] for k in ("start", "end", "src", "dst", "size")}
    )
    pairs: dict[tuple[int, int], str] = field(default_factory=dict)

    def add(self, start: np.ndarray, end: np.ndarray, src: np.ndarray, dst: np.ndarray, size: float, kind: str) -> None:
        for name, value in zip(
            self.columns, (start, end, src, dst, np.full(len(src), float(round(size)))), strict=True
        ):
            self.columns[name].append(np.asarray(value))
        if len(self.columns["start"]) < 4000:
            for a, b in zip(src.tolist(), dst.tolist(), strict=True):
                self.pairs.setdefault((min(a, b), max(a, b)), kind)


def schedule(forward: Sequence[float], microbatches: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of each stage's forward and backward passes under 1F1B; backward takes twice as long."""
    stages = len(forward)
    fwd, bwd = np.zeros((stages, microbatches)), np.zeros((stages, microbatches))
    order = []
    for s in range(stages):
        warm = min(stages - s - 1, microbatches)
        own = [("f", m) for m in range(warm)]
        for m in range(microbatches - warm):
            own += [("f", warm + m), ("b", m)]
        order.append(own + [("b", m) for m in range(microbatches - warm, microbatches)])
    free, at = [0.0] * stages, [0] * stages
    while any(at[s] < len(order[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(order[s]):
                kind, m = order[s][at[s]]
                need = (
                    (fwd[s - 1, m] if s else 0.0) if kind == "f" else (bwd[s + 1, m] if s < stages - 1 else fwd[s, m])
                )
                if need == 0.0 and not (kind == "f" and s == 0):
                    break
                begin = max(free[s], need)
                free[s] = begin + forward[s] * (1 if kind == "f" else 2)
                (fwd if kind == "f" else bwd)[s, m] = free[s]
                at[s] += 1
    return fwd, bwd


def simulate(job: Job) -> Capture:
    """One job's records and truth."""
    rng = np.random.default_rng(job.seed)
    sink = _Sink(job, rng)
    now, ends = job.begin, []
    rings = _rings(job)
    for k in range(job.steps):
        active = [s for s in job.slow if s.first <= k <= s.last]
        now += job.gap * rng.uniform(0.9, 1.1) + sum(s.factor for s in active if s.kind == "step")
        now = _step(job, sink, rings, now, active, rng)
        ends.append(T0 + now)
    return _finish(job, sink, ends)


def _step(
    job: Job,
    sink: _Sink,
    rings: dict[tuple[int, int], list[np.ndarray]],
    t0: float,
    slow: list[Slow],
    rng: np.random.Generator,
) -> float:
    length = rng.uniform(0.7, 1.4) if job.varying else 1.0
    done = np.zeros((job.pp, job.dp, job.tp))
    for d in range(job.dp):
        forward = np.full(job.pp, job.forward * length) * rng.normal(1, 0.004, job.pp)
        for s in slow:
            if s.kind == "gpu" and s.dp == d:
                forward[s.pp] *= s.factor
        fwd, bwd = schedule(forward, job.microbatches)
        _pipeline(job, sink, d, t0 + fwd, t0 + bwd, length, slow)
        if job.ep > 1:
            _experts(job, sink, d, t0 + fwd)
        done[:, d, :] = t0 + bwd[:, -1:] + rng.normal(0, 2e-4, (job.pp, job.tp))
    if job.mode == "zero3":
        return _zero3(job, sink, rings, t0, done, slow)
    end = float(done.max())
    if job.dp == 1 or job.mode == "none":
        return end + 0.005
    halves = ((1.0, 0),) if job.mode in ("ring", "tree") else ((0.5, 0), (0.5, 1))
    for share, phase in halves:
        if phase:
            done[:] = end + 0.004
        for (p, t), ring in rings.items():
            ready = done[p, :, t].copy()
            for bucket in job.buckets:
                finish = _collective(job, sink, ring, ready, bucket * 2 * (job.dp - 1) / job.dp * share, slow)
                ready[:] = finish
                end = max(end, finish)
    return end


def _collective(
    job: Job, sink: _Sink, hops: list[np.ndarray], ready: np.ndarray, volume: float, slow: list[Slow]
) -> float:
    """All channels of one group: every hop begins when its sender is ready and all end together."""
    finish = 0.0
    for src, dst in hops:
        size = volume / max(1, len(hops))
        rate = job.bandwidth
        touched = {job.leaf(int(r)) for r in (*src, *dst)}
        for s in slow:
            if s.kind == "nic" and job.rank(s.tp, s.dp, s.pp) in src.tolist():
                rate /= s.factor
            if s.kind == "switch" and s.switch in touched:
                rate /= s.factor
        start = ready[(src // job.tp) % job.dp] + np.abs(sink.rng.normal(0, 3e-5, len(src)))
        end = float(start.max()) + size / rate
        sink.add(start, end + sink.rng.normal(0, 2e-5, len(src)), src, dst, size, "DP")
        finish = max(finish, end)
    return finish if hops else float(ready.max()) + volume / 3e11


def _rings(job: Job) -> dict[tuple[int, int], list[np.ndarray]]:
    """For each stage and tensor rank: the channels as (senders, receivers) that cross machines."""
    out = {}
    for p in range(job.pp):
        for t in range(job.tp):
            members = np.array([job.rank(t, d, p) for d in range(job.dp)])
            nodes = np.array([job.node(int(m)) for m in members])
            each = int((nodes == nodes[0]).sum())
            hops = []
            for c in range(each):
                own = members.reshape(-1, each)[:, c]
                if len(own) < 2:
                    continue
                if job.mode == "tree":
                    child = np.arange(1, len(own))
                    up, down = own[child], own[(child - 1) // 2]
                    hops.append((np.concatenate([up, down]), np.concatenate([down, up])))
                else:
                    hops.append((own, np.roll(own, -1)))
            out[p, t] = hops
    return out


def _rate(job: Job, slow: list[Slow], a: int, b: int) -> float:
    rate = job.bandwidth
    for s in slow:
        if s.kind == "nic" and job.rank(s.tp, s.dp, s.pp) in (a, b):
            rate /= s.factor
        if s.kind == "switch" and s.switch in (job.leaf(a), job.leaf(b)):
            rate /= s.factor
    return rate


def _pipeline(job: Job, sink: _Sink, d: int, fwd: np.ndarray, bwd: np.ndarray, length: float, slow: list[Slow]) -> None:
    size = job.activation * length
    for ends, towards in ((fwd, 1), (bwd, -1)):
        for p in range(job.pp):
            other = p + towards
            if job.interleaved:
                other %= job.pp
            if not 0 <= other < job.pp or other == p:
                continue
            src = np.array([job.rank(t, d, p) for t in range(job.tp)])
            dst = np.array([job.rank(t, d, other) for t in range(job.tp)])
            apart = np.array([job.node(int(a)) != job.node(int(b)) for a, b in zip(src, dst, strict=True)])
            took = np.array(
                [size / _rate(job, slow, int(a), int(b)) for a, b in zip(src[apart], dst[apart], strict=True)]
            )
            for end in ends[p]:
                start = end + np.abs(sink.rng.normal(0, 3e-5, int(apart.sum())))
                sink.add(start, start + took, src[apart], dst[apart], size, "PP")


def _experts(job: Job, sink: _Sink, d: int, fwd: np.ndarray) -> None:
    """All-to-all among ``ep`` neighbouring replicas, twice a micro-batch."""
    group = d // job.ep * job.ep
    for p in range(job.pp):
        for m in range(job.microbatches):
            for part in (0.4, 0.8):
                at = fwd[p, m] - job.forward * part
                for t in range(job.tp):
                    src = job.rank(t, d, p)
                    peers = np.array([job.rank(t, group + e, p) for e in range(job.ep) if group + e != d])
                    peers = peers[[job.node(int(x)) != job.node(src) for x in peers]]
                    start = at + np.abs(sink.rng.normal(0, 1e-5, len(peers)))
                    sink.add(start, start + 1e-3, np.full(len(peers), src), peers, 4_194_304, "EP")


def _zero3(
    job: Job, sink: _Sink, rings: dict[tuple[int, int], list[np.ndarray]], t0: float, done: np.ndarray, slow: list[Slow]
) -> float:
    """Gathers before each layer, forward and backward, and scatters after: traffic all through the step."""
    end = t0
    each = job.forward * job.microbatches * 3 / (3 * job.layers)
    for (p, t), ring in rings.items():
        at = t0 + 0.002
        late = done[p, :, t] - done[p, :, t].min()
        for layer in [*range(job.layers), *reversed(range(job.layers))]:
            size = (job.buckets[0] * (3 if layer == 0 else 1)) * (job.dp - 1) / job.dp
            at = _collective(job, sink, ring, at + late / 12, size, slow) + each
        for layer in reversed(range(job.layers)):
            size = (job.buckets[0] * (3 if layer == 0 else 1)) * (job.dp - 1) / job.dp
            at = _collective(job, sink, ring, at + late / 12, size, slow) + (each if layer else 0.0)
        end = max(end, at)
    return end


def _finish(job: Job, sink: _Sink, ends: list[float]) -> Capture:
    columns = {k: np.concatenate(v) for k, v in sink.columns.items()}
    ranks = pl.DataFrame(
        {
            "rank": np.arange(job.world),
            "ip": [job.address(r) for r in range(job.world)],
            "leaf": [job.leaf(r) for r in range(job.world)],
        }
    )
    src, dst = columns["src"].astype(np.int64), columns["dst"].astype(np.int64)
    ip, leaf = ranks["ip"], ranks["leaf"]
    table = pl.DataFrame(
        {
            "start_time": (T0 + columns["start"]),
            "duration": np.maximum(columns["end"] - columns["start"], 1e-6),
            "src": ip.gather(src),
            "dst": ip.gather(dst),
            "src_port": 40000 + src % 20000,
            "dst_port": np.full(len(src), 4791),
            "proto": np.full(len(src), 17),
            "bytes": columns["size"].astype(np.int64),
            "packets": (columns["size"] / 4096).astype(np.int64) + 1,
            "a": leaf.gather(src),
            "b": leaf.gather(dst),
        }
    ).with_columns(
        switches=pl.when(pl.col("a") == pl.col("b")).then(pl.col("a")).otherwise(pl.format("{};spine-1;{}", "a", "b"))
    )
    inventory: list[dict[str, object]] = [
        {"ip": job.address(r), "node": f"node-{job.node(r):04d}", "gpu": r % job.gpus, "leaf": job.leaf(r)}
        for r in range(job.world)
    ]
    pairs = {tuple(sorted((job.address(a), job.address(b)))): kind for (a, b), kind in sink.pairs.items()}
    seen = sorted(set(table["src"].to_list()) | set(table["dst"].to_list()))
    return Capture(table.drop("a", "b").sort("start_time"), inventory, ends, pairs, seen)  # type: ignore[arg-type]


def noisy(
    records: pl.DataFrame,
    *,
    seed: int = 5,
    loss: float = 0.0,
    split: float = 0.0,
    merge: float = 0.0,
    twice: float = 0.0,
    grid: float = 1e-6,
) -> pl.DataFrame:
    """Records as a poor exporter would give them: lost, split, merged, repeated, on a coarse grid, in no order."""
    rng = np.random.default_rng(seed)
    table = records.filter(pl.Series(rng.random(records.height) >= loss))
    chosen = rng.random(table.height) < split
    share = rng.uniform(0.2, 0.8, table.height)
    table = table.with_columns(share=pl.Series(share), cut=pl.Series(chosen))
    first = table.with_columns(
        duration=pl.when("cut").then(pl.col("duration") * pl.col("share")).otherwise("duration"),
        bytes=pl.when("cut").then((pl.col("bytes") * pl.col("share")).cast(pl.Int64)).otherwise("bytes"),
    )
    rest = table.filter("cut").with_columns(
        start_time=pl.col("start_time") + pl.col("duration") * pl.col("share"),
        duration=pl.col("duration") * (1 - pl.col("share")),
        bytes=pl.col("bytes") - (pl.col("bytes") * pl.col("share")).cast(pl.Int64),
    )
    table = pl.concat([first, rest]).drop("share", "cut").sort("src", "dst", "start_time")
    if merge:
        follows = ((pl.col("src") == pl.col("src").shift(1)) & (pl.col("dst") == pl.col("dst").shift(1))).fill_null(
            False
        )
        joined = follows & (pl.col("start_time") - pl.col("start_time").shift(1) - pl.col("duration").shift(1) < 0.002)
        table = table.with_columns(run=(~(joined & pl.Series(rng.random(table.height) < merge))).cum_sum())
        table = (
            table.with_columns(end=pl.col("start_time") + pl.col("duration"))
            .group_by("run", maintain_order=True)
            .agg(
                pl.col("start_time").first(),
                (pl.col("end").max() - pl.col("start_time").first()).alias("duration"),
                pl.col("src", "dst", "src_port", "dst_port", "proto").first(),
                pl.col("bytes", "packets").sum(),
                pl.col("switches").first(),
            )
            .drop("run")
        )
    if twice:
        table = pl.concat([table, table.filter(pl.Series(rng.random(table.height) < twice))])
    end = ((pl.col("start_time") + pl.col("duration")) / grid).floor() * grid
    start = (pl.col("start_time") / grid).floor() * grid
    table = table.with_columns(start_time=start.round(6), duration=(end - start).round(6).clip(lower_bound=0.0))
    return table.sample(fraction=1.0, shuffle=True, seed=seed)


def together(*jobs: Job) -> list[Capture]:
    """Several jobs, each on machines of its own."""
    node, out = 0, []
    for job in jobs:
        out.append(simulate(replace(job, first_node=node)))
        node += max(1, job.world // job.gpus)
    return out

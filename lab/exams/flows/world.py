"""A simulator for exams of the flow engine: fabrics, schedules, collectives and faults with known truth.

Shares no code with the engine or with the tests' simulator. Ranks are laid out tensor, context, data, pipeline
(Megatron's order); a step is one (interleaved) 1F1B schedule whose gradient exchange overlaps with the last backward
pass. Only traffic between machines becomes a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lab.exams.flows.schedules import greedy
from lab.exams.flows.tenants import Fabric, Fault, Tenant, Whole

Array = npt.NDArray[np.float64]
KINDS = ("DP", "PP", "EP", "OTHER")
SYNC, PIPE, EXPERT, CONTEXT = range(4)


@dataclass
class Sent:
    """Records as columns: ranks of one tenant, seconds, bytes, kind and connection."""

    start: list[Array] = field(default_factory=list)
    end: list[Array] = field(default_factory=list)
    src: list[Whole] = field(default_factory=list)
    dst: list[Whole] = field(default_factory=list)
    size: list[Array] = field(default_factory=list)
    kind: list[Whole] = field(default_factory=list)
    lane: list[Whole] = field(default_factory=list)


def orders(stages: int, micro: int, chunks: int) -> list[list[tuple[str, int, int]]]:
    """Each stage's (kind, micro-batch, chunk) under (interleaved) one-forward-one-backward."""

    def unit(k: int, *, back: bool) -> tuple[int, int]:
        turn, inside = divmod(k, stages * chunks)
        chunk = inside // stages
        return turn * stages + inside % stages, chunks - 1 - chunk if back else chunk

    total = micro * chunks
    out = []
    for p in range(stages):
        warm = min(total, stages - p - 1 if chunks == 1 else 2 * (stages - p - 1) + (chunks - 1) * stages)
        own: list[tuple[str, int, int]] = [
            ("f", *unit(k, back=False)) if chunks > 1 else ("f", k, 0) for k in range(warm)
        ]
        for k in range(total):
            if warm + k < total:
                own.append(("f", *unit(warm + k, back=False)) if chunks > 1 else ("f", warm + k, 0))
            own.append(("b", *unit(k, back=True)) if chunks > 1 else ("b", k, 0))
        out.append(own)
    return out


def pipeline(
    job: Tenant, seconds: Array, hop: float, micro: int, rng: np.random.Generator, *, back: bool = True
) -> tuple[Array, Array]:
    """Ends of forward and backward passes [stage, chunk, micro-batch, replica]; ``seconds`` [stage, replica] a
    forward pass of a whole stage.
    """
    v = job.vpp
    f = np.full((job.pp, v, micro, seconds.shape[1]), np.nan)
    b = f.copy()
    plan = orders(job.pp, micro, v)
    if not back:
        plan = [[op for op in own if op[0] == "f"] for own in plan]
    free = np.zeros_like(seconds)
    at = [0] * job.pp
    left = sum(len(own) for own in plan)
    while left:
        before = left
        for p in range(job.pp):
            while at[p] < len(plan[p]):
                kind, m, c = plan[p][at[p]]
                if kind == "f":
                    need = (
                        np.zeros(seconds.shape[1])
                        if p == 0 and c == 0
                        else (f[p - 1, c, m] if p else f[job.pp - 1, c - 1, m]) + hop
                    )
                elif p == job.pp - 1 and c == v - 1:
                    need = f[p, c, m]
                else:
                    need = (b[p + 1, c, m] if p < job.pp - 1 else b[0, c + 1, m]) + hop
                if np.isnan(need).any():
                    break
                took = seconds[p] / v * (1 if kind == "f" else 2) * rng.normal(1, job.jitter, seconds.shape[1])
                free[p] = np.maximum(free[p], need) + took
                (f if kind == "f" else b)[p, c, m] = free[p]
                at[p] += 1
                left -= 1
        assert left < before, "the schedule waits for itself"
    return f, b


class Run:
    """Simulates one tenant step by step; ``sent``, ``begins``, ``ends`` and ``windows`` of faults are the truth."""

    def __init__(self, job: Tenant, fabric: Fabric) -> None:
        self.job, self.fabric = job, fabric
        self.rng = np.random.default_rng(job.seed)
        self.sent = Sent()
        self.begins: list[float] = []
        self.ends: list[float] = []
        self.storage: list[tuple[float, float]] = []
        self.node = np.append(np.arange(job.world) // job.gpus, 10_000 + np.arange(job.gpus))
        self.load = self.rng.lognormal(0, job.skew, job.ep) if job.skew else np.ones(job.ep)
        self.slow: tuple[Fault, ...] = ()
        self._touch: dict[tuple[int, int, int], frozenset[str]] = {}
        now = job.begin
        for k in range(job.steps):
            self.slow = tuple(x for x in job.faults if x.first <= k <= x.last)
            if job.eval_every and k and k % job.eval_every == 0:
                now = self._evaluate(now + 0.02)
            pause = sum(x.factor for x in self.slow if x.kind in ("loader", "checkpoint"))
            if any(x.kind == "checkpoint" for x in self.slow):
                self.storage.append((now, now + pause))
            if job.checkpoint_every and k and k % job.checkpoint_every == 0:
                self.storage.append((now, now + 0.4))
                now += 0.4
            if job.async_save and k and k % job.async_save == 0:
                self.storage.append((now, now + 0.6))
            if job.rollout and k % job.rollout == 0:
                pause += float(self.rng.uniform(0.8, 1.6))
            now += job.gap * self.rng.uniform(0.9, 1.1) + pause
            self.begins.append(now)
            now = self._step(now)
            self.ends.append(now)

    def _speeds(self, scale: float) -> Array:
        job = self.job
        out = np.full((job.pp, job.dp), job.forward * scale) * self.rng.normal(1, 0.002, (job.pp, job.dp))
        for x in self.slow:
            if x.kind == "gpu":
                per = job.tp * job.cp
                own = np.arange(x.rank // job.gpus * job.gpus, (x.rank // job.gpus + 1) * job.gpus)
                replica, stage = own // per % job.dp, own // (per * job.dp)
                out[stage, replica] = job.forward * scale * x.factor
        out[-1] *= job.last_stage
        if job.imbalance:  # sequences of other lengths in each replica
            out *= self.rng.lognormal(0, job.imbalance, job.dp)
        return out

    def rates(self, src: Whole, dst: Whole, lane: int) -> Array:
        """Bytes a second of each hop at this time, with the faults."""
        rate = np.full(len(src), self.job.rate)
        for x in self.slow:
            if x.kind == "nic":
                rate[(src == x.rank) | (dst == x.rank)] /= x.factor
            if x.kind == "switch":
                for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
                    key = a, b, lane
                    if key not in self._touch:
                        text = self.fabric.path(self.job.place(a), self.job.place(b), lane)
                        self._touch[key] = frozenset(text.split(";"))
                    if x.switch in self._touch[key]:
                        rate[i] /= x.factor
        return rate

    def send(self, kind: int, src: Whole, dst: Whole, start: Array, took: Array, size: float) -> None:
        """Adds transfers that cross machines, split over the connections."""
        cross = self.node[src] != self.node[dst]
        src, dst, start, took = src[cross], dst[cross], start[cross], took[cross]
        for lane in range(self.job.lanes):
            self.sent.start.append(start + np.abs(self.rng.normal(0, 1e-5, len(src))))
            self.sent.end.append(start + took + self.rng.normal(0, 1.5e-5, len(src)))
            self.sent.src.append(src)
            self.sent.dst.append(dst)
            self.sent.size.append(np.full(len(src), float(round(size / self.job.lanes))))
            self.sent.kind.append(np.full(len(src), kind))
            self.sent.lane.append(np.full(len(src), lane))

    def _hops(self, members: Whole) -> list[tuple[Whole, Whole, float]]:
        """The hops of one collective as (senders, receivers, share of the volume), one entry a channel."""
        nodes = self.node[members]
        each = int((nodes == nodes[0]).sum())
        out: list[tuple[Whole, Whole, float]] = []
        for rail in range(each):
            own = members.reshape(-1, each)[:, rail]
            if len(own) < 2:
                continue
            if self.job.mode == "sharp":
                middle = np.full(len(own), self.job.world + int(own[0]) % self.job.gpus)
                out.append((np.concatenate([own, middle]), np.concatenate([middle, own]), 1.0 / each))
                continue
            if self.job.mode in ("tree", "dbtree"):
                trees = 1 if self.job.mode == "tree" else 2
                for turn in range(trees):
                    order = np.roll(own, turn) if turn == 0 else np.roll(own[::-1], turn)
                    child = np.arange(1, len(order))
                    up, down = order[child], order[(child - 1) // 2]
                    out.append((np.concatenate([up, down]), np.concatenate([down, up]), 1.0 / trees / each))
            else:
                ways = (-1, 1) if self.job.both_ways else (-1,)
                out += [(own, np.roll(own, way), 1.0 / len(ways) / each) for way in ways]
        return out

    def collective(self, members: Whole, ready: Array, volume: float) -> float:
        """All hops begin when their sender is ready and end together at the pace of the slowest; returns that end."""
        finish = float(ready.max())
        of = {int(m): i for i, m in enumerate(members)}
        of |= {self.job.world + g: int(ready.argmax()) for g in range(self.job.gpus)}  # reduces what has arrived last
        blur = float(self.rng.lognormal(0, 0.012))
        for src, dst, share in self._hops(members):
            size = volume * share
            rate = min(float(self.rates(src, dst, lane).min()) for lane in range(self.job.lanes))
            start = ready[[of[int(s)] for s in src]] + np.abs(self.rng.normal(0, 4e-5, len(src)))
            end = max(float(start.max()), float(ready.max())) + size / rate * blur
            self.send(SYNC, src, dst, start, end - start, size)
            finish = max(finish, end)
        return finish if len(members) > 1 else finish + volume / 3e11

    def _step(self, t0: float) -> float:
        job = self.job
        scale = float(self.rng.uniform(0.65, 1.5)) if job.varying else 1.0
        if job.skew:
            self.load *= self.rng.lognormal(0, job.skew / 4, job.ep)
        hop = job.act * scale / job.rate
        if job.plan == "1f1b":
            f, b = pipeline(job, self._speeds(scale), hop, job.micro, self.rng)
            self._exchange(t0 + f, t0 + b, scale)
            done = t0 + np.nanmax(b[:, :, -1, :], axis=1)  # [stage, replica]
        else:
            dual = job.plan == "dual"
            ways, over = greedy(self._speeds(scale), hop, job.micro, self.rng, dual=dual, jitter=job.jitter)
            done = t0 + over
            self._exchange(t0 + ways[0][0], t0 + ways[0][1], scale)
            if dual:  # up the ranks goes what this direction hands back
                self._exchange(t0 + ways[1][1], t0 + ways[1][0], scale)
        if job.mode in ("zero3", "hsdp"):
            return self._gathered(t0, done)
        return self._gradients(done, 2 * job.forward * scale / job.vpp)

    def _exchange(self, f: Array, b: Array, scale: float) -> None:
        """Activations along the pipeline, context rings and experts' all-to-all, forward and backward."""
        job = self.job
        per = job.tp * job.cp
        inner = np.arange(per)
        size = job.act * scale
        for ends, step in ((f, 1), (b, -1)):
            passes = 1 if step > 0 else 2
            for p in range(job.pp):
                for c in range(job.vpp):
                    to, turn = (p + step) % job.pp, (p == job.pp - 1 and step > 0) or (p == 0 and step < 0)
                    leaves = job.pp > 1 and not (turn and c == (job.vpp - 1 if step > 0 else 0))
                    for m in range(ends.shape[2]):
                        if np.isnan(ends[p, c, m]).any():
                            continue
                        at = np.repeat(ends[p, c, m], per)
                        replica = np.repeat(np.arange(job.dp), per)
                        src = np.tile(inner, job.dp) + per * (replica + job.dp * p)
                        if leaves:
                            dst = np.tile(inner, job.dp) + per * (replica + job.dp * to)
                            self.send(PIPE, src, dst, at, size / self.rates(src, dst, 0), size)
                        if job.tp > job.gpus:
                            self._tensor(src, at, passes, scale)
                        if job.cp > 1:
                            self._context(src, at, passes, scale)
                        if job.ep > 1:
                            self._experts(src, at, passes, scale)

    def _tensor(self, src: Whole, end: Array, passes: int, scale: float) -> None:
        """Layers reduced over tensor ranks on several machines, in both directions of a pass."""
        job = self.job
        place = src % job.tp
        dst = src + (place + 1) % job.tp - place
        size = job.act / 2 * scale * 2 * (job.tp - 1) // job.tp
        for layer in range(4):
            start = end - job.forward * passes * scale * (0.95 - 0.24 * layer)
            self.send(CONTEXT, src, dst, start, size / self.rates(src, dst, 0), size)

    def _context(self, src: Whole, end: Array, passes: int, scale: float) -> None:
        job = self.job
        place = src // job.tp % job.cp
        dst = src + ((place + 1) % job.cp - place) * job.tp
        size = job.act / 6 * scale
        for hop in range(job.cp - 1):
            start = end - job.forward * passes * scale * (0.9 - 0.8 * hop / job.cp)
            self.send(CONTEXT, src, dst, start, size / self.rates(src, dst, 0), size)

    def _experts(self, src: Whole, end: Array, passes: int, scale: float) -> None:
        job = self.job
        place = src // (job.tp * job.cp) % job.ep
        group = src - place * job.tp * job.cp
        _, of = np.unique(group, return_inverse=True)  # no rank starts before all have arrived
        last = np.full(of.max() + 1, -np.inf)
        np.maximum.at(last, of, end)
        end = last[of]
        for part in (0.7, 0.3):
            for other in range(1, job.ep):
                dst = src + ((place + other) % job.ep - place) * job.tp * job.cp
                size = job.act / 4 / job.ep * (self.rng.uniform(0.85, 1.15) if job.varying else 1.0)
                if job.skew:  # all tokens of a step for one expert: the busiest delays the exchange
                    size *= float(self.load[other] / self.load.mean() * self.rng.lognormal(0, job.skew / 3))
                start = end - job.forward * passes * scale * part
                self.send(EXPERT, src, dst, start, size * (job.ep - 1) / self.rates(src, dst, 0), size)

    def _gradients(self, done: Array, tail: float) -> float:
        job = self.job
        end = float(done.max())
        count = len(job.buckets)
        ended = np.repeat(np.repeat(done, job.cp, axis=1).ravel(), job.tp)  # of each rank
        groups = [(members, ended[members]) for members in job.sharing()]
        n = len(groups[0][0])
        after: list[tuple[Whole, float]] = []
        for members, ready_at in groups:
            free = 0.0
            shares = [(members, ready_at, size) for size in job.buckets]
            if job.ep > 1:
                for e in range(job.ep):
                    mine = np.arange(n) // job.cp % job.ep == e
                    shares.append((members[mine], ready_at[mine], job.buckets[0] // 2))
            for i, (own, ready, size) in enumerate(shares):
                k = len(own)
                if job.compressed:
                    size = int(size * self.rng.lognormal(0, job.compressed))
                early = tail * (1 - min(1.0, (i + 1) / count)) * 0.8 if job.overlap else 0.0
                one_way = job.mode in ("rsag", "agnext")
                volume = size * (1 if one_way else 2) * (k - 1) / k // (k - 1 or 1) * (k - 1 or 1)
                if job.mode in ("tree", "dbtree", "sharp"):
                    volume = size
                if job.mode == "hier":  # inside the machine first; the rails' rings then carry an equal share each
                    nodes = len(np.unique(self.node[own]))
                    volume = k // nodes * (2 * (nodes - 1) * (size // (k // nodes) // nodes))
                free = self.collective(own, np.maximum(ready - early, free), volume)
            after.append((members, free))
            end = max(end, free)
        if job.mode in ("rsag", "agnext") and n > 1:
            begin = end + 0.004 if job.mode == "rsag" else 0.0
            for members, free in after:
                at = begin or free + 0.004
                for size in job.buckets[::-1]:
                    at = self.collective(members, np.full(n, at), size * (n - 1) / n // (n - 1) * (n - 1))
                end = max(end, at)
        return end

    def _gathered(self, t0: float, done: Array) -> float:
        """Weights gathered before each layer, forward and backward; gradients scattered after it."""
        job = self.job
        n = job.dp * job.cp
        layer_s = (float(done.max()) - t0) / (3 * job.layers)
        lag = (done - done.min()) / (3 * job.layers)
        end = t0
        for p in range(job.pp):
            for t in range(job.tp):
                members = job.ranks(p, t)
                late = np.repeat(lag[p], job.cp)
                at = t0 + 0.001
                if job.mode == "hsdp":
                    end = max(end, self._hybrid(members.reshape(-1, job.shard), at, late, layer_s))
                    continue
                sizes = [
                    job.buckets[0] // 2 * (3 if i == 0 else 1) * (n - 1) / n // (n - 1) * (n - 1)
                    for i in range(job.layers)
                ]
                for size in sizes:
                    at = self.collective(members, at + late, size) + layer_s * 0.9
                for size in sizes[::-1]:
                    at = self.collective(members, at + late, size) + layer_s * 1.8
                    at = self.collective(members, np.full(n, at), size)
                end = max(end, at)
        return end

    def _hybrid(self, groups: Whole, at: float, late: Array, layer_s: float) -> float:
        """Weights gathered and gradients scattered within each row of ``groups``, then reduced over its columns."""
        copies, shard = groups.shape
        slow = late.reshape(copies, shard)
        part = self.job.buckets[0] // 2 // shard
        free = np.full(copies, at)
        ends = [at]
        for layer in range(2 * self.job.layers):
            back = layer >= self.job.layers
            for c in range(copies):
                moved = self.collective(groups[c], free[c] + slow[c], part * (shard - 1))
                free[c] = moved + layer_s * (1.8 if back else 0.9)
                if back:
                    free[c] = self.collective(groups[c], np.full(shard, free[c]), part * (shard - 1))
            if back:  # during the next layer's computing
                ready = free.copy()
                chunk = part // copies
                ends += [self.collective(groups[:, m], ready, 2 * (copies - 1) * chunk) for m in range(shard)]
        return max(float(free.max()), *ends)

    def _evaluate(self, t0: float) -> float:
        """Forward passes only: pipeline (and gathered weights) but no gradients."""
        f, _ = pipeline(
            self.job, self._speeds(1.0), self.job.act / self.job.rate, 3 * self.job.micro, self.rng, back=False
        )
        self._exchange(t0 + f, np.full_like(f, np.nan), 1.0)
        return t0 + float(np.nanmax(f)) + 0.02

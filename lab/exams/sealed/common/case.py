"""One made-up job while it is written: machines, a clock, lines with their part in the failure, and the truth."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.exams.job import Job
from lab.exams.sealed.common.clock import Clock, clock

if TYPE_CHECKING:
    from lab.exams.sealed.common.voice import Voice

ROOT, SECOND, CONTEXT = "root", "secondary", "context"


class Line(NamedTuple):
    """One physical line of a file; ``at``: seconds since the job's start on a true clock."""

    at: float
    order: int
    path: str
    text: str
    role: str
    tid: str


class Case:
    """``family`` draws what all jobs of a voice share under one seed, ``seed`` what is this job's own.

    ``v`` is the machine that a course harms, ``vr`` a rank on it, ``w`` another machine, ``rack`` the machines of the
    victim's leaf. ``variant`` chooses wordings of this job. ``n`` counts finished iterations, ``shown`` is the last one
    that was printed in this attempt.
    """

    def __init__(self, voice: Voice, seed: str, family: str, low: int = 4, high: int = 64) -> None:
        kin, rng = random.Random(family), random.Random(seed)
        self.voice, self.rng, self.kin = voice, rng, kin
        self.dialect = kin.randrange(840)
        self.zone: float = kin.choice((0, 0, 0, 1, 2, 8, -7, -4, 5.5))
        self.run, self.user = kin.choice(voice.runs), kin.choice(voice.users)
        self.per: int = kin.choice(voice.per)
        self.every: int = kin.choice(voice.every)
        self.pace: float = kin.uniform(*voice.pace)
        self.job: str = voice.job_id(rng)
        self.t0 = 1_757_000_000 + rng.randrange(6_000_000) + rng.random()
        sizes = [k for k in (4, 4, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32, 48, 64) if low <= k <= min(high, voice.most)]
        count = rng.choice(sizes)
        self.nodes = voice.hosts(self, count)
        net = kin.randrange(10, 250)
        self.ips = [f"10.{net}.{1 + k // 200}.{11 + k % 200}" for k in rng.sample(range(600), count)]
        size = min(rng.choice((4, 4, 8)), count // 2)
        self.leaf = [f"{voice.leaf}{2 + 3 * (k // size):02d}" for k in range(count)]
        self.world = count * self.per
        self.pids = [rng.randrange(2_000, 900_000) for _ in range(self.world)]
        self.boot_at = [rng.uniform(2e5, 6e6) for _ in range(count)]
        self.skew = [rng.gauss(0, 0.004) for _ in range(count)]
        self.v, self.w = rng.sample(range(count), 2)
        self.variant = rng.randrange(840)
        self.vr = self.v * self.per + rng.randrange(self.per)
        if rng.random() < 0.12:
            self.skew[self.w] = rng.choice((-1, 1)) * rng.uniform(15, 200)
        self.rack = [k for k in range(count) if self.leaf[k] == self.leaf[self.v]]
        self.gone: set[int] = set()
        self.dead: set[int] = set()
        self.lines: list[Line] = []
        self.now, self.took, self.bump, self.gnorm = 0.0, self.pace, 0.0, 1.0
        self.n = self.first = rng.choice((0, 0, 0, rng.randrange(1, 60) * 100, rng.randrange(1, 900) * 50))
        self.total = self.first + rng.randrange(20, 400) * 100
        self.saved, self.attempt = self.n, 0
        self.shown: int | None = None
        self.marked: tuple[int, int | None] | None = None
        self.truth: dict[str, Any] = {"healthy": True, "outcome": "succeeded", "profile": voice.name}
        self.extra: dict[str, bytes] = {}

    # ---- machines

    def node(self, rank: int) -> int:
        """The machine of a rank."""
        return rank // self.per

    def host(self, rank: int) -> str:
        """The name of a rank's machine."""
        return self.nodes[rank // self.per]

    def machine(self, node: int) -> str:
        """The machine below a pod, where the scheduler's events name it; else the node itself."""
        below = getattr(self.voice.sched, "machine", None)
        return str(below(self, node)) if below else self.nodes[node]

    @property
    def victim(self) -> str:
        """The name of the machine that a course harms."""
        return self.nodes[self.v]

    def alive(self) -> list[int]:
        """Ranks that still print."""
        return [r for r in range(self.world) if r // self.per not in self.gone and r not in self.dead]

    def peers(self) -> list[int]:
        """Ranks on other machines than the victim that still print."""
        return [r for r in self.alive() if r // self.per != self.v]

    def firsts(self) -> list[int]:
        """The first rank of every machine that still prints."""
        return [k * self.per for k in range(len(self.nodes)) if k not in self.gone]

    def some(self, ranks: Sequence[int], low: int, high: int) -> list[int]:
        """So many of some ranks, in order."""
        return sorted(self.rng.sample(list(ranks), min(len(ranks), self.rng.randint(low, high))))

    # ---- lines

    def stamp(self, node: int | None, dt: float = 0.0) -> tuple[Clock, int]:
        """Clock and microseconds of a machine."""
        at = self.t0 + self.now + dt + (0.0 if node is None else self.skew[node])
        second = int(at)
        return clock(second, self.zone), int((at - second) * 1e6)

    def utc(self, node: int | None, dt: float = 0.0) -> tuple[Clock, int]:
        """The same, as collectors that write UTC print it."""
        at = self.t0 + self.now + dt + (0.0 if node is None else self.skew[node])
        return clock(int(at), 0), int(at % 1 * 1e6)

    def add(self, path: str, text: str, role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line as it stands in a file."""
        self.lines.append(Line(self.now + dt, len(self.lines), path, text, role, tid))

    def raw(self, rank: int, text: str, role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line that a rank prints without a logger."""
        if rank not in self.dead and rank // self.per not in self.gone:
            path, text = self.voice.put(self, rank, text, dt)
            self.add(path, text, role, tid, dt)

    def agent(self, rank: int, text: str, role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line of the launcher's agent on a rank's machine."""
        if rank // self.per not in self.gone:
            path, text = self.voice.agent(self, rank, text, dt)
            self.add(path, text, role, tid, dt)

    def log(self, rank: int, text: str, level: str = "I", role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line of a rank's logger; ``level``: D I W E."""
        self.raw(rank, self.voice.head(self, rank, level, text, dt), role, tid, dt)

    def trace(self, rank: int, what: Sequence[str], role: str, tid: str, where: str = "step", dt: float = 0.0) -> None:
        """A traceback through the program; its last lines say ``what``, the first of them has the role."""
        tag = self.voice.tag(self, rank)
        self.raw(rank, f"{tag}Traceback (most recent call last):", CONTEXT, "", dt)
        for entry in (*self.voice.frames["main"], *self.voice.frames[where]):
            path, line, name, code = entry.split("|")
            self.raw(rank, f'{tag}  File "{path}", line {line}, in {name}', CONTEXT, "", dt)
            self.raw(rank, f"{tag}    {code}", CONTEXT, "", dt)
        for k, text in enumerate(what):
            self.raw(rank, f"{tag}{text}", role if k == 0 else CONTEXT, tid if k == 0 else "", dt)

    def kern(self, node: int, text: str, role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line of a machine's kernel."""
        if node not in self.gone:
            path, text = self.voice.kernel(self, node, text, dt)
            self.add(path, text, role, tid, dt)

    def unit(self, node: int, who: str, text: str, role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line of a service of a machine (``who``: its name and pid) in the machine's system log."""
        if node not in self.gone:
            path, text = self.voice.service(self, node, who, text, dt)
            self.add(path, text, role, tid, dt)

    def ctl(self, text: str, role: str = "", tid: str = "", dt: float = 0.0) -> None:
        """A line of the scheduler."""
        path, text = self.voice.control(self, text, dt)
        self.add(path, text, role, tid, dt)

    def died(self, rank: int, code: int, role: str = SECOND, tid: str = "died") -> None:
        """The launcher's word about a process that ended; a negative code is a signal."""
        self.voice.sched.died(self, rank, code, role, tid)

    def closed(self, how: str, role: str = SECOND, tid: str = "closed") -> None:
        """The scheduler's word about the job: done, fail, cancel, limit, preempt or lost."""
        self.voice.sched.closed(self, how, role, tid)

    def wait(self, low: float, high: float | None = None) -> None:
        """Time goes by."""
        self.now += self.rng.uniform(low, low if high is None else high)

    # ---- training

    def loss(self) -> float:
        """A loss that falls and trembles."""
        return 1.6 + 8.0 / float((1 + self.n / 90) ** 0.45) + self.rng.gauss(0, 0.03) + self.bump

    def train(self, low: int, high: int, slow: float = 1.0, save: int = 0) -> None:
        """So many iterations, each ``slow`` times as long as usual; a checkpoint every ``save``."""
        for k in range(1, self.rng.randint(low, high) + 1):
            self.took = self.pace * slow * (1 + abs(self.rng.gauss(0, 0.02)))
            self.now += self.took
            self.n += 1
            if self.n % self.every == 0:
                self.voice.step(self)
                self.shown = self.n
            for _ in range(int(self.rng.expovariate(1 / (0.15 + 0.04 * len(self.nodes))))):
                self.voice.chatter(self)
            if save and k % save == 0:
                self.save()

    def save(self) -> None:
        """A whole checkpoint."""
        self.voice.save(self, True)
        self.wait(4, 30)
        self.voice.save(self, False)
        self.saved = self.n

    def evaluate(self) -> None:
        """A whole evaluation."""
        self.voice.evaluate(self, True)
        self.wait(20, 140)
        self.voice.evaluate(self, False)

    def ready(self) -> None:
        """Everything until the first iteration."""
        self.voice.launched(self)
        self.voice.boot(self)

    def mark(self) -> None:
        """The next iteration is the one that fails."""
        self.marked = (self.n + 1, self.shown)

    def again(self) -> None:
        """The same job is started once more from its last checkpoint."""
        self.wait(60, 240)
        self.attempt += 1
        self.n, self.shown = self.saved, None
        self.gone.clear()
        self.dead.clear()
        self.pids = [self.rng.randrange(2_000, 900_000) for _ in range(self.world)]

    # ---- truth

    def blame(
        self,
        verdict: str,
        symptom: str,
        stage: str,
        faulty: Iterable[int] = (),
        *,
        origin: Iterable[int] = (),
        affected: Iterable[int] = (),
        also: str = "",
        switch: str = "",
        outcome: str = "failed",
    ) -> None:
        """What is true: ``verdict`` is ``category/subcategory``, ``also`` further ones that count as right; further
        words of ``symptom`` and ``stage`` count as right, too."""
        pairs = [pair.split("/") for pair in (verdict, *also.split())]
        kinds, stages = symptom.split(), stage.split()
        named = {"faulty_nodes": faulty, "origin_nodes": origin, "affected_nodes": affected}
        self.truth = {
            **{"healthy": False, "profile": self.voice.name, "outcome": outcome},
            **{"category": pairs[0][0], "subcategory": pairs[0][1], "symptom": kinds[0], "stage": stages[0]},
            "category_accept": list(dict.fromkeys(p[0] for p in pairs)),
            "subcategory_accept": [p[1] for p in pairs],
            **{"symptom_accept": kinds, "stage_accept": stages},
            **{k: sorted({self.machine(n) for n in held}) for k, held in named.items()},
            **{"n_nodes": len(self.nodes), "switch": switch},
        }

    def finished(self, name: str) -> Job:
        """The job as it was uploaded."""
        rows: dict[str, list[Line]] = defaultdict(list)
        for line in sorted(self.lines):
            rows[line.path].append(line)
        where: dict[str, Any] = {}
        examples: dict[tuple[str, str], list[str]] = defaultdict(list)
        for path, held in rows.items():
            for k, line in enumerate(held, 1):
                if line.role:
                    where.setdefault(line.role, {}).setdefault(path, {}).setdefault(line.tid, []).append([k, k])
                    examples[line.role, line.tid].append(line.text)
        data = {path: "".join(f"{x.text}\n" for x in held).encode() for path, held in sorted(rows.items())}
        self._cut(rows, data)
        data |= self.extra
        if self.rng.random() < 0.35:
            data["job.json"] = self._described()
        truth = dict(self.truth)
        if not truth["healthy"]:
            failed, shown = self.marked or (None, None)
            is_told = failed is not None and shown is not None
            truth["iteration"] = {"applicable": is_told, "failed": failed, "last_logged": shown}
            truth["lines"] = where
            truth["templates"] = [
                {"id": tid, "role": role, "examples": held[:3]}
                for (role, tid), held in examples.items()
                if role in (ROOT, SECOND)
            ]
        return Job(name, self.voice.name, data, truth)

    def _cut(self, rows: dict[str, list[Line]], data: dict[str, bytes]) -> None:
        """Collectors lose the end of a file now and then, but of no line that a truth speaks of."""
        for path, held in rows.items():
            if len(held) > 30 and not held[-1].role and self.rng.random() < 0.06:
                end = data[path][: -self.rng.randrange(2, 20)].decode(errors="ignore").encode()
                if end.count(b"\n") == len(held) - 1:
                    data[path] = end

    def _described(self) -> bytes:
        """What the person who uploads knows of the machines."""
        names = [self.machine(k) for k in range(len(self.nodes))]
        nodes = [{"name": n, "ip": i, "leaf": s} for n, i, s in zip(names, self.ips, self.leaf, strict=True)]
        told = {"job_id": self.job, "nodes": nodes, "gpus_per_node": self.per, "world_size": self.world}
        return json.dumps({**told, "log_timezone_hours": self.zone}).encode()

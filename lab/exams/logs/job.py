"""Builds one made-up job: its files, and its truth in the form of the practice set's truth."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.exams.logs.model import LAUNCHERS, LIBRARIES, Cause, Framework, Variant

_LINE = re.compile(r"(\w+) (\w+) (\w+)((?: [*+@]?[\w.-]+)*) \| (.*)", re.S)
_NAMES = ("dgx-a{r}-{k:03d}", "ip-10-{r}-7-{k}", "x30{r}c0s{k}b0n0", "g{r}n{k:02d}", "trainer-{r}-{k}", "cn{r}{k:03d}")
_RECOVERED = (
    "Retrying (Retry(total=2)) after connection broken by ReadTimeoutError: /api/runs",
    "wandb: Network error (ConnectionError), entering retry loop.",
    "metric export failed: Connection refused, next attempt in 30 s",
)
_KERNEL = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "systemd[1]: node-exporter.service: Main process exited, code=exited, status=1/FAILURE",
    "perf: interrupt took too long (3211 > 3130), lowering kernel.perf_event_max_sample_rate to 62000",
    "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
)


@dataclass
class Entry:
    """One write: its lines stay together. ``role`` of each line is root, secondary, context or empty."""

    t: float
    path: str
    lines: list[tuple[str, str, str]]


@dataclass
class Job:
    """A job under construction; ``files()`` and ``truth()`` return the result."""

    seed: str
    framework: Framework
    cause: Cause | None
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        f = self.framework
        self.id = f"{rng.randrange(10**5, 10**6)}"
        self.launcher = LAUNCHERS[f.launcher]
        pattern, r = rng.choice(_NAMES), rng.randrange(1, 10)
        numbers = sorted(rng.sample(range(1, 90), rng.choice((4, 6, 8, 12))))
        self.nodes = [pattern.format(r=r, k=k) for k in numbers]
        self.ips = [f"10.{r}.7.{k}" for k in numbers]
        self.per = rng.choice((2, 4))
        self.world = self.per * len(self.nodes)
        self.t0 = datetime(2026, 2, 1, tzinfo=UTC).timestamp() + rng.randrange(10**7)
        self.zone = rng.choice((0, 0, 0, 8, -5)) if f.stamp and not f.stamp.endswith("Z") else 0
        self.skew = (
            {rng.randrange(len(self.nodes)): rng.choice((-1, 1)) * rng.uniform(20, 120)} if rng.random() < 0.3 else {}
        )
        self.first_n = rng.choice((0, rng.randrange(100, 9000)))
        self.steps = rng.randrange(24, 60)
        self.begin = 90 + rng.random() * 60
        self.pids = [rng.randrange(2000, 90000) for _ in range(self.world)]
        self.comm = f"{rng.getrandbits(48):012x}"
        self.victim = rng.randrange(1, len(self.nodes))
        self.rank = self.victim * self.per + rng.randrange(self.per)
        self.some = sorted(rng.sample(range(len(self.nodes)), max(2, len(self.nodes) // 2)))
        self.kernel_style = rng.randrange(3)
        self.variant = self._variant()
        self.has_description = rng.random() < 0.8
        self._write()

    def _variant(self) -> Variant | None:
        if self.cause is None:
            return None
        vendor = self.framework.vendor
        fits = [v for v in self.cause.variants if vendor in v.vendors.split() or v.vendors == "any"]
        own = [v for v in fits if v.vendors != "any"]
        return self.rng.choice(own if own and self.rng.random() < 0.6 else fits)

    # ---- the course of events

    def _write(self) -> None:
        f, c, rng = self.framework, self.cause, self.rng
        for j, text in enumerate(self.launcher.start):
            for k in range(len(self.nodes)) if "{node}" in text else (0,):
                self._say("launcher", k * self.per, j + rng.random(), text)
        stages = ["launch", "rendezvous", "model_build", "checkpoint_load", "training"]
        stop = c.stage if c is not None and c.symptom == "launch_failure" else None
        absent = self.victim if c is not None and c.is_absent else None
        self.fault = self.end = 0.0
        for rank in range(self.world):
            if rank // self.per == absent or (stop == "launch" and c is not None and c.scope == "none"):
                continue
            for stage, text in f.startup:
                if stop is not None and stages.index(stage) > stages.index(stop):
                    break
                if stage == "checkpoint_load" and not self.first_n and stop != "checkpoint_load":
                    continue
                at = 5 + stages.index(stage) * self.begin / 6 + rng.random() * 3
                self._say("app", rank, at, text)
            if stop is None or stages.index(stop) > 1:
                for text in LIBRARIES[f.vendor].hello:
                    self._say("raw", rank, 5 + self.begin / 5 + rng.random(), text)
            for text in f.noise:
                if rng.random() < 0.7:
                    self._say("raw", rank, 3 + rng.random() * (self.begin - 20 if stop is None else 8), text)
        if stop is not None:
            self.fault = 12 + stages.index(stop) * self.begin / 6
            self.failed_n: int | None = None
            self.logged_n: int | None = None
        else:
            self._train()
        self._benign()
        if c is None:
            for rank in range(self.world):
                self._say("app", rank, self.fault + 6 + rng.random(), f.finish)
            self._launcher(self.launcher.done, self.fault + 12)
        else:
            self._fail(c)

    def _train(self) -> None:
        f, c, rng = self.framework, self.cause, self.rng
        slow_from = self.steps // 2 if c is not None and c.symptom == "slow" else self.steps + 1
        save_at = self.steps if c is not None and c.stage == "checkpoint_save" else self.steps // 3
        reporter = f.reporter % self.world
        t, ratio = self.begin, 1.6 + rng.random()
        for k in range(1, self.steps + 1):
            s = f.step_s * (1 + rng.gauss(0, 0.02)) * (ratio if k > slow_from else 1)
            t += s
            n = self.first_n + k
            self._say("app", reporter, t, f.progress, n=n, s=s, ms=s * 1e3, rate=1 / s, loss=2.3 - k * 0.004)
            if k == slow_from:
                self.fault, self.slow_n = t, n
            if k == save_at:
                self._say("app", reporter, t + 0.3, f.save[0], n=n)
                t += 6
                if k != self.steps or c is None:
                    self._say("app", reporter, t, f.save[1], n=n)
        self.last_t = t
        if slow_from > self.steps:
            self.fault = t + (1.0 if save_at == self.steps else f.step_s * rng.uniform(0.2, 0.8))
        last = self.first_n + self.steps
        self.logged_n, self.failed_n = last, last if save_at == self.steps else last + 1
        if c is not None and c.symptom == "slow":
            self.failed_n, self.logged_n = self.slow_n + 1, self.slow_n

    def _benign(self) -> None:
        rng = self.rng
        if rng.random() < 0.6 and self.fault > self.begin:
            for _ in range(rng.randrange(1, 4)):
                self._say(
                    "raw", rng.randrange(self.world), rng.uniform(self.begin, self.begin + 30), rng.choice(_RECOVERED)
                )
        for k in range(len(self.nodes)):
            for _ in range(rng.randrange(0, 3)):
                self._say("kernel", k * self.per, rng.uniform(1, 60), rng.choice(_KERNEL))

    def _fail(self, c: Cause) -> None:
        rng, lib = self.rng, LIBRARIES[self.framework.vendor]
        assert self.variant is not None
        last = self.fault
        for number, spec in enumerate(self.variant.lines):
            match = _LINE.fullmatch(spec)
            assert match is not None, spec
            where, who, role, options, text = match.groups()
            times, delay, stage = 1, 0.0, c.stage
            for option in options.split():
                if option[0] == "*":
                    times = int(option[1:])
                elif option[0] in "+-":
                    delay = float(option)
                else:
                    stage = option.lstrip("@")
            for rank in self._who(who):
                for k in range(times):
                    at = self.fault + delay * (k + 1 if times > 1 else 1) + rng.random() * (0.4 if times == 1 else 1.0)
                    at = max(at, 0.5)
                    self._say(where, rank, at, text, role=role, tid=f"root{number}", stage=stage)
                    last = max(last, at)
        if c.is_cut:
            self.entries = [e for e in self.entries if e.t <= self.fault + 1 or self.nodes[self.victim] not in e.path]
        away = set(self._of(self.victim)) if c.scope == "node" and (c.is_cut or c.is_absent) else set()
        told = self._who("all") if c.scope == "fabric" else [r for r in range(self.world) if r != self.rank]
        told = [r for r in told if r not in away] if c.scope not in ("all", "none") else []
        after = last
        if c.peers == "timeout":
            after = self.fault + lib.timeout_s
            told = [r for r in told if not (c.scope == "node" and r // self.per == self.victim)]
        if c.peers != "none":
            for rank in told:
                for j, text in enumerate(lib.reset if c.peers == "reset" else lib.timeout):
                    at = after + 2 + rng.random() * 4
                    self._say("raw", rank, at + j * 0.1, text, role="secondary", tid=f"peer{j}")
        self.end = max(after, last) + 15
        if c.symptom == "slow":
            self.end = max(self.end, self.last_t + 30)
        if c.subcategory in ("cancelled", "time_limit", "preemption", "scheduler"):
            self.end = self.fault + 10
        for rank in range(self.world):
            if rank not in away:
                for text in self.launcher.teardown:
                    self._say("raw", rank, self.end + rng.random(), text, role="secondary", tid="teardown")
        self._launcher(
            self.launcher.killed if c.ending == "killed" else self.launcher.failed, self.end + 5, "secondary"
        )

    def _launcher(self, texts: tuple[str, ...], at: float, role: str = "") -> None:
        for j, text in enumerate(texts):
            for k in range(len(self.nodes)) if "{node}" in text else (0,):
                self._say("launcher", k * self.per, at + j, text, role=role, tid=f"end{j}")

    def _of(self, node: int) -> list[int]:
        return list(range(node * self.per, (node + 1) * self.per))

    def _who(self, who: str) -> list[int]:
        first = [k * self.per for k in range(len(self.nodes))]
        return {
            "rank": [self.rank],
            "victim": [self.rank],
            "victims": self._of(self.victim),
            "zero": [self.framework.reporter % self.world],
            "all": list(range(self.world)),
            "nodes": first,
            "job": [self.rank],
            "some": [first[k] for k in self.some],
            "others": [r for k, r in enumerate(first) if k != self.victim],
        }[who]

    # ---- writing

    def _say(
        self,
        where: str,
        rank: int,
        at: float,
        text: str,
        role: str = "",
        tid: str = "",
        stage: str = "training",
        **more: Any,
    ) -> None:
        rng, node = self.rng, rank // self.per
        other = rng.choice([k for k in range(len(self.nodes)) if k != node])
        if self.cause is not None and self.cause.scope == "node" and node != self.victim and rng.random() < 0.6:
            other = self.victim
        moment = datetime.fromtimestamp(self.t0 + at + self.skew.get(node, 0.0), UTC)
        local = moment + timedelta(hours=self.zone)
        names = {
            "rank": rank,
            "node": self.nodes[node],
            "ip": self.ips[node],
            "local": rank % self.per,
            "gpu": rank % self.per,
            "pid": self.pids[rank],
            "tid": self.pids[rank] + 700,
            "world": self.world,
            "less": self.world - self.per,
            "peer": self.nodes[other],
            "peerip": self.ips[other],
            "first": self.nodes[0],
            "other": self.rank,
            "job": self.id,
            "num": rng.randrange(10, 99),
            "port": rng.randrange(32768, 60999),
            "host": self.nodes[node],
            "hex": f"{rng.getrandbits(48):012x}",
            "pci": f"0000:{rng.randrange(16, 250):02x}:00.0",
            "seq": 700 + self.steps,
            "nic": f"mlx5_{rank % self.per}",
            "bad_rank": self.rank,
            "bad_node": self.nodes[self.victim],
            "first_n": self.first_n,
            "n": self.first_n + self.steps,
            "mmdd": f"{moment:%m%d}",
            "clock": f"{moment:%H:%M:%S.%f}",
            "iso": f"{moment:%Y-%m-%dT%H:%M:%S}",
            **more,
        }
        f = self.framework
        body = text.format(**names)
        path = f.path.format(**names)
        head = f.head.format(stamp=local.strftime(f.stamp).replace("%L", f"{local.microsecond // 1000:03d}"), **names)
        prefix = head.split("{")[0] if f.path.count("{node}") == 0 and f.name != "colossalai" else ""
        raw = re.match(r"(\[1,\d+\]<stdout>:|\d+: |\(WorkerDict[^)]*\) )?", prefix)
        raw_head = raw.group(0) if raw is not None else ""
        if where == "app":
            lines = [(head + body, role, tid)]
        elif where == "raw":
            lines = [(raw_head + body, role, tid)]
        elif where == "trace":
            lines = [(raw_head + "Traceback (most recent call last):", "context", tid)]
            for depth, name in enumerate(f.frames["data" if stage == "data" else stage]):
                lines.append(
                    (
                        raw_head
                        + f'  File "/opt/{f.name}/{name.strip("_").lower()}.py", line {83 + 41 * depth}, in {name}',
                        "context",
                        tid,
                    )
                )
                lines.append((raw_head + f"    {name}(*args)", "context", tid))
            lines.append((raw_head + body, role, tid))
        elif where == "kernel":
            path = f"sys/{self.nodes[node]}.log"
            stamp = (
                f"{moment:%Y-%m-%dT%H:%M:%S.%f}+00:00 {self.nodes[node]} kernel: ",
                f"{moment:%b %e %H:%M:%S} {self.nodes[node]} kernel: ",
                f"[{moment:%a %b %e %H:%M:%S %Y}] ",
            )[self.kernel_style]
            lines = [(stamp + body, role, tid)]
        else:
            path, lines = "launcher.log", [(f"{moment:%Y-%m-%dT%H:%M:%S} " + body, role, tid)]
        self.entries.append(Entry(at, path, lines))

    # ---- results

    def files(self) -> dict[str, bytes]:
        """Path to bytes; the description is left out of one job in five."""
        out: dict[str, list[str]] = defaultdict(list)
        for entry in sorted(self.entries, key=lambda e: e.t):
            out[entry.path].extend(text for text, _, _ in entry.lines)
        data = {path: ("\n".join(lines) + "\n").encode() for path, lines in sorted(out.items())}
        if self.has_description:
            data["job.json"] = json.dumps(
                {
                    "job_id": self.id,
                    "nodes": [{"name": n, "ip": i} for n, i in zip(self.nodes, self.ips, strict=True)],
                    "gpus_per_node": self.per,
                    "world_size": self.world,
                    "scheduler": self.launcher.scheduler,
                    "log_timezone_hours": self.zone,
                }
            ).encode()
        return data

    def truth(self) -> dict[str, Any]:
        """The truth in the form that ``score_log`` of the scorer reads."""
        c, name = self.cause, self.framework.name
        if c is None:
            return {"healthy": True, "profile": name}
        lines: dict[str, Any] = {}
        examples: dict[tuple[str, str], list[str]] = defaultdict(list)
        count: dict[str, int] = defaultdict(int)
        for entry in sorted(self.entries, key=lambda e: e.t):
            for text, role, tid in entry.lines:
                count[entry.path] += 1
                if role:
                    n = count[entry.path]
                    lines.setdefault(role, {}).setdefault(entry.path, {}).setdefault(tid, []).append([n, n])
                    examples[role, tid].append(text)
        return {
            "healthy": False,
            "profile": name,
            "category": c.category,
            "subcategory": c.subcategory,
            "symptom": c.symptom,
            "stage": c.stage,
            "category_accept": [c.category, *c.also_categories],
            "subcategory_accept": [c.subcategory, *c.also_subcategories],
            "symptom_accept": [c.symptom, *c.also_symptoms],
            "stage_accept": [c.stage, *c.also_stages],
            "iteration": {
                "applicable": self.failed_n is not None,
                "failed": self.failed_n,
                "last_logged": self.logged_n,
            },
            "faulty_nodes": [self.nodes[self.victim]] if c.scope == "node" else [],
            "n_nodes": len(self.nodes),
            "affected_nodes": {"fabric": [self.nodes[k] for k in self.some], "all": list(self.nodes)}.get(c.scope, []),
            "origin_nodes": [self.nodes[self.victim]] if c.scope == "one" else [],
            "lines": lines,
            "templates": [
                {"id": t, "role": "root" if r == "root" else "secondary", "examples": e[:3]}
                for (r, t), e in examples.items()
                if r in ("root", "secondary")
            ],
        }

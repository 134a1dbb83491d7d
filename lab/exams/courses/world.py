"""A simulated cluster and the output of its processes: every line with its writer, time and role in the failure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lab.exams.courses.voices import Voice

_NAMES = (
    "rk{r}-gpu{k:02d}",
    "trn-{r}{k:03d}",
    "b{r}n{k}",
    "ml-pool-{r}-{k:04d}",
    "nid00{r}{k:02d}",
    "w{r}-{k}.train.local",
)
_CHATTER = (
    "systemd[1]: Started Session {num} of user ops.",
    "nvme nvme0: I/O {num} QID 3 timeout, completion polled",
    "mlx5_core 0000:{num}:00.1: Port module event: module 1, Cable plugged",
    "EDAC MC1: 1 CE on DIMM_B{digit} (channel:1 slot:0 page:0x{num}1f)",
    "perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate",
)
_PASSING = (
    "WARNING: upload of metrics failed (503), will try again in 20 s",
    "retrying request to artifact store, attempt 1 of 5: Connection reset by peer",
    "tokenizers parallelism is disabled after a fork to avoid deadlocks",
)


@dataclass(frozen=True)
class Line:
    """One physical line: ``role`` is root, secondary, context or empty, ``tid`` identifies its message."""

    at: float
    node: int | None
    rank: int | None
    stream: str
    text: str
    role: str = ""
    tid: str = ""


@dataclass
class Truth:
    """What really happened; None in a healthy job. Nodes are numbers."""

    category: str
    subcategory: str
    symptom: str = "crash"
    stage: str = "training"
    faulty: tuple[int, ...] = ()
    affected: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()
    switch: str = ""
    failed_n: int | None = None
    logged_n: int | None = None
    also_categories: tuple[str, ...] = ()
    also_subcategories: tuple[str, ...] = ()
    also_symptoms: tuple[str, ...] = ()
    also_stages: tuple[str, ...] = ()


@dataclass
class World:
    """One job while it is being written. Times are seconds since its start on a true clock."""

    seed: str
    voice: Voice
    size: int = 0
    lines: list[Line] = field(default_factory=list)
    truth: Truth | None = None
    launch_of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        count = self.size or rng.choice((6, 8, 12))
        pattern, row = rng.choice(_NAMES), rng.randrange(1, 9)
        numbers = sorted(rng.sample(range(1, 90), count))
        self.nodes = [pattern.format(r=row, k=k) for k in numbers]
        self.ips = [f"172.20.{row}.{k}" for k in numbers]
        self.leaves = [f"leaf-{row}{k * 3 // count + 1}" for k in range(count)]
        self.per = 2 if count >= 12 else rng.choice((2, 4))
        self.world = self.per * count
        self.t0 = datetime(2026, 4, 1, tzinfo=UTC).timestamp() + rng.randrange(8 * 10**6)
        self.zone = rng.choice((0, 0, 8, -7, 5.5))
        self.skew: dict[int, float] = {}
        self.pids = [rng.randrange(3000, 60000) for _ in range(self.world)]
        self.first_n = rng.choice((0, 0, rng.randrange(200, 40000)))
        self.step_s = rng.uniform(1.5, 9.0)
        self.victim = rng.randrange(1, count)
        self.rank = self.victim * self.per + rng.randrange(self.per)
        self.job = str(rng.randrange(10**5, 10**6))
        self.reporter = self.voice.reporter % self.world
        self.now = 0.0
        self.n = self.told_n = self.first_n
        self.gone: set[int] = set()

    # ---- writers

    def names(self, rank: int) -> dict[str, object]:
        """The names that texts may contain."""
        node, rng = rank // self.per, self.rng
        return {
            "rank": rank,
            "local": rank % self.per,
            "node": self.nodes[node],
            "ip": self.ips[node],
            "pid": self.pids[rank],
            "world": self.world,
            "bad": self.nodes[self.victim],
            "badip": self.ips[self.victim],
            "badrank": self.rank,
            "first": self.nodes[0],
            "job": self.job,
            "n": self.n,
            "num": rng.randrange(10, 99),
            "digit": rng.randrange(1, 9),
            "hex": f"{rng.getrandbits(40):010x}",
            "pci": f"0000:{rng.randrange(16, 240):02x}:00",
        }

    def say(self, at: float, rank: int, text: str, role: str = "", tid: str = "", level: str = "INFO") -> None:
        """A line that the training program writes through its logger."""
        node = rank // self.per
        if node in self.gone:
            return
        local = at + self.skew.get(node, 0.0) + self.zone * 3600
        stamp = datetime.fromtimestamp(self.t0 + local, UTC)
        for text_line in self.voice.head(stamp, level, text.format(**self.names(rank)), self.names(rank)):
            self.lines.append(Line(at, node, rank, "out", text_line, role, tid))

    def raw(self, at: float, rank: int, text: str, role: str = "", tid: str = "") -> None:
        """A line that a library writes without the logger."""
        if rank // self.per not in self.gone:
            line = text.format(**self.names(rank))
            self.lines.append(Line(at, rank // self.per, rank, "err", line, role, tid))

    def trace(self, at: float, rank: int, frames: Sequence[str], text: str, role: str = "", tid: str = "") -> None:
        """An exception with its traceback."""
        self.raw(at, rank, "Traceback (most recent call last):", "context", tid)
        for depth, name in enumerate(frames):
            self.raw(
                at, rank, f'  File "/srv/app/{name.strip("_")}.py", line {61 + 17 * depth}, in {name}', "context", tid
            )
            self.raw(at, rank, f"    {name}(state)", "context", tid)
        self.raw(at, rank, text, role, tid)

    def kernel(self, at: float, node: int, text: str, role: str = "", tid: str = "") -> None:
        """A line of a machine's kernel."""
        line = text.format(**self.names(node * self.per))
        self.lines.append(Line(at, node, None, "kernel", line, role, tid))

    def launcher(self, at: float, text: str, role: str = "", tid: str = "") -> None:
        """A line of the launcher, outside the job's machines."""
        self.lines.append(Line(at, None, None, "launcher", text.format(**self.names(self.rank)), role, tid))

    # ---- the usual course

    def ranks(self, without: Iterable[int] = ()) -> list[int]:
        """All ranks but those of some nodes."""
        away = set(without)
        return [r for r in range(self.world) if r // self.per not in away]

    def of(self, node: int) -> list[int]:
        """The ranks of a node."""
        return list(range(node * self.per, (node + 1) * self.per))

    def start(self, until: str = "training", without: Iterable[int] = ()) -> None:
        """Everything before the first iteration, up to and including the stage ``until``."""
        order = ("launch", "rendezvous", "model_build", "checkpoint_load", "training")
        begin = self.now
        for number, (stage, text) in enumerate(self.voice.startup):
            if order.index(stage) > order.index(until):
                break
            if stage == "checkpoint_load" and not self.first_n and until != stage:
                continue
            for rank in self.ranks(without):
                self.say(begin + 4 + 9 * number + self.rng.random() * 2, rank, text)
            self.now = begin + 8 + 9 * number
        for node in range(len(self.nodes)):
            if self.rng.random() < 0.5:
                self.kernel(begin + self.rng.random() * 30, node, self.rng.choice(_CHATTER))

    def train(self, steps: int, slower: float = 1.0, save_every: int = 0, is_told: bool = True) -> None:
        """Iterations with their progress lines, some checkpoints, and a passing error."""
        low = self.now
        for k in range(1, steps + 1):
            took = self.step_s * slower * (1 + self.rng.gauss(0, 0.015))
            self.now += took
            self.n += 1
            if is_told:
                self.beat(took)
            if save_every and k % save_every == 0:
                self.checkpoint()
        if self.rng.random() < 0.5 and steps > 12:
            self.raw(low + (self.now - low) * 0.4, self.rng.choice(self.ranks(self.gone)), self.rng.choice(_PASSING))

    def beat(self, took: float) -> None:
        """One progress line; from every rank if all of them print in this voice."""
        text = self.voice.progress(self.n, took, 2.9 - 0.003 * (self.n - self.first_n))
        if not text:
            return
        self.told_n = self.n
        for rank in self.ranks() if self.voice.is_every_rank else [self.reporter]:
            self.say(self.now + rank * 1e-3, rank, text)

    def checkpoint(self) -> None:
        """A checkpoint without problems."""
        self.say(self.now + 0.1, self.reporter, self.voice.save[0].replace("{n}", str(self.n)))
        self.now += 2.5 * self.step_s
        self.say(self.now, self.reporter, self.voice.save[1].replace("{n}", str(self.n)))
        self.told_n = self.n

    def done(self) -> None:
        """The end of a job without a failure."""
        for rank in self.ranks():
            self.say(self.now + 3 + self.rng.random(), rank, self.voice.finish)
        self.launcher(self.now + 9, "all workers of job {job} exited with status 0, job succeeded")

    def broken(self, at: float, without: Iterable[int] = ()) -> None:
        """The others lose their connections and end."""
        for rank in self.ranks(without):
            when = at + 1 + self.rng.random() * 3
            for j, text in enumerate(self.voice.reset):
                self.raw(when + 0.05 * j, rank, text, "secondary", f"reset{j}")

    def waited(self, at: float, without: Iterable[int] = ()) -> None:
        """The others wait until their watchdogs give up."""
        for rank in self.ranks(without):
            when = at + self.rng.random() * 2
            for j, text in enumerate(self.voice.timeout):
                self.raw(when + 0.05 * j, rank, text, "secondary", f"timeout{j}")

    def over(self, at: float, text: str = "job {job}: a worker failed, stopping the others") -> None:
        """The launcher ends the job."""
        self.launcher(at, text, "secondary", "over")
        for rank in self.ranks(self.gone):
            self.raw(at + 1 + self.rng.random(), rank, "received SIGTERM, exiting", "secondary", "term")

    def silence(self, node: int, at: float, *, also_kernel: bool = True) -> None:
        """A machine stops writing."""
        self.lines = [
            x for x in self.lines if x.node != node or x.at <= at or (x.stream == "kernel" and not also_kernel)
        ]
        self.gone.add(node)

    def at_last(self) -> dict[str, int]:
        """The iteration that failed, known after ``train``, and the last that the logs name."""
        return {"failed_n": self.n + 1, "logged_n": self.told_n}

"""What every voice has: where its lines go, how its kernels and schedulers print, and its progress messages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar

from lab.exams.sealed.common.scheduler import Scheduler

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

type Put = tuple[str, str]
type Frames = dict[str, list[str]]


class Voice:
    """One program on one kind of cluster. ``stack``: its communication library; ``vendor``: its devices' maker."""

    name: ClassVar[str]
    stack: ClassVar[str] = "nccl"
    vendor: ClassVar[str] = "nvidia"
    sched: ClassVar[Scheduler]
    runs: ClassVar[tuple[str, ...]]
    users: ClassVar[tuple[str, ...]]
    per: ClassVar[tuple[int, ...]] = (8,)
    every: ClassVar[tuple[int, ...]] = (1, 1, 2, 5, 10)
    pace: ClassVar[tuple[float, float]] = (1.5, 14.0)
    most: ClassVar[int] = 64
    leaf: ClassVar[str] = "leaf"
    names: ClassVar[tuple[str, ...]] = ("gn{k:04d}",)
    levels: ClassVar[tuple[str, str, str, str]] = ("DEBUG", "INFO", "WARNING", "ERROR")
    frames: ClassVar[Frames]
    quirks: ClassVar[tuple[str, ...]] = ()

    def job_id(self, rng: random.Random) -> str:
        """What the scheduler calls a job."""
        return self.sched.job_id(rng)

    def hosts(self, c: Case, count: int) -> list[str]:
        """Names of machines."""
        scheme = c.kin.choice(self.names)
        letters = f"{c.kin.getrandbits(40):010x}"
        low = c.rng.randrange(1, 300)
        picked = c.rng.sample(range(low, low + count * 2), count)
        return [
            scheme.format(k=k, a=k // 16, b=k % 16, hex=letters[:8], run=c.run, job=c.job, i=i)
            for i, k in enumerate(sorted(picked))
        ]

    def level(self, word: str) -> str:
        """A level as this logger writes it."""
        return self.levels["DIWE".index(word)]

    # ---- where lines go

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        """File of a rank's line, and the line with what its collector puts before it."""
        return f"logs/{c.job}/{c.host(rank)}.log", text

    def agent(self, c: Case, rank: int, text: str, dt: float) -> Put:
        """The same for a line of the launcher's agent on the machine of a rank."""
        return self.put(c, rank, text, dt)

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        """A message with the logger's header."""
        raise NotImplementedError

    def tag(self, c: Case, rank: int) -> str:
        """What stands before each line of a traceback."""
        return ""

    def kernel(self, c: Case, node: int, text: str, dt: float) -> Put:
        """File and line of a kernel message; one style a family."""
        raise NotImplementedError

    def service(self, c: Case, node: int, who: str, text: str, dt: float) -> Put:
        """The same for a service of a machine (``who``: its name and pid)."""
        raise NotImplementedError

    def control(self, c: Case, text: str, dt: float) -> Put:
        """File and line of the scheduler."""
        return self.sched.put(c, text, dt)

    # ---- what a run says

    def launched(self, c: Case) -> None:
        """The scheduler starts the job."""
        self.sched.launched(c)

    def boot(self, c: Case) -> None:
        """Everything between the launch and the first iteration."""
        raise NotImplementedError

    def step(self, c: Case) -> None:
        """Progress, as it is printed by whoever prints it in this family."""
        for rank in self.speakers(c):
            self.progress(c, rank)

    def speakers(self, c: Case) -> list[int]:
        """The ranks that print progress: mostly the first, now and then the last, or one a machine."""
        match c.dialect % 7:
            case 0 | 1:
                return c.firsts()
            case 2:
                return [c.world - 1]
            case _:
                return [0]

    def progress(self, c: Case, rank: int) -> None:
        """The progress line of one rank."""
        raise NotImplementedError

    def save(self, c: Case, is_begin: bool) -> None:
        """Begin or end of a checkpoint."""
        raise NotImplementedError

    def evaluate(self, c: Case, is_begin: bool) -> None:
        """Begin or end of an evaluation."""
        raise NotImplementedError

    def finish(self, c: Case) -> None:
        """The last lines of the program and of the scheduler."""
        c.log(0, f"Training finished after {c.n} steps, exiting")
        c.wait(3, 9)
        self.sched.closed(c, "done")

    def idle(self) -> tuple[str, ...]:
        """Lines that mean nothing: a level, a space and the text; {a} {b} numbers, {n} the iteration, {r} a rank."""
        raise NotImplementedError

    def chatter(self, c: Case) -> None:
        """A line that means nothing."""
        level, text = c.rng.choice(self.idle()).split(" ", 1)
        rank = c.rng.choice(c.firsts() or [0])
        text = text.format(a=c.rng.randrange(2, 99), b=c.rng.randrange(100, 9999), n=c.n, r=rank, host=c.host(rank))
        c.log(rank, text, level, dt=-c.rng.random() * c.took / 3)

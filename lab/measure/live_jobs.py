"""Made-up running jobs: what each look at them sees, healthy or with one fault. No files, simulated time."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from diagnosis.live.observation import CountRow, DiskUse, ErrorRow, LineTallies, LossRow, Observation, StageMark

LOOK_S: Final = 5.0
FAULTS: Final = ("hang", "death", "slow", "loss", "silent", "burst", "retries", "disk")


class Line(NamedTuple):
    """Lines of one moment. ``loss``: of a line with a counter."""

    at: float
    node: str = "node-0"
    counter: int | None = None
    stage: str | None = None
    loss: float = math.nan
    errors: int = 0
    retries: int = 0
    disk: float | None = None
    is_decisive: bool = False


class Course(NamedTuple):
    """A made-up job. ``every``: iterations between two progress lines; ``hiccups``: share of slow single steps;
    ``speaks_s``: seconds between lines in its pauses, 0 if they print none; ``speaks_from``: the part of a pause that
    prints none.
    """

    step_s: float
    noise: float
    every: int
    evaluate_every: int
    evaluation_s: float
    is_announced: bool
    save_every: int
    save_s: float
    restart_every_h: float
    nodes: int
    hiccups: float
    speaks_s: float
    speaks_from: float


#: The most that a healthy evaluation, checkpoint and restart take, in units of what the course says.
EVALUATION, SAVE, RESTART = (0.8, 1.2), (0.7, 1.3), (60.0, 600.0)
#: The longest usual silence between the lines of a pause, in the same way: 99 % are shorter.
MAX_SILENCE = 2.5


def made_course(dice: random.Random) -> Course:
    step_s = dice.choice((0.4, 1.0, 2.5, 6.0, 12.0, 30.0))
    return Course(
        step_s=step_s,
        noise=dice.choice((0.02, 0.08, 0.2)),
        every=dice.choice((1, 1, 10)) if step_s < 3 else 1,
        evaluate_every=dice.choice((0, 200, 500, 1000)),
        evaluation_s=dice.uniform(10, 400),
        is_announced=dice.random() < 0.75,
        save_every=dice.choice((50, 100, 500)),
        save_s=dice.uniform(1, 90),
        restart_every_h=dice.choice((0.0, 3.0, 10.0)),
        nodes=dice.choice((1, 4, 8)),
        hiccups=dice.choice((0.0, 0.002)),
        speaks_s=dice.choice((0.0, 0.0, 0.0, 2.0, 10.0, 30.0)),
        speaks_from=dice.choice((0.0, 0.0, 0.7)),
    )


def pause_lines(job: Course, at: float, seconds: float, dice: random.Random) -> Iterator[Line]:
    """The lines of a pause."""
    if job.speaks_s:
        line_at = at + job.speaks_from * seconds + job.speaks_s * dice.lognormvariate(0, 0.4)
        while line_at < at + seconds:
            yield Line(line_at)
            line_at += job.speaks_s * dice.lognormvariate(0, 0.4)


def lines(job: Course, dice: random.Random, hours: float) -> Iterator[Line]:
    """The lines of a healthy job, in the order of time."""
    at, n, saved = dice.uniform(60, 900), 0, 0
    restart_at = job.restart_every_h * 3600 * dice.uniform(0.5, 1.5) or math.inf
    used = dice.uniform(30, 70)
    yield Line(0.0, stage="launch", retries=3)
    yield Line(20.0, stage="model_build", errors=dice.choice((0, 0, 60)))
    while at < hours * 3600:
        n += 1
        load = 1.15 if (at / 3600) % 24 > 12 else 1.0
        slow = dice.uniform(1.3, 3) if dice.random() < job.hiccups else 1.0
        at += job.step_s * load * slow * max(0.3, dice.gauss(1, job.noise))
        if n % job.every == 0:
            yield Line(at, counter=n, loss=2 + 8 / (1 + n / 50) + dice.gauss(0, 0.05))
            for node in range(1, job.nodes):
                if dice.random() < 0.7:
                    yield Line(at + 0.01, node=f"node-{node}")
        if dice.random() < 0.003:
            yield Line(at + 0.02, errors=dice.randint(1, 8), retries=dice.randint(0, 6))
        if job.save_every and n % job.save_every == 0:
            saved = n
            used = used + 0.8 if used < 75 else 40.0
            yield Line(at + 0.03, stage="checkpoint_save", disk=round(used, 1), errors=dice.choice((0, 0, 30)))
            takes = job.save_s * dice.uniform(*SAVE)
            yield from pause_lines(job, at + 0.03, takes, dice)
            at += takes
        if job.evaluate_every and n % job.evaluate_every == 0:
            if job.is_announced:
                yield Line(at + 0.04, stage="evaluation")
            takes = job.evaluation_s * dice.uniform(*EVALUATION)
            yield from pause_lines(job, at + 0.04, takes, dice)
            at += takes
        if at > restart_at:
            restart_at = at + job.restart_every_h * 3600 * dice.uniform(0.5, 1.5)
            yield Line(at + 1, stage="launch", errors=dice.randint(0, 40))
            n, at = saved, at + dice.uniform(*RESTART)


def observations(lines: Iterator[Line], until: float) -> Iterator[tuple[float, Observation]]:
    """The observation of the new lines at each look, as :func:`diagnosis.live.reading.observe.observe` gives it."""
    waiting = next(lines, None)
    now = 0.0
    while now < until:
        now += LOOK_S
        look = _Look()
        while waiting is not None and waiting.at <= now:
            look.add(waiting)
            waiting = next(lines, None)
        yield now, look.observation()


class _Look:
    """The lines that are new in one look."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.counts: list[CountRow] = []
        self.announced: list[StageMark] = []
        self.stage: str | None = None
        self.stage_at: int | None = None

    def add(self, line: Line) -> None:
        """Add a line; a count comes before the stage that the same moment announces."""
        stamp = int(line.at * 1e9)
        self.lines.append(line)
        if line.counter is not None:
            self.counts.append(CountRow(line.counter, stamp, tuple(self.announced)))
            self.announced = []
            if self.stage is not None:
                self.stage, self.stage_at = "training", stamp
        if line.stage is not None:
            self.stage, self.stage_at = line.stage, stamp
            self.announced.append(StageMark(line.stage, stamp))

    def observation(self) -> Observation:
        """What the lines say."""
        counted = [line for line in self.lines if line.counter is not None]
        return Observation(
            lines=len(self.lines),
            counters={"iteration a": tuple(self.counts)} if self.counts else {},
            losses=tuple(LossRow(line.counter or 0, _finite(line.loss)) for line in counted),
            stage=self.stage,
            stage_at=self.stage_at,
            announced=tuple(self.announced),
            errors=tuple(_error(line) for line in self.lines if line.is_decisive),
            tallies=LineTallies(
                errors=sum(line.errors for line in self.lines), retries=sum(line.retries for line in self.lines)
            ),
            disks=tuple(DiskUse("/ckpt", line.disk) for line in self.lines if line.disk is not None),
            writers=tuple(sorted({line.node for line in self.lines})),
        )


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


def _error(line: Line) -> ErrorRow:
    return ErrorRow(f"fault {line.at}", "unknown", "t", "t", int(line.at * 1e9))


class Fault(NamedTuple):
    """A job with a fault that begins at ``began``; ``stage``: where the job was; ``factor``: of a slowdown; ``due``:
    when the next count would have come without the fault; ``longest``: when the longest healthy pause of that kind
    would have ended, or when one that the fault stretches did; ``is_first``: nothing of that kind came before.
    """

    lines: list[Line]
    began: float
    stage: str
    due: float
    longest: float
    is_first: bool


def faulty_job(job: Course, kind: str, dice: random.Random) -> Fault:
    """The lines of a job that gets the fault ``kind`` after 36 to 60 minutes."""
    whole = list(lines(job._replace(nodes=max(4, job.nodes)), dice, 1.5))
    began = dice.uniform(0.6, 1.0) * 3600
    counts = [line.at for line in whole if line.counter and line.at < began]
    marks = [line for line in whole if (line.stage or line.counter) and line.at < began]
    stage = next((line.stage for line in reversed(marks) if line.stage or line.counter), None) or "training"
    usual = job.step_s * job.every
    if stage == "training" and began - counts[-1] > 2.5 * usual:
        stage = "unannounced"
    due = next((line.at for line in whole if line.counter and line.at >= began), began)
    longest, is_first = _longest(job, whole, stage, began)
    before, after = [x for x in whole if x.at < began], [x for x in whole if x.at >= began]
    if kind in ("hang", "death"):
        if stage == "training":
            began = counts[-1]
        says = [Line(began + dice.uniform(0.1, 3), is_decisive=True)] if kind == "death" else []
        return Fault([*before, *says], began, stage, due, began if says else longest, is_first)
    if kind == "slow":
        factor = dice.choice((1.8, 2.5, 5.0))
        longest = min(longest, began + (due - began) * factor)
        after = [x._replace(at=began + (x.at - began) * factor) for x in after]
        return Fault([*before, *after], began, stage, due, longest, is_first)
    if kind == "loss":
        high = dice.choice((math.nan, 30.0))
        after = [x._replace(loss=high) if x.counter else x for x in after]
    if kind == "silent":
        after = [x for x in after if x.node != "node-2"]
    more: list[Line] = []
    if kind == "burst":
        more = [Line(began + second, errors=20) for second in range(600)]
    if kind == "retries":
        more = [Line(began + 2 * second, node="node-1", retries=3) for second in range(600)]
    if kind == "disk":
        more = [Line(began + 30 * n, disk=min(82.0 + n, 100)) for n in range(40)]
    return Fault(sorted([*before, *after, *more], key=lambda x: x.at), began, stage, due, longest, is_first)


def _longest(job: Course, whole: Sequence[Line], stage: str, began: float) -> tuple[float, bool]:
    """When the longest healthy pause of the kind in which the job is at ``began`` would have ended, or its longest
    silence: nobody can know earlier that this one is not such a pause. And whether it is the first of its kind.
    """
    if stage == "training":
        return began, False
    before = [x for x in whole if x.at < began]
    mark = max((x for x in before if x.stage or x.counter), key=lambda x: x.at)
    n = max((x for x in before if x.counter), key=lambda x: x.at, default=mark).counter or 0
    is_unannounced = bool(job.evaluate_every) and not job.is_announced and n > 0 and n % job.evaluate_every == 0
    earlier = n // job.evaluate_every - 1 if is_unannounced else sum(x.stage == stage for x in before if x.at < mark.at)
    evaluates = EVALUATION[1] * job.evaluation_s if is_unannounced or stage == "evaluation" else 0.0
    saves = SAVE[1] * job.save_s if stage == "checkpoint_save" else 0.0
    starts = RESTART[1] if stage not in ("checkpoint_save", "evaluation", "unannounced") else 0.0
    ends = mark.at + evaluates + saves + starts
    if job.speaks_s and not starts and not job.speaks_from:
        ends = min(ends, max(x.at for x in before) + MAX_SILENCE * job.speaks_s)
    return max(began, ends), earlier < 1

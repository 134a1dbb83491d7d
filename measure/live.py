"""Alarms of running jobs: false alarms over hours of made-up healthy jobs, and the delay of true ones.

``python -m measure live [--hours 1000] [--faults 300] [--seed 1]``. Jobs differ in their step, noise, evaluations,
checkpoints and day-night load; no line announces a quarter of the evaluations. The job is judged every 5 s.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any, NamedTuple

from diagnosis.live import judge, learn, new_state

LOOK_S = 5.0


class Line(NamedTuple):
    """One line of a made-up job: time and text."""

    at: float
    counter: int | None = None
    stage: str | None = None


class Course(NamedTuple):
    """A made-up job."""

    step_s: float
    noise: float
    evaluate_every: int
    evaluation_s: float
    is_announced: bool
    save_every: int
    save_s: float


def course(dice: random.Random) -> Course:
    step_s = dice.choice((0.4, 1.0, 2.5, 6.0, 12.0, 30.0))
    return Course(
        step_s,
        dice.choice((0.02, 0.08, 0.2)),
        dice.choice((0, 200, 500, 1000)),
        dice.uniform(10, 400),
        dice.random() < 0.75,
        dice.choice((50, 100, 500)),
        dice.uniform(1, 90),
    )


def lines(made: Course, dice: random.Random, hours: float) -> Iterator[Line]:
    """The lines of a healthy job, in the order of time."""
    at, n = dice.uniform(60, 900), 0
    yield Line(0.0, stage="launch")
    yield Line(20.0, stage="model_build")
    while at < hours * 3600:
        n += 1
        load = 1.15 if (at / 3600) % 24 > 12 else 1.0
        at += made.step_s * load * max(0.3, dice.gauss(1, made.noise))
        yield Line(at, counter=n)
        if made.save_every and n % made.save_every == 0:
            yield Line(at + 0.01, stage="checkpoint_save")
            at += made.save_s * dice.uniform(0.7, 1.3)
        if made.evaluate_every and n % made.evaluate_every == 0:
            if made.is_announced:
                yield Line(at + 0.02, stage="evaluation")
            at += made.evaluation_s * dice.uniform(0.8, 1.2)


def looks(said: Iterator[Line], until: float) -> Iterator[tuple[float, dict[str, Any]]]:
    """The new lines at each judgement."""
    waiting = next(said, None)
    now = 0.0
    while now < until:
        now += LOOK_S
        counters, stage, found = [], None, 0
        while waiting is not None and waiting.at <= now:
            found += 1
            if waiting.counter is not None:
                counters.append([waiting.counter, int(waiting.at * 1e9)])
                stage = "training" if stage is not None else None
            if waiting.stage is not None:
                stage = waiting.stage
            waiting = next(said, None)
        seen: dict[str, Any] = {"lines": found, "stage": stage, "errors": []}
        yield now, {**seen, "counters": {"iteration a": counters} if counters else {}}


def healthy(hours: float, dice: random.Random) -> Counter[str]:
    """False alarms by kind and whether the evaluation was announced."""
    false: Counter[str] = Counter()
    left = hours
    while left > 0:
        span = min(left, dice.choice((2.0, 8.0, 24.0)))
        left -= span
        made = course(dice)
        state, held = new_state(0.0), set[str]()
        for now, seen in looks(lines(made, dice, span), span * 3600):
            if seen["lines"]:
                learn(state, "a", seen, now)
            kinds = {alarm.kind for alarm in judge(state, now)}
            for kind in kinds - held:
                false[f"{kind}{'' if made.is_announced else ', unannounced evaluation'}"] += 1
            held = kinds
    return false


def faults(count: int, dice: random.Random) -> tuple[list[float], list[float], Counter[str]]:
    """For each fault: seconds until the alarm, less three usual steps; the same for slowdowns; missed faults."""
    hangs, slows, missed = [], [], Counter[str]()
    for _ in range(count):
        made = course(dice)
        kind = dice.choice(("hang", "slow"))
        whole = list(lines(made, dice, 1.5))
        began = dice.uniform(0.6, 1.0) * 3600
        if kind == "hang":
            told = [line for line in whole if line.at < began]
            began = max((line.at for line in told if line.counter), default=began)
        else:
            factor = dice.choice((1.8, 2.5, 5.0))
            told = [line if line.at < began else line._replace(at=began + (line.at - began) * factor) for line in whole]
        state = new_state(0.0)
        found = None
        for now, seen in looks(iter(told), began + 1800):
            if seen["lines"]:
                learn(state, "a", seen, now)
            if now > began and any(alarm.kind in (kind, "hang") for alarm in judge(state, now)):
                found = now
                break
        if found is None:
            missed[kind] += 1
        elif kind == "hang":
            hangs.append(found - began - 3 * made.step_s)
        else:
            slows.append(found - began - 3 * made.step_s)
    return hangs, slows, missed


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=1000.0)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(arguments)
    dice = random.Random(asked.seed)  # made-up jobs, no secrets
    print(f"seed {asked.seed}")
    false = healthy(asked.hours, dice)
    print(f"false alarms over {asked.hours:,.0f} h of healthy jobs: {sum(false.values())} {dict(false)}")
    hangs, slows, missed = faults(asked.faults, dice)
    for name, rows in (("hang", hangs), ("slowdown", slows)):
        late = quantiles(rows, n=20)[18] if len(rows) > 1 else float("nan")
        print(f"{name}: {len(rows)} told, {missed[name[:4]]} missed; seconds beyond three usual steps: "
              f"median {median(rows):.0f}, p95 {late:.0f}")  # fmt: skip


if __name__ == "__main__":
    main()

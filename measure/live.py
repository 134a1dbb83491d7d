"""Alarms of running jobs: false alarms over hours of made-up healthy jobs, and the delay of true ones.

``python -m measure live [--hours 1000] [--faults 300] [--seed 1]``. The jobs (:mod:`measure.live_jobs`) differ in step,
noise, interval of progress lines, evaluations, checkpoints, restarts, day-night load and slow single steps; no line
announces a quarter of the evaluations, half of the jobs print lines in their pauses. They are judged every 5 s. With
``--before 2``, each job with a fault had a healthy run of two hours before.

A healthy pause may be long, so a fault in it cannot be told before the longest healthy one of its kind would have
ended: *least possible* says when that is, from the truth that only the measurement knows.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from statistics import median, quantiles
from typing import NamedTuple

from diagnosis.live import judge, learn, new_state
from measure.live_jobs import FAULTS, Course, Fault, course, faulty, lines, looks

#: Alarms that report a fault in time although they are not of its kind.
_ALSO = {"slow": ("hang",), "death": ("error", "hang"), "loss": ("hang",), "silent": ("hang",)}


def healthy(hours: float, dice: random.Random) -> Counter[str]:
    """False alarms by kind and whether evaluations are announced."""
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


class Told(NamedTuple):
    """The fault, and the seconds beyond three usual counts until its alarm; None: missed."""

    fault: Fault
    late: float | None


def delay(made: Course, kind: str, dice: random.Random, before: float) -> Told:
    """How late the alarm of one fault is. ``before``: hours of a healthy run of the same job before."""
    fault = faulty(made, kind, dice)
    usual = made.step_s * made.every
    known = None
    if before:
        known = new_state(0.0)
        for now, seen in looks(lines(made, dice, before), before * 3600):
            if seen["lines"]:
                learn(known, "a", seen, now)
    state, held = new_state(0.0, known), set[str]()
    for now, seen in looks(iter(fault.said), fault.began + 1800):
        if seen["lines"]:
            learn(state, "a", seen, now)
        kinds = {alarm.kind for alarm in judge(state, now)}
        if now > fault.began and kinds & {kind, *_ALSO.get(kind, ())} - (held if now < fault.began else set()):
            return Told(fault, now - fault.began - 3 * usual)
        held = kinds
    return Told(fault, None)


def _row(name: str, rows: list[float | None]) -> str:
    told = [row for row in rows if row is not None]
    late = quantiles(told, n=20)[18] if len(told) > 1 else float("nan")
    middle = median(told) if told else float("nan")
    return f"{name:62} {len(told):4} told, {len(rows) - len(told)} missed; median {middle:5.0f} s, p95 {late:5.0f} s"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=1000.0)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--before", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(arguments)
    dice = random.Random(asked.seed)  # made-up jobs, no secrets
    print(f"seed {asked.seed}")
    false = healthy(asked.hours, dice)
    print(f"false alarms over {asked.hours:,.0f} h of healthy jobs: {sum(false.values())} {dict(false)}")
    print("faults: seconds beyond three usual times between counts")
    rows: defaultdict[str, list[float | None]] = defaultdict(list)
    for number in range(asked.faults):
        kind = FAULTS[number % len(FAULTS)]
        fault, late = delay(course(dice), kind, dice, asked.before)
        is_training = fault.stage == "training"
        rows[f"{kind}, begun in {'training' if is_training else 'a pause'}"].append(late)
        if kind not in ("hang", "death", "slow"):
            continue
        rows["hang, death and slowdown"].append(late)
        rows[f"the same, begun in {'training' if is_training else 'a pause'}"].append(late)
        if not is_training:
            which = "first pause of its kind" if fault.is_first and not asked.before else "pause known by its like"
            least = fault.longest - fault.began
            rows[f"the same, begun in the {which}"].append(late)
            rows["the same, begun in a pause: least possible"].append(least)
            rows[f"the same, beyond the longest healthy {which}"].append(None if late is None else late - least)
    for name in sorted(rows):
        print(_row(name, rows[name]))


if __name__ == "__main__":
    main()

"""Alarms of running jobs: false alarms over hours of made-up healthy jobs, and the delay of true ones.

``python -m lab.measure live [--hours 1000] [--faults 300] [--seed 1]``. The jobs (:mod:`lab.measure.live_jobs`) differ
in step, noise, interval of progress lines, evaluations, checkpoints, restarts, day-night load and slow single steps; no
line announces a quarter of the evaluations, half of the jobs print lines in their pauses. They are judged every 5 s.
With ``--before 2``, each job with a fault had a healthy run of two hours before.

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
from lab.measure.live_jobs import FAULTS, Course, Fault, faulty_job, lines, made_course, observations

#: Alarms that report a fault in time although they are not of its kind.
_OTHER_ALARMS = {"slow": ("hang",), "death": ("error", "hang"), "loss": ("hang",), "silent": ("hang",)}


def false_alarms(hours: float, dice: random.Random) -> Counter[str]:
    """False alarms by kind and whether evaluations are announced."""
    false: Counter[str] = Counter()
    hours_left = hours
    while hours_left > 0:
        span = min(hours_left, dice.choice((2.0, 8.0, 24.0)))
        hours_left -= span
        job = made_course(dice)
        state, current = new_state(0.0), set[str]()
        for now, observation in observations(lines(job, dice, span), span * 3600):
            if observation.lines:
                learn(state, "a", observation, now)
            kinds = {alarm.kind for alarm in judge(state, now)}
            for kind in kinds - current:
                false[f"{kind}{'' if job.is_announced else ', unannounced evaluation'}"] += 1
            current = kinds
    return false


class AlarmDelay(NamedTuple):
    """The fault, and the seconds beyond three usual counts until its alarm; None: missed."""

    fault: Fault
    late_s: float | None


def delay(job: Course, kind: str, dice: random.Random, before: float) -> AlarmDelay:
    """How late the alarm of one fault is. ``before``: hours of a healthy run of the same job before."""
    fault = faulty_job(job, kind, dice)
    usual = job.step_s * job.every
    former = None
    if before:
        former = new_state(0.0)
        for now, observation in observations(lines(job, dice, before), before * 3600):
            if observation.lines:
                learn(former, "a", observation, now)
    state, current = new_state(0.0, former), set[str]()
    for now, observation in observations(iter(fault.lines), fault.began + 1800):
        if observation.lines:
            learn(state, "a", observation, now)
        kinds = {alarm.kind for alarm in judge(state, now)}
        if now > fault.began and kinds & {kind, *_OTHER_ALARMS.get(kind, ())} - (
            current if now < fault.began else set()
        ):
            return AlarmDelay(fault, now - fault.began - 3 * usual)
        current = kinds
    return AlarmDelay(fault, None)


def _row(name: str, rows: list[float | None]) -> str:
    found = [row for row in rows if row is not None]
    late = quantiles(found, n=20)[18] if len(found) > 1 else float("nan")
    middle = median(found) if found else float("nan")
    return f"{name:62} {len(found):4} told, {len(rows) - len(found)} missed; median {middle:5.0f} s, p95 {late:5.0f} s"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=1000.0)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--before", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args(arguments)
    dice = random.Random(args.seed)  # made-up jobs, no secrets
    print(f"seed {args.seed}")
    false = false_alarms(args.hours, dice)
    print(f"false alarms over {args.hours:,.0f} h of healthy jobs: {sum(false.values())} {dict(false)}")
    print("faults: seconds beyond three usual times between counts")
    rows: defaultdict[str, list[float | None]] = defaultdict(list)
    for number in range(args.faults):
        kind = FAULTS[number % len(FAULTS)]
        fault, late = delay(made_course(dice), kind, dice, args.before)
        is_training = fault.stage == "training"
        rows[f"{kind}, begun in {'training' if is_training else 'a pause'}"].append(late)
        if kind not in ("hang", "death", "slow"):
            continue
        rows["hang, death and slowdown"].append(late)
        rows[f"the same, begun in {'training' if is_training else 'a pause'}"].append(late)
        if not is_training:
            which = "first pause of its kind" if fault.is_first and not args.before else "pause known by its like"
            least = fault.longest - fault.began
            rows[f"the same, begun in the {which}"].append(late)
            rows["the same, begun in a pause: least possible"].append(least)
            rows[f"the same, beyond the longest healthy {which}"].append(None if late is None else late - least)
    for name in sorted(rows):
        print(_row(name, rows[name]))


if __name__ == "__main__":
    main()

"""Alarms of running jobs: false alarms over hours of made-up healthy jobs, and the delay of true ones.

``python -m measure live [--hours 1000] [--faults 300] [--seed 1]``. The jobs (:mod:`measure.live_jobs`) differ in step,
noise, interval of progress lines, evaluations, checkpoints, restarts, day-night load and slow single steps; no line
announces a quarter of the evaluations. They are judged every 5 s.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from statistics import median, quantiles

from diagnosis.live import judge, learn, new_state
from measure.live_jobs import FAULTS, Course, course, faulty, lines, looks

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


def delay(made: Course, kind: str, dice: random.Random) -> tuple[str, float | None, float]:
    """The stage in which a fault began, the seconds beyond three usual counts until its alarm (None: missed), and how
    many of them the pause would have lasted anyway.
    """
    fault = faulty(made, kind, dice)
    usual = made.step_s * made.every
    state, held = new_state(0.0), set[str]()
    for now, seen in looks(iter(fault.said), fault.began + 1800):
        if seen["lines"]:
            learn(state, "a", seen, now)
        kinds = {alarm.kind for alarm in judge(state, now)}
        if now > fault.began and kinds & {kind, *_ALSO.get(kind, ())} - (held if now < fault.began else set()):
            return fault.stage, now - fault.began - 3 * usual, max(0.0, fault.due - fault.began)
        held = kinds
    return fault.stage, None, 0.0


def _row(name: str, rows: list[float | None]) -> str:
    told = [row for row in rows if row is not None]
    late = quantiles(told, n=20)[18] if len(told) > 1 else float("nan")
    middle = median(told) if told else float("nan")
    return f"{name:34} {len(told):4} told, {len(rows) - len(told)} missed; median {middle:5.0f} s, p95 {late:5.0f} s"


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
    print("faults: seconds beyond three usual times between counts")
    rows: defaultdict[str, list[float | None]] = defaultdict(list)
    for number in range(asked.faults):
        kind = FAULTS[number % len(FAULTS)]
        stage, found, rest = delay(course(dice), kind, dice)
        rows[f"{kind}, begun in {'training' if stage == 'training' else 'a pause'}"].append(found)
        if kind in ("hang", "death", "slow"):
            rows["hang, death and slowdown"].append(found)
            if stage == "training":
                rows["the same, begun in training"].append(found)
            else:
                rows["the same, begun in a pause"].append(found)
                rows["the same, after its usual end"].append(None if found is None else found - rest)
    for name in sorted(rows):
        print(_row(name, rows[name]))


if __name__ == "__main__":
    main()

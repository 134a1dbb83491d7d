"""A real training run in a minute: a linear model by gradient descent, standard library alone.

``python examples/tiny_training.py`` ends well. With ``--hang-at 40`` it makes no progress from there on and prints
nothing more, as a job does that waits for a lost peer. ``--fail-at`` raises, ``--slow-at`` makes steps longer.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from datetime import UTC, datetime

WEIGHTS = (0.7, -1.3, 2.1, 0.4)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z INFO [rank0] {text}", flush=True)


def batch(dice: random.Random, size: int) -> list[tuple[list[float], float]]:
    rows = []
    for _ in range(size):
        x = [dice.gauss(0, 1) for _ in WEIGHTS]
        rows.append((x, sum(a * b for a, b in zip(x, WEIGHTS, strict=True)) + dice.gauss(0, 0.1)))
    return rows


def step(weights: list[float], rows: list[tuple[list[float], float]], rate: float) -> float:
    """One step of gradient descent; the loss before it."""
    errors = [sum(a * b for a, b in zip(x, weights, strict=True)) - y for x, y in rows]
    for n in range(len(weights)):
        weights[n] -= rate * 2 * sum(error * x[n] for error, (x, _) in zip(errors, rows, strict=True)) / len(rows)
    return sum(error * error for error in errors) / len(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-s", type=float, default=0.5, help="seconds of a step")
    parser.add_argument("--hang-at", type=int, metavar="STEP")
    parser.add_argument("--fail-at", type=int, metavar="STEP")
    parser.add_argument("--slow-at", type=int, metavar="STEP")
    asked = parser.parse_args()
    dice, weights = random.Random(1), [0.0] * len(WEIGHTS)  # noqa: S311  # training data, no secret
    say(f"starting training of {len(weights)} parameters, {asked.steps} steps")
    for n in range(1, asked.steps + 1):
        began = time.monotonic()
        loss = step(weights, batch(dice, 256), 0.05)
        pace_s = asked.step_s * (4 if asked.slow_at and n >= asked.slow_at else 1)
        time.sleep(max(0.0, pace_s - (time.monotonic() - began)))
        say(f"iteration {n}/{asked.steps} | loss {loss:.5f} | elapsed {1000 * (time.monotonic() - began):.0f} ms")
        if n == asked.fail_at:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        while n == asked.hang_at:
            time.sleep(3600)
    say("training is done")
    return 0


if __name__ == "__main__":
    sys.exit(main())

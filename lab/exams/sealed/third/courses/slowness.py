"""Courses in which a job works, but too slowly."""

from __future__ import annotations

from lab.exams.sealed.common.case import CONTEXT, ROOT, Case
from lab.exams.sealed.third.courses.base import Found, quiet, run

FOUND = Found()


def timings(c: Case, feed: float, compute: float, reduce: float, role: str = ROOT) -> None:
    """One line of what a step is made of, in seconds."""
    text = f"step parts (s): feed {feed:.3f} compute {compute:.3f} reduce {reduce:.3f}"
    c.log(0, text, "W" if role else "I", role, "parts" if role else "")


def over(c: Case) -> None:
    """It is stopped by somebody, or still runs."""
    quiet(c)
    if c.rng.random() < 0.5:
        c.closed("cancel", CONTEXT)


@FOUND.course()
def one_machine_drags(c: Case) -> None:
    run(c, 15, 30)
    c.mark()
    for k in range(c.rng.randint(4, 8)):
        c.train(4, 7, 1.7)
        text = (
            f"slowest of {c.world} ranks: {c.vr} on {c.victim}, compute {c.pace * 1.6 + k / 50:.3f} s, "
            f"median {c.pace * 0.8:.3f} s"
        )
        c.log(0, text, "W", ROOT, "slowest")
    over(c)
    c.blame("performance/straggler", "slow", "training", [c.v])


@FOUND.course()
def hungry(c: Case) -> None:
    """Steps wait for their data, on all ranks."""
    run(c, 15, 30)
    timings(c, 0.004, c.pace * 0.8, c.pace * 0.15, "")
    c.mark()
    for k in range(c.rng.randint(4, 8)):
        slow = 1.6 + 0.15 * k
        c.train(4, 7, slow)
        timings(c, c.pace * (slow - 0.95), c.pace * 0.8, c.pace * 0.15)
    over(c)
    c.blame("performance/slow_dataloader", "slow", "training")


@FOUND.course()
def reductions_grow(c: Case) -> None:
    run(c, 15, 30)
    timings(c, 0.004, c.pace * 0.8, c.pace * 0.15, "")
    c.mark()
    for k in range(c.rng.randint(4, 8)):
        slow = 1.6 + 0.15 * k
        c.train(4, 7, slow)
        timings(c, 0.004, c.pace * 0.8, c.pace * (slow - 0.81))
    over(c)
    c.blame("performance/slow_network", "slow", "training", also="network/rdma_congestion")


@FOUND.course()
def every_step_longer(c: Case) -> None:
    """After a change of the sequence length each step takes twice as long on all ranks alike."""
    run(c, 20, 40)
    timings(c, 0.004, c.pace * 0.8, c.pace * 0.15, "")
    c.mark()
    c.log(0, "curriculum: sequence length 4096 -> 8192", "I", ROOT, "curriculum")
    for _ in range(c.rng.randint(4, 8)):
        c.train(5, 9, 2.1)
        timings(c, 0.004, c.pace * 1.9, c.pace * 0.15)
    over(c)
    c.blame("performance/slow_step", "slow", "training")

"""A loss that rose by much and stayed is told, though it is a number; one that comes down again is not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from diagnosis.files.parsing import parse
from diagnosis.kinds.logs.causes.divergence import find_rise
from diagnosis.model import Kind, ParseHints
from diagnosis.pipeline import diagnose
from diagnosis.report import Report

STEPS = 200


def falling(step: int) -> float:
    """The loss of a training that learns, with noise."""
    return 4 - 2 * min(1, step / 100) + 0.05 * (step % 3)


def report_of(tmp_path: Path, text: str, name: str) -> Report:
    data = text.encode()
    parsed = parse(io.BytesIO(data), name, ParseHints(kind=Kind.LOG), tmp_path)
    return diagnose([parsed], read=lambda path, at, size: data[at : at + size])


def lines_of(loss: Callable[[int], float]) -> str:
    lines = [f"step {n:4} | loss {loss(n):.4f} | gnorm 0.4 | 231 ms" for n in range(STEPS)]
    return "\n".join([*lines, "training finished", ""])


def trainer_state_of(loss: Callable[[int], float]) -> str:
    history = [{"epoch": n / 100, "loss": loss(n), "step": n * 10} for n in range(1, STEPS + 1)]
    return json.dumps({"global_step": STEPS * 10, "log_history": history, "max_steps": STEPS * 10}, indent=2)


@pytest.mark.parametrize(("form", "name"), [(lines_of, "train.log"), (trainer_state_of, "trainer_state.json")])
def test_a_loss_that_rose_and_stayed_is_told_of_a_job_that_goes_on(
    tmp_path: Path, form: Callable[[Callable[[int], float]], str], name: str
) -> None:
    rising = report_of(tmp_path, form(lambda n: falling(n) if n < 120 else 7.5 + n % 3 / 10), name).conclusion
    assert (rising.condition, rising.id) == ("degraded", "user.numerics")
    assert "The loss rose from about 2.05 to 7.6 at iteration 1" in rising.sentence
    assert report_of(tmp_path, form(falling), name).conclusion.condition in ("healthy", "running")


@pytest.mark.parametrize(
    ("what", "loss"),
    [
        ("falls to the end", falling),
        ("comes down again", lambda n: 8.0 if 120 <= n < 160 else falling(n)),
        ("only rises, as a reward's", lambda n: 0.1 + n / 100),
        ("rises a little", lambda n: falling(n) if n < 120 else 2.6),
        ("has one bad last step", lambda n: 9.0 if n == STEPS - 1 else falling(n)),
        ("is below zero", lambda n: -1.0 - n / 100),
    ],
)
def test_other_courses_are_no_divergence(what: str, loss: Callable[[int], float]) -> None:
    assert find_rise([loss(n) for n in range(STEPS)]) is None, what


def test_a_few_losses_show_no_course() -> None:
    later = count(1)
    assert find_rise([falling(0), falling(50), *(next(later) * 9.0 for _ in range(20))]) is None

"""A training whose loss is not a number, and which goes on to its planned end."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path

import pytest

from diagnosis.files.parsing import parse
from diagnosis.model import Kind, ParseHints
from diagnosis.pipeline import diagnose
from diagnosis.report import Report

STEPS = 40
FORMS = (
    "step {n}/40 loss: {loss} lr: 1e-4",
    "Epoch 0, iteration {n}/40 | global_step: {n} | reduced_train_loss: {loss} | lr: 6e-4",
    '{{"step": {n}, "loss": {loss}, "max_steps": 40}}',
)


def report_of(tmp_path: Path, form: str, lost: Collection[int], *, end: str = "training done") -> Report:
    """The diagnosis of a job whose loss is not a number in these steps."""
    steps = range(1, STEPS + 1)
    losses = {n: "NaN" if n in lost else f"{3 - n / 20:.3f}" for n in steps}
    lines = [form.format(n=n, loss=loss) for n, loss in losses.items()]
    data = "\n".join([*lines, end, ""]).encode()
    parsed = parse(io.BytesIO(data), "train.log", ParseHints(kind=Kind.LOG), tmp_path)
    return diagnose([parsed], read=lambda path, at, size: data[at : at + size])


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_that_stays_lost_is_told_of_a_job_that_completed(tmp_path: Path, form: str) -> None:
    found = report_of(tmp_path, form, range(21, 41)).conclusion
    assert (found.outcome, found.condition, found.id) == ("succeeded", "degraded", "user.numerics")
    assert found.sentence.startswith("The loss was not finite (NaN or infinite) from iteration 21 on")


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_that_comes_back_is_no_fault(tmp_path: Path, form: str) -> None:
    assert report_of(tmp_path, form, range(11, 16)).conclusion.condition == "healthy"


def test_the_last_line_alone_is_no_lost_training(tmp_path: Path) -> None:
    assert report_of(tmp_path, FORMS[0], [40]).conclusion.condition == "healthy"


def test_a_number_of_any_name_that_is_none_any_more_is_told_and_one_that_never_was_is_not(tmp_path: Path) -> None:
    found = report_of(tmp_path, "it={n}|L={loss}|t=0.5{n}", range(21, 41), end="bye").conclusion
    assert found.sentence.startswith("A measured value was not finite (NaN or infinite) from iteration 21 on")
    best = report_of(tmp_path, "it={n}|best=inf|L={loss}|t=0.5{n}", (), end="bye").conclusion
    assert best.condition != "degraded"

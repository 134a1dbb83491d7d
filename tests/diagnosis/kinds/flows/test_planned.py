"""Evaluations and checkpoints: pauses in which nobody sends, every so many steps."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.kinds.flows.capture.capture import Flows
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.planned import recurring_steps, without_planned
from diagnosis.kinds.flows.steps.steps import Steps
from tests.patience import no_hang

STEPS = 60


def job(pauses: dict[int, float], *, is_late: bool = False) -> tuple[Steps, JobFlows]:
    """Steps of a second, whose two members send after 0.6 s; ``pauses``: seconds before some steps. ``is_late``: only
    the second member pauses.
    """
    length = np.array([1.0 + pauses.get(k, 0.0) for k in range(STEPS)])
    edges = np.concatenate([[0.0], np.cumsum(length)])
    early = edges[:-1] + (0.6 if is_late else length - 0.4)
    sent = np.stack([early, edges[1:] - 0.4], axis=1).ravel()
    ids = np.tile(np.array([0, 1], dtype=np.int32), STEPS)
    nothing = np.zeros(len(sent), dtype=np.int32)
    no = np.zeros(len(sent), dtype=bool)
    flows = Flows(sent, sent + 0.1, ids, 1 - ids, np.full(len(sent), 1e6), nothing, nothing, no, no)
    return Steps(edges[:-1], edges[1:], edges, np.ones(STEPS), "dp", "gaps"), JobFlows(np.arange(2), flows)


def test_pauses_of_an_evaluation_every_fifteen_steps_are_no_part_of_a_step() -> None:
    steps, flows = job({15: 1.6, 30: 1.7, 45: 1.6})
    cleared, said = without_planned(steps, flows)
    assert said.startswith("Nothing was sent for 1.60 s before each of 3 steps at even distances (16, 31, 46)")
    assert cleared.planned == (15, 30, 45)
    assert cleared.seconds == pytest.approx(np.ones(STEPS))
    assert cleared.end == pytest.approx(steps.end)


def test_a_member_that_is_late_every_fifteen_steps_is_no_plan_because_the_others_send() -> None:
    steps, flows = job({15: 1.6, 30: 1.7, 45: 1.6}, is_late=True)
    assert without_planned(steps, flows) == (steps, "")


@pytest.mark.parametrize(
    ("found", "planned"),
    [
        ([15, 30, 45], [15, 30, 45]),
        ([9, 19, 29, 39, 49, 59, 12, 32, 52], [9, 12, 19, 29, 32, 39, 49, 52, 59]),
        ([15, 30], []),
        ([15, 30, 40], []),
        (list(range(30, 60)), []),
        ([20, 23, 26, 29], []),
        ([39, 46, 53], []),
        ([20, 40], []),
        ([14, 29, 44, 59], [14, 29, 44, 59]),
    ],
    ids=[
        "one plan", "two plans", "twice", "uneven", "since then", "ends before the capture", "begins late",
        "before the first step", "at the last step",
    ],
)  # fmt: skip
def test_what_recurs_at_one_distance_through_the_capture_is_planned(found: list[int], planned: list[int]) -> None:
    assert recurring_steps(np.array(found), STEPS).tolist() == planned


def test_three_pauses_by_chance_are_seldom_a_plan() -> None:
    dice = np.random.default_rng(9)
    drawn = [np.sort(dice.choice(STEPS, 3, replace=False)) for _ in range(2_000)]
    assert sum(bool(len(recurring_steps(at, STEPS))) for at in drawn) < 0.006 * len(
        drawn
    )  # .9 % if a plan may begin late


def test_many_pauses_cost_little() -> None:
    """Before, a third of 3,000 steps took 44 s, and the time grew with the third power."""
    at = np.flatnonzero(np.random.default_rng(5).random(20_000) < 0.3)
    with no_hang():
        planned = recurring_steps(at, 20_000)
    assert len(planned) < len(at) / 10

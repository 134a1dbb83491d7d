"""A worker that stays slow is named, whatever moves between the replicas; what all do alike is nobody's fault."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from diagnosis.facts.uneven_work import _moving_waits
from diagnosis.kinds.flows.capture.capture import Floats
from diagnosis.kinds.flows.slow.late.moving import that_stay
from diagnosis.kinds.flows.slow.late.slow_workers import _median, _median_of_others, shared_share, slow_workers
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.steps.stage_times import StageTimes
from diagnosis.kinds.flows.steps.steps import Steps
from tests.diagnosis.kinds.flows.helpers import analysed, job_of
from tests.diagnosis.kinds.flows.simulate import Job, Slow, simulate

REPLICAS, STAGES, STEPS = 6, 4, 30
SLOW_REPLICA, SLOW_STAGE = 2, 1


def find(work: Floats, slow: Floats, waiting: float = 0.0) -> list[SlowReport]:
    """The findings in a job of 1 s passes; ``work[replica, step]`` of whole replicas, ``slow[step]`` of one worker;
    ``waiting``: the share of its slowness, as a power, that the next stage shows.
    """
    times, steps, capture = job(work, slow)
    times.seconds[SLOW_REPLICA * STAGES + SLOW_STAGE + 1] *= slow**waiting
    layout = SimpleNamespace(dp_groups=[], pp_groups=[])
    return slow_workers(times, steps, cast("Any", layout), cast("Any", capture), float(np.median(steps.seconds)))


def job(work: Floats, slow: Floats, noise: float = 0.01) -> tuple[StageTimes, Steps, SimpleNamespace]:
    """The stages' times of such a job, its steps and its capture."""
    rng = np.random.default_rng(5)
    passes = rng.lognormal(0, noise, (REPLICAS, STAGES, STEPS)) * work[:, None, :]
    passes[SLOW_REPLICA, SLOW_STAGE] *= slow
    replica, stage = np.divmod(np.arange(REPLICAS * STAGES), STAGES)
    took = passes.sum(axis=1)
    end = np.cumsum(took.max(axis=0))
    begin = np.append(0.0, end[:-1])
    ended = begin + took
    seconds = passes.reshape(-1, STEPS)
    times = StageTimes(np.arange(len(seconds)), stage, STAGES, seconds, replica, ended)
    steps = Steps(begin, end, np.append(begin, end[-1]), np.ones(STEPS), "DP", "gaps")
    capture = SimpleNamespace(places={}, names=[f"r{d} s{p}" for d, p in zip(replica, stage, strict=True)])
    return times, steps, capture


def uneven(spread: float) -> Floats:
    return np.random.default_rng(3).lognormal(0, spread, (REPLICAS, STEPS))


EVEN = np.ones((REPLICAS, STEPS))
SOUND = np.ones(STEPS)


@pytest.mark.parametrize("spread", [0.0, 0.05])
@pytest.mark.parametrize("factor", [1.1, 1.3, 3.0])
def test_a_worker_that_stays_slow_is_named_alone_and_how_slow_it_is(spread: float, factor: float) -> None:
    (found,) = find(uneven(spread), SOUND * factor)
    assert found.culprits == [SLOW_REPLICA * STAGES + SLOW_STAGE]
    stated = re.search(r"computed ([\d.]+) times", found.reason)
    assert stated is not None
    assert float(stated[1]) == pytest.approx(factor, rel=0.04)
    assert "in every step" in found.reason


@pytest.mark.parametrize("factor", [1.3, 2.6])
def test_who_waits_for_a_slow_worker_of_its_replica_is_not_named(factor: float) -> None:
    found = find(EVEN, SOUND * factor, waiting=0.6)
    assert [slow.culprits for slow in found] == [[SLOW_REPLICA * STAGES + SLOW_STAGE]]


def test_two_workers_of_a_replica_that_are_as_slow_are_both_named() -> None:
    (found,) = find(EVEN, SOUND * 1.5, waiting=0.9)
    assert found.culprits == [SLOW_REPLICA * STAGES + stage for stage in (SLOW_STAGE, SLOW_STAGE + 1)]


def test_a_worker_that_becomes_slow_is_named_for_the_steps_since_then() -> None:
    (found,) = find(uneven(0.1), np.where(np.arange(STEPS) < 18, 1.0, 1.5))
    assert found.culprits == [SLOW_REPLICA * STAGES + SLOW_STAGE]
    assert "in steps 19 to 30" in found.reason


@pytest.mark.parametrize(
    "work",
    [EVEN, uneven(0.3), EVEN * np.where(np.arange(STEPS) < 15, 1.0, 1.6)],
    ids=["even", "uneven work", "everybody slow"],
)
def test_nobody_is_named_where_no_worker_differs_from_its_peers(work: Floats) -> None:
    assert find(work, SOUND) == []


def test_of_two_replicas_with_two_stages_the_sound_worker_of_the_sound_replica_is_not_named(tmp_path: Path) -> None:
    slow = Slow("gpu", 0, 29, 1.5, dp=1, pp=1)
    capture = simulate(Job(tp=1, pp=2, dp=2, gpus=1, microbatches=6, steps=30, slow=(slow,)))
    suspects = analysed([capture], tmp_path)["suspects"]
    assert [row["entity"] for row in suspects] == ["node-0003"]


def test_a_replica_of_which_all_stages_are_slow_is_named_whole() -> None:
    work = EVEN.copy()
    work[4] = 1.4
    (found,) = find(work, SOUND)
    assert found.culprits == [16, 17, 18, 19]
    assert "as the other replicas" in found.reason


@pytest.mark.parametrize("stage", [0, 1, 3], ids=["first stage", "inner stage", "last stage"])
def test_a_worker_that_is_slow_from_the_first_step_on_is_named_from_its_transfers(stage: int, tmp_path: Path) -> None:
    slow = Slow("gpu", 0, 29, 1.5, dp=1, pp=stage)
    capture = simulate(Job(tp=1, pp=4, dp=4, gpus=1, microbatches=8, steps=30, slow=(slow,)))
    report = analysed([capture], tmp_path)
    (found,) = [d for d in job_of(report, capture)["diagnoses"] if d["kind"] == "slow_group"]
    assert report["suspects"][0]["entity"] == f"node-{1 + 4 * stage:04d}"
    assert "in every step" in found["reason"]


def test_work_varies_for_all_stages_of_a_replica_together_and_machines_vary_by_themselves() -> None:
    assert shared_share(job(uneven(0.3), SOUND * 1.5)[0]) > 0.8
    assert shared_share(job(EVEN, SOUND * 1.5, noise=0.3)[0]) < 0.2


def test_a_stretch_of_lateness_is_chance_where_the_work_moves_and_half_of_the_steps_are_not() -> None:
    begin = np.arange(20.0)
    steps = Steps(begin, begin + 1, np.arange(21.0), np.ones(20), "DP", "gaps")
    short, long = SlowReport("slow_group", 3.0, 7.0, ""), SlowReport("slow_group", 3.0, 14.0, "")
    assert that_stay([short, long], steps) == [long]


def test_what_one_is_always_later_by_is_no_moving_wait() -> None:
    begins = np.zeros((4, 20))
    begins[1] = 0.5
    assert _moving_waits(begins).max() == pytest.approx(0.0)
    begins[np.arange(20) % 4, np.arange(20)] += 0.2
    assert _moving_waits(begins).max(axis=0) == pytest.approx(0.15, abs=0.06)


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
def test_each_row_is_compared_with_the_median_of_what_the_others_are_known_to_need(rows: int) -> None:
    rng = np.random.default_rng(rows)
    table = rng.normal(size=(rows, 60)).round(1)
    table[rng.random(table.shape) < 0.4] = np.nan

    def middle(values: Floats) -> list[float]:
        columns = [column[~np.isnan(column)] for column in values.T]
        return [float(np.median(column)) if len(column) else np.nan for column in columns]

    np.testing.assert_array_equal(_median(table), middle(table))
    others = [middle(np.delete(table, row, axis=0)) for row in range(rows)]
    np.testing.assert_array_equal(_median_of_others(table), others)

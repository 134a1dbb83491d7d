"""Who is named when something is slow, and that nobody is when nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diagnosis.kinds.flows.slow.slowness import is_significant, slow_steps
from diagnosis.kinds.flows.steps.steps import Steps
from tests.diagnosis.kinds.flows.helpers import analysed, job_of
from tests.diagnosis.kinds.flows.simulate import T0, Capture, Job, Slow, noisy, simulate, together

FIRST, LAST = 12, 20


def run(job: Job, work: Path) -> tuple[dict[str, Any], Capture]:
    capture = simulate(job)
    return analysed([capture], work, noisy(capture.records, loss=0.03, split=0.05)), capture


def covers(finding: dict[str, Any], capture: Capture) -> bool:
    """The finding covers the slow steps, within one step."""
    begin, end, step = capture.ends[FIRST - 1], capture.ends[LAST], capture.ends[1] - capture.ends[0]
    return abs(finding["t0"] - begin) < 2 * step and abs(finding["t1"] - end) < 2 * step


@pytest.mark.parametrize(
    ("job", "node"),
    [
        (Job(tp=8, dp=4, steps=40, slow=(Slow("gpu", FIRST, LAST, 1.5, dp=2),)), "node-0002"),
        (
            Job(tp=8, dp=4, pp=4, microbatches=8, steps=40, slow=(Slow("gpu", FIRST, LAST, 1.5, dp=2, pp=1),)),
            "node-0006",
        ),
        (Job(tp=8, dp=1, pp=4, microbatches=8, steps=40, slow=(Slow("gpu", FIRST, LAST, 1.5, pp=2),)), "node-0002"),
        (Job(tp=1, dp=32, mode="zero3", steps=40, slow=(Slow("gpu", FIRST, LAST, 1.5, dp=5),)), "node-0000"),
    ],
    ids=["replicas only", "pipeline and replicas", "pipeline only", "zero3"],
)
def test_a_slow_gpu_is_named_by_its_machine(job: Job, node: str, tmp_path: Path) -> None:
    report, capture = run(job, tmp_path)
    found = [d for d in job_of(report, capture)["diagnoses"] if d["kind"] == "slow_group"]
    assert len(found) == 1
    assert node in found[0]["culprits"]
    assert covers(found[0], capture)
    assert report["suspects"][0]["entity"] == node


def test_a_slow_link_seen_on_ring_and_pipeline_is_one_address(tmp_path: Path) -> None:
    job = Job(tp=8, dp=4, pp=4, microbatches=8, steps=40, slow=(Slow("nic", FIRST, LAST, 4.0, dp=2, tp=3, pp=1),))
    report, capture = run(job, tmp_path)
    found = [d for d in job_of(report, capture)["diagnoses"] if d["kind"] == "slow_group"]
    assert [d["culprits"] for d in found] == [[job.address(job.rank(3, 2, 1)), "node-0006"]]


def test_a_slow_link_seen_on_one_ring_alone_is_any_of_its_members_and_that_is_reported(tmp_path: Path) -> None:
    job = Job(tp=8, dp=4, steps=40, slow=(Slow("nic", FIRST, LAST, 4.0, dp=2, tp=3),))
    report, capture = run(job, tmp_path)
    (found,) = job_of(report, capture)["diagnoses"]
    assert {job.address(job.rank(3, d, 0)) for d in range(4)} <= set(found["culprits"])
    assert "do not show which link" in found["reason"]
    assert max(s["score"] for s in report["suspects"]) < 0.5


@pytest.mark.parametrize(("rails", "switch"), [(True, "leaf-3"), (False, "leaf-2")], ids=["rails", "top of rack"])
def test_a_slow_switch_is_recognised_by_what_crosses_it_and_what_avoids_it(
    rails: bool, switch: str, tmp_path: Path
) -> None:
    slow = (Slow("switch", FIRST, LAST, 4.0, switch=switch),)
    captures = together(
        Job(tp=8, dp=4, pp=4, microbatches=8, steps=40, rails=rails, slow=slow),
        Job(tp=4, dp=8, rails=rails, steps=60, seed=3),
    )
    if rails:
        captures = captures[:1]
    report = analysed(captures, tmp_path)
    assert [(d["kind"], d["switch"], d["candidates"]) for d in report["diagnoses"]] == [
        ("slow_switch", switch, [switch])
    ]
    assert covers(report["diagnoses"][0], captures[0])


def test_single_slow_steps_are_named_with_the_limit(tmp_path: Path) -> None:
    job = Job(tp=8, dp=4, pp=2, steps=40, slow=(Slow("step", 9, 9, 0.3), Slow("step", 25, 25, 0.2)))
    report, capture = run(job, tmp_path)
    found = job_of(report, capture)["diagnoses"]
    assert [(d["kind"], d["step"]) for d in found] == [("slow_step", 10), ("slow_step", 26)]
    assert "the limit" in found[0]["reason"]


def test_ten_slow_steps_of_sixty_are_found_where_k_sigma_finds_none(tmp_path: Path) -> None:
    chosen = [3, 9, 14, 22, 27, 35, 39, 46, 52, 58]  # at one distance they would be planned
    report, capture = run(Job(tp=8, dp=4, steps=60, slow=tuple(Slow("step", k, k, 0.25) for k in chosen)), tmp_path)
    assert [d["step"] - 1 for d in job_of(report, capture)["diagnoses"]] == chosen


def test_healthy_jobs_accuse_nobody(tmp_path: Path) -> None:
    jobs = (
        Job(tp=8, dp=4, pp=4, microbatches=8, steps=80, seed=9),
        Job(tp=2, dp=16, mode="rsag", steps=70, seed=3),
        Job(tp=1, dp=16, mode="zero3", seed=4),
    )
    captures = together(*jobs)
    report = analysed(
        captures,
        tmp_path,
        noisy(captures[0].records.vstack(captures[1].records).vstack(captures[2].records), loss=0.05, split=0.05),
    )
    assert report["suspects"] == []
    assert report["diagnoses"] == []
    assert [j["diagnoses"] for j in report["jobs"]] == [[], [], []]


def test_a_varying_sequence_length_is_not_taken_for_slowness(tmp_path: Path) -> None:
    report, capture = run(Job(tp=8, pp=2, dp=4, varying=True, steps=60), tmp_path)
    assert [d for d in job_of(report, capture)["diagnoses"] if d["kind"] == "slow_group"] == []


def test_times_are_epoch_seconds(tmp_path: Path) -> None:
    report, capture = run(Job(steps=12), tmp_path)
    steps = job_of(report, capture)["steps"]
    assert all(T0 < s["start"] < s["end"] < T0 + 60 for s in steps)


def of_lengths(*seconds: float) -> Steps:
    end = np.cumsum(np.array(seconds))
    return Steps(end - seconds, end, np.concatenate([[0.0], end]), np.ones(len(end)), "DP", "gaps")


EVEN = [1.0, 1.002, 0.998, 1.001, 0.999] * 4


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [
        ([*EVEN, 1.3, *EVEN], [20]),
        ([*EVEN, 1.3, 0.7, *EVEN], []),
        ([*EVEN, 0.7, 1.3, *EVEN], []),
        ([*EVEN, 1.3, 0.96, *EVEN], [20]),
        ([*EVEN, 1.04, *EVEN], []),
    ],
    ids=["alone", "boundary too late", "boundary too early", "next one hardly shorter", "less than a twentieth"],
)
def test_a_step_is_slow_unless_its_neighbour_lacks_what_it_has_too_much(seconds: list[float], slow: list[int]) -> None:
    mask, usual, limit = slow_steps(of_lengths(*seconds))
    assert np.flatnonzero(mask).tolist() == slow
    assert usual == pytest.approx(1.0, abs=0.002)
    assert limit >= 1.05 * usual


def test_what_lasts_for_most_of_a_capture_has_no_rest_to_be_compared_with() -> None:
    steps = of_lengths(*EVEN)
    assert is_significant(steps, 0, 15)
    assert not is_significant(steps, 0, 9)
    assert is_significant(of_lengths(*EVEN, *(1.1 * s for s in EVEN[:5])), 20, 24)


def test_a_stretch_of_a_third_of_a_noisy_job_does_not_hide_itself() -> None:
    rng = np.random.default_rng(4)
    seconds = 0.27 * (1 + 0.12 * rng.standard_normal(50))
    seconds[20:35] += 0.14
    mask, usual, _ = slow_steps(of_lengths(*seconds))
    assert mask[20:35].sum() >= 13
    assert not mask[:18].any() and not mask[37:].any()
    assert usual == pytest.approx(0.27, rel=0.08)


@pytest.mark.parametrize(("factor", "named"), [(1.0, []), (1.25, ["node-0003"])])
def test_a_member_that_is_a_little_late_at_each_layer_of_every_step_is_named(
    factor: float, named: list[str], tmp_path: Path
) -> None:
    slow = (Slow("gpu", 0, 99, factor, dp=3),)
    job = Job(tp=1, dp=8, gpus=1, mode="zero3", steps=30, layers=12, slow=slow)
    report = analysed([simulate(job)], tmp_path)
    assert [row["entity"] for row in report["suspects"] if row["suspect"]] == named

"""Unequal work that moves between workers is told as such, and accuses nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.exams.flows.capture import Case
from lab.exams.flows.uneven import uneven
from lab.measure.flows import answer, made_capture

CASES = {case.name: case for case in uneven()}


def said(case: Case) -> tuple[dict[str, Any], list[str | None]]:
    """The flows object, and the measures of its slow groups."""
    report, _, _ = answer(made_capture(case))
    return report, [d.get("measure") for j in report["jobs"] for d in j["diagnoses"] if d["kind"] == "slow_group"]


@pytest.mark.parametrize("name", ["moves-dp", "moves-dp-wide", "moves-pp", "moves-two", "moves-no-bytes"])
def test_work_that_moves_between_replicas_is_one_finding_and_no_machine_is_accused(name: str) -> None:
    report, measures = said(CASES[name])
    assert measures == ["uneven"]
    assert report["suspects"] == []
    assert all("culprits" not in d for j in report["jobs"] for d in j["diagnoses"])


@pytest.mark.parametrize("name", ["shared-lengths", "noisy"])
def test_lengths_that_all_replicas_share_and_little_noise_are_not_told_as_such(name: str) -> None:
    assert said(CASES[name])[1] == []


def test_a_machine_that_is_late_for_most_of_the_capture_is_accused_and_not_the_work() -> None:
    report, measures = said(CASES["one-for-long"])
    assert measures == ["late"]
    assert [s["entity"] for s in report["suspects"]] == ["host002"]


def test_without_byte_counts_each_step_is_found_though_some_hops_wait_long() -> None:
    case = CASES["moves-no-bytes"]
    for seed in range(700, 704):
        report, _ = said(replace(case, tenants=(replace(case.tenants[0], seed=seed),)))
        assert len(report["jobs"][0]["steps"]) == case.tenants[0].steps

"""Sizes that a job's own words state, against what its flows show."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.flows.stated import compare, disagreement, sizes


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("pretrain_gpt.py --pipeline-model-parallel-size 2 --seed 7", {"pp": 2}),
        ("torchrun train.py --tensor-model-parallel-size=8 --pipeline-model-parallel-size=4", {"tp": 8, "pp": 4}),
        ("run_train.sh --parallelism.tensor_parallel_degree 2", {"tp": 2}),
        ("serve --tp 4 --pp-size 2 --dp 3", {"tp": 4, "pp": 2, "dp": 3}),
        ("train.py --ppo 5 --http 3 --steps 100", {}),
        ("train.py --tp 99999999999999999999", {}),
    ],
)
def test_command_lines_state_sizes(command: str, found: dict[str, int]) -> None:
    assert sizes({}, [command]) == found


def test_a_layout_comes_before_the_command_line() -> None:
    assert sizes({"pp": 4, "order": "tp-dp-pp"}, ["train.py --pp 2 --tp 8"]) == {"pp": 4, "tp": 8}
    assert sizes({"pp": True, "tp": "8"}, []) == {}


def test_a_size_that_differs_is_reported_with_both_sides() -> None:
    said = disagreement({"pp": 2, "tp": 1}, {"tp": 1, "pp": 4, "dp": 2})
    assert "states pp 2" in said
    assert "show pp 4" in said


def test_agreement_and_silence_are_not_mentioned() -> None:
    assert disagreement({"pp": 2, "tp": 8}, {"tp": None, "pp": 2, "dp": 4}) == ""
    assert disagreement({}, {"tp": 8, "pp": 2, "dp": 4}) == ""


def test_each_of_several_jobs_is_compared_with_its_own_description() -> None:
    small = {"members": ["10.0.0.1", "10.0.0.2"], "nodes": ["a", "b"], "parallelism": {"tp": 1, "pp": 2, "dp": 1}}
    large = {"members": ["10.0.0.3"] * 4, "nodes": ["c", "d"], "parallelism": {"tp": 1, "pp": 1, "dp": 4}}
    report: dict[str, Any] = {"jobs": [large, small], "limits": []}
    described = [(frozenset({"a", "b", "10.0.0.1"}), {"pp": 4}), (frozenset({"c", "d"}), {"pp": 1})]
    compare(report, {}, described)
    assert (small["stated"], large["stated"]) == ({"pp": 4}, {"pp": 1})
    assert report["limits"] == [disagreement({"pp": 4}, {"pp": 2})]

"""How sure a verdict is, and what lowers or raises that."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.decide import verdict_probability
from tests.diagnosis.cases import case_of_lines

FAILURE = {"votes": 3.0}
GOOD_END = {"succeeded": 1.0}


def test_a_verdict_without_a_near_rival_is_surer_than_one_with_it_or_by_a_form_of_line() -> None:
    alone = verdict_probability.probability("failure", FAILURE)
    rivalled = verdict_probability.probability("failure", FAILURE | {"rivalled": 1.0})
    by_form = verdict_probability.probability("failure", FAILURE | {"by_form": 1.0, "several_files": 1.0})
    assert alone > 0.92
    assert 0.8 < rivalled < 0.9
    assert by_form < 0.75


def test_a_near_rival_is_a_line_of_another_category_alone(tmp_path: Path) -> None:
    refused = "train.py: error: unrecognized arguments: --stepz 9"
    unknown = "ssh: Could not resolve hostname gpu-7: Temporary failure in name resolution"
    one, two = (case_of_lines(tmp_path / name, *lines) for name, lines in (("a", [refused]), ("b", [refused, unknown])))
    assert [verdict_probability.of_failure(case, 0.9)["rivalled"] for case in (one, two)] == [0.0, 1.0]


def test_a_good_end_beside_a_line_that_might_begin_a_failure_is_less_sure() -> None:
    assert verdict_probability.probability("no_failure", GOOD_END) > 0.95
    assert verdict_probability.probability("no_failure", GOOD_END | {"problem": 1.0, "open_exception": 1.0}) < 0.75

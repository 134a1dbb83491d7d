"""How sure a verdict is, and what lowers or raises that."""

from __future__ import annotations

from diagnosis.kinds.logs.decide import verdict_probability

FAILURE = {"votes": 3.0}
GOOD_END = {"succeeded": 1.0}


def test_a_clear_lead_in_one_file_is_surer_than_a_form_of_line_in_several_files() -> None:
    clear = verdict_probability.probability("failure", FAILURE | {"clear": 1.0})
    by_form = verdict_probability.probability("failure", FAILURE | {"by_form": 1.0, "several_files": 1.0})
    assert clear > 0.94
    assert by_form < 0.75


def test_a_good_end_beside_a_line_that_might_begin_a_failure_is_less_sure() -> None:
    assert verdict_probability.probability("no_failure", GOOD_END) > 0.95
    assert verdict_probability.probability("no_failure", GOOD_END | {"problem": 1.0, "open_exception": 1.0}) < 0.75

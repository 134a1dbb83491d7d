"""What is found in a line holds for lines that differ from it in digits alone."""

from __future__ import annotations

import pytest

from diagnosis.kinds.logs.compare.quantities import quantities, step_of
from diagnosis.kinds.logs.pace.counter_words import counter
from diagnosis.kinds.logs.pace.writer_numbers import rank_of
from diagnosis.kinds.logs.text import digit_forms
from diagnosis.kinds.logs.text.digit_forms import DigitForms


def test_lines_that_differ_in_digits_are_searched_once() -> None:
    searched: list[str] = []
    forms = DigitForms(searched.append)
    for line in ("step 12 loss 2.5", "step 17 loss 2.1", "step 9 loss 2.5", "stop 12 loss 2.5"):
        forms.of(line)
    assert searched == ["step 12 loss 2.5", "step 9 loss 2.5", "stop 12 loss 2.5"]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digit_forms, "MAX_KEPT", 2)
    forms = DigitForms(len)
    assert [forms.of("a" * size) for size in (3, 1, 2, 4_000, 3, 3)] == [3, 1, 2, 4_000, 3, 3]
    assert len(forms._known) <= 2


def test_each_line_of_a_form_has_its_own_numbers() -> None:
    lines = ["rank 3 step 12: fwd 7.25 ms, wait 1m02s", "rank 5 step 19: fwd 8.50 ms, wait 3m41s"]
    assert [[found.value for found in quantities(line)] for line in lines] == [[0.00725, 62.0], [0.0085, 221.0]]
    assert [(step_of(line), rank_of(line)) for line in lines] == [(12, 3), (19, 5)]
    assert [counter(line) for line in lines] == [("iteration", 12, 7), ("iteration", 19, 7)]


def test_a_name_with_a_digit_is_the_name_of_its_own_line() -> None:
    names = [[found.name for found in quantities(f"fwd{number}_ms=2.5")] for number in (1, 2)]
    assert names == [["fwd1_ms"], ["fwd2_ms"]]

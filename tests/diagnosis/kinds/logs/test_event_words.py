"""The words of events are searched once, and in any script as in ASCII."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning.event_words import with_words

_NO_EVENT = {"template": "step 5", "example": "step 5"}
_CASES = {
    "is_structure": {"template": '  File "train.py", line 3, in main', "example": "x"},
    "is_quoted_code": {"template": "x", "example": "[rank0]:     loss = model(batch)"},
    "is_ill": {"template": "x", "example": "link is down"},
    "is_tolerated": {"template": "x", "example": "falling back to the slow path"},
    "is_told_to_stop": {"template": "x", "example": "Received signal 15, terminating"},
}


@pytest.mark.parametrize("other", ["step 5", "Schritt 5 für 日本"], ids=["in ASCII", "beside other scripts"])
def test_each_question_is_answered_for_each_event(other: str) -> None:
    rows = [*_CASES.values(), _NO_EVENT | {"example": other}]
    found = with_words(pl.DataFrame(rows))
    for place, column in enumerate(_CASES):
        assert found[column][place], column
        assert not found[column][-1], column


def test_a_word_is_bounded_by_letters_of_any_script() -> None:
    found = with_words(pl.DataFrame([{"template": "x", "example": "hängt: downö"}]))
    assert found["is_ill"].to_list() == [False]

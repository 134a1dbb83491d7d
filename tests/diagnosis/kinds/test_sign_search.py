"""Patterns whose literals a text lacks are not tried on it."""

from __future__ import annotations

import re

import pytest

from diagnosis.kinds.sign_search import SignSearch
from diagnosis.kinds.states import formats


@pytest.mark.parametrize("form", formats.load(), ids=lambda form: form.id)
def test_a_report_may_have_its_own_sign(form: formats.Format) -> None:
    every = SignSearch(one.sign.pattern for one in formats.load())
    assert form.sign.pattern in every.possible(form.example[: formats.SIGN_BYTES])


def test_few_signs_are_possible_in_a_line_of_a_log() -> None:
    every = [one.sign.pattern for one in formats.load()]
    assert len(SignSearch(every).possible("2026-03-01 08:00:00 [rank3] step 7 loss 2.31\n")) < len(every) / 5


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("alpha|beta", "a line with beta"),
        ("(?i)Kelvin state", "\u212aELVIN \u017fTATE"),
        (r"kind: (?!Event\b)\w+", "kind: Node"),
        (r"\d\d", "12"),
    ],
)
def test_a_pattern_that_matches_is_possible(pattern: str, text: str) -> None:
    assert re.search(pattern, text)
    assert pattern in SignSearch([pattern, "another sign"]).possible(text)
    assert "another sign" not in SignSearch([pattern, "another sign"]).possible(text)

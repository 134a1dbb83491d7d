"""A fault is found in whatever form a tool states it, and the same facts without it are calm."""

from __future__ import annotations

import time

import pytest

from diagnosis.evidence import Result
from diagnosis.kinds.states import judgement, layouts, parse
from tests.diagnosis.kinds.forms.faults import BAD, FAULTS, Fault
from tests.diagnosis.kinds.forms.writers import FORMS

#: Samples state no sentences.
_SAMPLES = ["exposition"]
#: Lines that begin with the number of a rank are those of a log.
_RANKS = ["sentences", "ini", "tree"]
_NOT_FOUND = {
    "reason off the bus": _SAMPLES,
    "message full": _SAMPLES,
    "remark missing file": _SAMPLES,
    "event killed": _SAMPLES,
    "slow rank": _RANKS,
}


def _results(text: str) -> list[Result]:
    return judgement.analyse([parse(text.encode(), "report.txt")])


def _is_found(given: Fault, found: list[Result]) -> bool:
    first = next(iter(found), None)
    if first is None or not first.is_fault:
        return False
    is_named = given.names[BAD] in f"{first.words} {first.target}"
    return is_named and first.outcome.adds.startswith(given.means)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_in_each_form_and_its_object_is_named(fault: str) -> None:
    rows = FAULTS[fault].rows(is_bad=True)
    results = {form: _results(write(rows)) for form, write in FORMS.items()}
    missed = [form for form, found in results.items() if not _is_found(FAULTS[fault], found)]
    assert missed == _NOT_FOUND.get(fault, [])


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_facts_without_the_fault_are_calm(fault: str) -> None:
    rows = FAULTS[fault].rows(is_bad=False)
    results = {form: _results(write(rows)) for form, write in FORMS.items()}
    assert [form for form, found in results.items() if found] == []


@pytest.mark.parametrize(
    "text",
    [
        f"{' ' * 79}(\n" * 40,
        f"{'|   ' * 20}(\n" * 40,
        f"{'a=1,,,,,,,,' * 60}=\n" * 40,
        f"{'temp a=1 ' * 60}\n" * 40,
        "".join(f"temp of {number}: 5\n" for number in range(4_000)),
        "".join(f"x.y{number}.temp: 5\n" for number in range(4_000)),
    ],
    ids=["blanks", "branches", "marks", "words", "one object", "many objects"],
)
def test_a_hostile_text_is_read_and_judged_in_little_time(text: str) -> None:
    began = time.process_time()
    _results(text)
    assert time.process_time() - began < 3.0


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"exposition"}))
def test_objects_with_the_same_properties_are_a_report_whatever_their_words(form: str) -> None:
    assert layouts.is_decided(FORMS[form](FAULTS["gpu uncorrectable"].rows(is_bad=False)))

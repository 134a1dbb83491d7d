"""JSON documents that break off, or stand one after another."""

from __future__ import annotations

import json

import pytest

from diagnosis.kinds.states import report_sections
from diagnosis.kinds.states.known_shapes import cut_json
from diagnosis.kinds.states.report_sections import facts_of

DOCUMENT = {"Members": [{"@odata.id": f"/redfish/v1/Systems/{n}", "Status": {"Health": "OK"}} for n in range(9)]}
TEXT = json.dumps(DOCUMENT)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (TEXT, DOCUMENT),
        ('{"a": [1, {"b": 2, "c', {"a": [1, {"b": 2}]}),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ("{", {}),
        ("some words", None),
        ("", None),
    ],
)
def test_what_stands_before_the_cut_is_read(text: str, value: object) -> None:
    assert cut_json.read(text) == value


def test_a_document_of_too_many_levels_costs_no_error() -> None:
    assert cut_json.read("[" * 50_000) is not None


def test_a_dump_that_breaks_off_has_the_facts_before_its_end() -> None:
    whole = facts_of(report_sections.parse(TEXT.encode(), "dump.json"))
    cut = facts_of(report_sections.parse(TEXT[: len(TEXT) // 2].encode(), "dump.json"))
    assert 0 < len(cut) < len(whole)
    assert cut == whole[: len(cut)]

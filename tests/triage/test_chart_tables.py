"""Without scripts, the charts of flows are tables; every landmark of a page has a name of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triage.charts.flows import iso
from triage.charts.tables import MAX_ROWS, pairs_table, port_table, steps_table

TEMPLATES = Path(__file__).resolve().parent.parent.parent / "templates"


def test_every_step_has_its_row():
    steps = [{"start": 0.0, "end": 1.5}, {"start": 1.5, "end": 9.5, "slow": True}]
    table = steps_table({"steps": steps}, iso)
    assert table.rows == [
        ("1", "1970-01-01T00:00:00.000", "1.500 s", ""),
        ("2", "1970-01-01T00:00:01.500", "8.000 s", "slow"),
    ]
    assert table.left_out == 0


def test_of_many_steps_the_slow_ones_stay_and_the_rest_is_thinned():
    steps = [{"start": n, "end": n + 1.0, "slow": n == 4321} for n in range(9000)]
    table = steps_table({"steps": steps}, iso)
    assert len(table.rows) <= MAX_ROWS
    assert [row[0] for row in table.rows if row[3]] == ["4,322"]
    assert table.left_out == 9000 - len(table.rows)


def test_pairs_with_most_records_come_first():
    pairs = [{"a": "x", "b": "y", "type": "DP", "records": n} for n in range(300)]
    table = pairs_table({"pairs": pairs})
    assert table.rows[0] == ("x", "y", "DP", "299")
    assert table.left_out == 100


def test_a_port_is_shown_in_gigabits():
    table = port_table({"times": [0.0], "in_bps": [2.5e9], "out_bps": [1e8]}, iso)
    assert table.rows == [("1970-01-01T00:00:00.000", "2.500", "0.100")]


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_searches_and_navigations_have_names(path):
    # an unnamed search beside the header's would be one landmark too many to a reader who hears the page
    kinds = r"""<(?:form|nav|aside)(?:[^>"'{]|"[^"]*"|'[^']*'|\{%.*?%\}|\{\{.*?\}\})*>"""
    tags = re.findall(kinds, path.read_text(), re.S)
    nameless = [tag for tag in tags if 'role="search"' in tag or tag.startswith(("<nav", "<aside"))]
    assert [tag for tag in nameless if "aria-label" not in tag] == []


def test_names_of_searches_differ_within_a_page():
    header = (TEMPLATES / "base.html").read_text()
    named = re.findall(r'role="search" aria-label="([^"]+)"', header)
    others = [
        name
        for path in TEMPLATES.rglob("*.html")
        if path.name != "base.html"
        for name in re.findall(r'role="search"\s+aria-label="([^"]+)"', path.read_text())
    ]
    assert len(others) >= 8
    assert not set(named) & set(others)

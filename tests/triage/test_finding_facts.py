"""The events of a report as rows."""

from __future__ import annotations

from triage.domain.finding_facts import findings_of


def test_the_lines_of_an_event_stand_by_time_and_those_without_one_last():
    lines = [{"line": 1, "time": None}, {"line": 2, "time": 9.0}, {"line": 3, "time": 4.0}]
    (finding,) = findings_of({"logs": {"events": [{"lines": lines}]}})
    assert [line["line"] for line in finding.lines] == [3, 2, 1]


def test_writers_are_placed_by_their_seconds_after_the_first_one():
    rows = [{"node": f"n{n}", "file": "a.log", "line": n, "time": 100.0 + n} for n in (0, 1, 4)]
    (finding,) = findings_of({"logs": {"events": [{"writers": rows, "nodes": 5}]}})
    assert [(one.node, one.after_s, one.x) for one in finding.writers] == [
        ("n0", 0.0, "0.0"),
        ("n1", 1.0, "25.0"),
        ("n4", 4.0, "100.0"),
    ]
    assert finding.later_writers == 2

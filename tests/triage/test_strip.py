"""The causal strip: what followed what, as lanes, marks and rows. No database but where a page is read."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import make_attempt, make_job
from tests.pages import page_text
from tests.triage.report import LOG, T0, sample
from triage.selectors.strip import MAX_LANES, MAX_MARKS, strip_of
from triage.selectors.strip_axis import Axis
from triage.services.diagnosing import diagnosis_store
from triage.templatetags.strip import entry_url, mark_title, opens


def found(what: str, t: Any = None, *nodes: str, source: str = "logs", **more: Any) -> dict[str, Any]:
    """One finding of a chain."""
    places = [{"kind": "node", "name": name, "rank": None} for name in nodes]
    row = {"source": source, "what": what, "text": f"{what} text", "t": t, "until": None, "places": places}
    return {**row, "steps": None, "evidence": [], **more}


def told(*chain: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A report of version 2 with this chain."""
    report = sample() | {"version": 2}
    conclusion = {"condition": "failed", "id": "hardware.gpu.off_bus", "confidence": 0.93, "alternatives": []}
    conclusion |= {"moment": None, "fault": [], "seen": [], "slowdowns": [], "disagreements": [], "chain": list(chain)}
    report["conclusion"] = conclusion | more
    return report


def strip(*chain: dict[str, Any], **more: Any):
    return strip_of(told(*chain, **more))


def whats(rows) -> list[str]:
    return [row.what for row in rows]


NODE = {"kind": "node", "name": "gpu-0412", "rank": None, "p": 0.97, "reasons": ["Xid 79"], "why": "Xid 79"}


def test_a_report_without_a_conclusion_has_no_strip():
    assert strip_of(sample()) is None
    assert strip() is None


def test_marks_stand_in_the_order_of_time_and_are_numbered_so():
    got = strip(found("teardown", T0 + 9.5), found("progress", T0 + 1.5), found("root", T0 + 5.5, "gpu-0412"))
    assert whats(got.marks) == ["progress", "root", "teardown"]
    assert [mark.number for mark in got.marks] == [1, 2, 3]
    places = [float(mark.x) for mark in got.marks]
    assert places == [0.0, 50.0, 100.0]


def test_a_cause_stamped_with_its_fraction_is_not_put_after_what_it_caused_in_the_same_second():
    got = strip(found("consequence", T0), found("root", T0 + 0.299), found("progress", T0))
    assert whats(got.marks) == ["progress", "root", "consequence"]
    assert [mark.at for mark in got.marks] == [T0, T0 + 0.299, T0]
    assert got.marks[0].x == "0.00" < got.marks[1].x == got.marks[2].x  # drawn where its cause is, not before it
    fine = strip(found("consequence", T0 + 0.1), found("root", T0 + 0.299))
    assert whats(fine.marks) == ["consequence", "root"]


def test_the_cause_and_the_end_say_what_they_were_where_there_is_room():
    root = found("root", T0 + 1, "gpu-0412") | {"category": "hardware.gpu.off_bus"}
    got = strip(root, found("outcome", T0 + 9) | {"text": "failed"})
    assert [mark.label for mark in got.marks] == ["root cause: GPU lost from the PCIe bus", "failed"]
    assert got.marks[0].text == "GPU lost from the PCIe bus: root text"
    other = found("root", T0 + 2, "gpu-0412") | {"category": "hardware.disk.full"}
    crowded = strip(root, other, found("outcome", T0 + 9))
    assert crowded.marks[0].label == "root cause"


def test_root_lines_that_state_one_cause_are_one_mark_with_all_their_lines():
    rows = [found("root", T0 + n, "gpu-0412", category="hardware.disk.full") for n in range(3)]
    got = strip(*rows, found("root", T0 + 1, "gpu-0412", category="hardware.disk.io"), found("outcome", T0 + 9))
    assert [(mark.what, len(mark.more)) for mark in got.marks] == [("root", 2), ("root", 0), ("outcome", 0)]


def test_a_line_that_only_announces_others_does_not_stand_for_them():
    heading = "Root Cause (first observed failure):"
    (mark,) = strip(found("teardown", T0, text=heading), found("teardown", T0 + 1, text="Killed")).marks
    assert (mark.text, mark.at, [one.text for one in mark.more]) == ("Killed", T0, [heading])


def test_a_slow_stretch_that_ended_says_so():
    slow = found("slow", T0, until=T0 + 40, source="flows", text="steps 25 to 35 took long") | {"steps": [25, 35]}
    lasting = {"first": 25, "last": 35, "source": "flows", "lost_gpu_s": None, "t": T0, "until": T0 + 40}
    ends = [strip(slow, slowdowns=[lasting | {"is_over": is_over}]).marks[0].text for is_over in (True, False)]
    assert ends == ["Steps 25 to 35 took long; then usual speed again", "Steps 25 to 35 took long"]


def test_a_stretch_shorter_than_a_millisecond_has_no_duration():
    assert [strip(found("slow", T0, until=T0 + s)).marks[0].lasts_s for s in (0.0004, 0.5)] == [None, 0.5]


def test_nodes_that_only_wait_are_one_mark_and_no_first_anomaly():
    ceased = [found("flows_ceased", T0 + n, name) for n, name in enumerate(("n1", "n2", "gpu-0412", "n3"))]
    got = strip(*ceased, found("outcome", T0 + 9), condition="hung", fault=[NODE])
    assert [(mark.what, mark.nodes, mark.is_first) for mark in got.marks][:2] == [
        ("flows_ceased", ("n1", "n2", "n3"), False),
        ("flows_ceased", ("gpu-0412",), True),
    ]


def test_if_nobody_is_accused_the_silence_of_nodes_is_one_mark_but_of_those_where_it_was_seen():
    ceased = [found("flows_ceased", T0 + n, name) for n, name in enumerate(("gpu-0412", "n1", "n2"))]
    got = strip(*ceased, seen=[NODE])
    assert [mark.nodes for mark in got.marks] == [("gpu-0412",), ("n1", "n2")]


def test_equal_times_stand_on_levels_of_their_lane_and_never_on_each_other():
    got = strip(*(found(what, T0, "gpu-0412") for what in ("root", "consequence", "teardown")), fault=[NODE])
    assert len({mark.y for mark in got.marks}) == 3
    assert len({mark.x for mark in got.marks}) == 1
    lane = next(lane for lane in got.lanes if lane.name == "gpu-0412")
    assert all(lane.y <= mark.y <= lane.y + lane.height for mark in got.marks)


def test_what_has_no_time_is_listed_apart_and_is_not_on_the_axis():
    got = strip(found("waited_for", None, "gpu-0412", source="stacks"), found("progress", T0))
    assert whats(got.marks) == ["progress"]
    assert whats(got.undated) == ["waited_for"]
    assert [row.number for row in got.rows] == [1, 2]


def test_what_stands_at_the_time_of_the_line_before_it_says_so():
    known, guessed = found("progress", T0, is_stamped=True), found("root", T0, "gpu-0412", is_stamped=False)
    got = strip(known, guessed, found("teardown", T0), found("check", None, is_stamped=False))
    assert whats(got.unstamped) == ["root"]
    assert mark_title(got.unstamped[0]).endswith("(its lines state no time)")
    assert all(row.is_stamped for row in got.undated)  # they have no time that could mislead
    joined = strip(*(found("teardown", T0 + n, is_stamped=n > 0) for n in range(2)))
    assert [mark.is_stamped for mark in joined.marks] == [False]  # the first one gives the time of both


def test_the_key_names_each_colour_of_the_picture_once():
    kinds = ("root", "waited_for", "stacks", "teardown", "outcome")
    got = strip(*(found(what, T0 + n) for n, what in enumerate(kinds)))
    assert got.key == (
        ("root", "root cause"),
        ("waited_for", "others wait, stacks taken"),
        ("teardown", "teardown, end"),
    )
    assert (got.has_accused, got.has_bars) == (False, False)
    assert strip(found("root", T0, "gpu-0412", until=T0 + 9), fault=[NODE]).has_bars


@pytest.mark.parametrize("t", [float("nan"), float("inf"), -1e300, 1e300, "soon", True, [], 10**400])
def test_times_that_no_calendar_holds_count_as_none(t):
    got = strip(found("root", t, until=t), found("progress", T0, until=t))
    assert whats(got.undated) == ["root"]
    assert got.marks[0].until is None


def test_an_end_before_its_begin_draws_no_stretch():
    assert strip(found("slow", T0 + 5, until=T0), found("progress", T0)).marks[1].until is None


def test_however_many_findings_there_are_the_picture_has_few_marks_and_counts_the_rest():
    kinds = [f"kind {n}" for n in range(50)]
    got = strip(*(found(kind, T0 + n) for n, kind in enumerate(kinds)), found("root", T0 + 60))
    assert len(got.marks) == MAX_MARKS
    assert got.left_out == 51 - MAX_MARKS
    assert "root" in whats(got.marks)


def test_findings_of_one_kind_share_a_mark_and_lose_none_of_their_lines():
    rows = [found("teardown", T0 + n, f"n{n}", evidence=[{"file": "a.log", "line": n + 1}]) for n in range(9)]
    got = strip(*rows)
    (mark,) = got.marks
    assert [one.evidence["line"] for one in (mark, *mark.more)] == list(range(1, 10))
    assert mark.until == T0 + 8
    assert mark.where == ("n0", "n1", "n2", "n3", "and 5 more")


def test_lanes_are_the_job_the_accused_where_it_was_seen_and_the_others_counted():
    seen = [{"kind": "node", "name": f"gpu-9{n}", "rank": None, "why": "wrote a line"} for n in range(20)]
    got = strip(found("root", T0, "gpu-0412"), fault=[NODE], seen=seen)
    assert [lane.name for lane in got.lanes[:3]] == ["job", "gpu-0412", "gpu-90"]
    assert len(got.lanes) == 1 + MAX_LANES + 1
    assert got.lanes[1].p == 0.97
    few = strip(found("root", T0, "gpu-0412"), fault=[NODE])
    assert few.lanes[-1].name == "3 other nodes"


def test_a_finding_on_several_lanes_is_one_mark_that_touches_the_others():
    got = strip(found("teardown", T0, "gpu-0412", "gpu-0413"), fault=[NODE])
    (mark,) = got.marks
    accused, others = got.lanes[1], got.lanes[-1]
    assert accused.y < mark.y < accused.y + accused.height
    assert [others.y < y < others.y + others.height for y in mark.touches] == [True]


def test_of_a_hung_job_the_time_without_a_step_is_a_stretch():
    got = strip(found("progress", T0), found("teardown", T0 + 600), condition="hung")
    assert got.marks[0].until == T0 + 600
    assert "no step in the 10 min after it" in got.marks[0].text


def test_who_is_waited_for_stands_in_the_time_without_a_step_though_stacks_have_no_time():
    waits = found("waited_for", None, "gpu-0412", source="stacks", text="Rank 3 is waiting for its data loader.")
    got = strip(found("progress", T0), waits, found("teardown", T0 + 600), condition="hung", fault=[NODE])
    assert [(mark.what, mark.at, mark.until, mark.is_during) for mark in got.marks][:2] == [
        ("progress", T0, T0 + 600, False),
        ("waited_for", T0, T0 + 600, True),
    ]
    assert got.marks[1].label == "others wait: Rank 3 is waiting for its data loader."
    assert got.undated == ()
    running = strip(found("progress", T0), waits, condition="hung", fault=[NODE])  # no end bounds the hang
    assert whats(running.undated) == ["waited_for"]


def test_a_lane_says_that_it_is_a_link_and_the_nodes_are_no_other_ones_then():
    link = {"kind": "link", "name": "leaf0-leaf1", "rank": None, "p": 0.85, "reasons": []}
    lanes = strip(found("slow", T0, until=T0 + 9), found("outcome", T0 + 20), fault=[link]).lanes
    assert [(lane.name, lane.prefix) for lane in lanes] == [("job", ""), ("leaf0-leaf1", "link"), ("4 nodes", "")]


def test_slow_steps_that_the_conclusion_does_not_tell_are_no_first_anomaly():
    slow, root = found("slow", T0, until=T0 + 1, source="flows"), found("root", T0 + 5)
    assert [mark.is_first for mark in strip(slow, root).marks] == [False, True]
    rows = [{"source": "flows", "first": 1, "last": 2, "lost_gpu_s": 80.0, "t": T0, "until": T0 + 1}]
    got = strip({**slow, "steps": [1, 2]}, root, slowdowns=rows)
    assert [mark.is_first for mark in got.marks] == [True, False]
    assert got.marks[0].text == "Slow text; it cost 0.02 GPU-hours"


def test_a_long_quiet_stretch_is_folded_and_its_length_said():
    axis = Axis.for_spans([(T0, None), (T0 + 1, T0 + 3), (T0 + 86_000, T0 + 86_002)])
    assert axis.folds()[0][1] == 85_997
    assert axis.x(T0) == 0.0
    assert 25 < axis.x(T0 + 3) < 75
    assert axis.x(T0 + 86_002) == pytest.approx(100)
    assert axis.x(T0 - 50) == 0.0 and axis.x(T0 + 1e6) == 100.0


@pytest.mark.parametrize("length", [0.0, 0.3, 7.0, 3_000.0, 1e6, 2e11])
def test_ticks_are_few_in_order_and_on_the_axis(length):
    ticks = [float(tick.x) for tick in Axis.for_spans([(T0, None), (T0 + length, None)]).ticks()]
    assert len(ticks) <= 8
    assert ticks == sorted(ticks)
    assert all(0 <= x <= 100 for x in ticks)


def test_each_mark_leads_to_its_evidence():
    line = found("root", T0, evidence=[{"file": LOG, "line": 812}])
    rows = strip(
        line, found("waited_for", source="stacks"), found("slow", T0, source="flows"), found("outcome", T0)
    ).rows
    urls = {row.what: entry_url(row, "llama", 0) for row in rows}
    assert urls == {
        "root": f"/jobs/llama/logs/0/{LOG}?line=812#L812",
        "waited_for": "/jobs/llama/stacks/?attempt=0",
        "slow": "/jobs/llama/flows/?attempt=0",
        "outcome": "/jobs/llama/?attempt=0#timeline",
    }
    assert {opens(row) for row in rows} == {"open line 812", "open stacks", "open flows", "open timeline"}
    assert mark_title(rows[0]).startswith("1: ")


def page_of(client, report) -> str:
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    url = f"/incidents/{attempt.incidents.get().pk}/"
    with CaptureQueriesContext(connection) as queries:
        response = client.get(url)
    assert len(queries) <= 9
    return page_text(response)


@pytest.mark.django_db
def test_the_page_shows_the_strip_instead_of_the_timeline_and_what_disagrees(client, ada):
    both = "The evidence disagrees: the flows accuse gpu-1, the logs accuse gpu-0412."
    page = page_of(
        client,
        told(
            found("progress", T0),
            found("root", T0 + 5, "gpu-0412", evidence=[{"file": LOG, "line": 812}]),
            found("waited_for", None, "gpu-0412", source="stacks"),
            fault=[NODE],
            seen=[{"kind": "device", "name": "0000:9b:00", "rank": None, "why": "named in a line"}],
            disagreements=[{"about": "fault", "sides": [], "text": both}],
        ),
    )
    assert page.count('data-testid="strip-mark"') == 2
    assert page.count('data-testid="strip-row"') == 3
    assert "data-chart-url" not in page
    assert both in page
    assert "began here 97 %" in page
    assert "0000:9b:00" in page
    assert "1 more: 1 cascade" in page
    assert page.index('id="strip"') < page.index('id="evidence-title"')
    assert "Not on the axis" in page
    assert 'aria-label="Key of the picture"' in page and "where it began" in page
    assert "state no time" not in page


@pytest.mark.django_db
def test_texts_of_the_strip_are_data_and_never_markup(client, ada):
    bad = '"><script>alert(1)</script>'
    report = told(
        found("root", T0, bad, text=bad, evidence=[{"file": bad, "line": 3}]),
        {**found(bad, T0 + 1), "source": bad},
        fault=[NODE | {"name": bad}],
        moment={"t": T0, "how": bad},
        seen=[{"kind": "device", "name": bad, "rank": None, "why": bad}],
        disagreements=[{"about": bad, "text": bad}],
    )
    page = page_of(client, report)
    assert "<script>alert" not in page
    assert page.count("strip-mark") == 2


@pytest.mark.django_db
def test_a_report_with_an_empty_chain_shows_the_timeline(client, ada):
    page = page_of(client, sample())
    assert "data-chart-url" in page
    assert 'id="strip"' not in page


def test_marks_are_named_where_their_neighbours_leave_room():
    got = strip(found("progress", T0), found("root", T0 + 50.0, "gpu-0412"), found("outcome", T0 + 100.5), fault=[NODE])
    assert [(mark.what, mark.side) for mark in got.marks] == [
        ("progress", "right"),
        ("root", "right"),
        ("outcome", "left"),
    ]
    close = strip(*(found("progress" if n % 2 else "restart", T0 + 0.5 + n) for n in range(11)))
    for one in close.marks:
        others = [other for other in close.marks if other.y == one.y and float(other.x) > float(one.x)]
        assert one.side != "right" or all(float(other.x) - float(one.x) >= 10 for other in others)


def test_a_long_bar_says_what_was_slow_and_for_how_long_nothing_moved():
    slow = found("slow", T0, until=T0 + 8) | {"steps": [20, 30], "amount": 6.41}
    cause = found("slow", T0, "gpu-0412", until=T0 + 8) | {"category": "performance.network"}
    short = found("slow", T0, until=T0 + 1) | {"steps": [3, 3], "amount": 2.0}
    labels = [mark.label for mark in strip(slow, cause, short, found("outcome", T0 + 10)).marks]
    longer = ["step 3 took 2.00 times as long", "steps 20 to 30 took 6.41 times as long"]
    assert sorted(labels) == ["outcome text", "slow communication", *longer]


@pytest.mark.django_db
def test_what_no_log_line_shows_is_shown_by_the_line_of_its_finding(client, ada):
    evidence = [{"file": "gpu-2.log", "line": 14}]
    differs = found("setup", None, "gpu-2", source="check", evidence=evidence)
    report = told(found("progress", T0), differs, condition="degraded", id="performance.network")
    report["logs"] |= {"is_failure": False, "events": []}
    attempt = make_attempt(job=make_job("odd"))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = page_text(client.get(f"/incidents/{attempt.incidents.get().pk}/"))
    shown = page.partition("Shown by</dt>")[2].partition("</dd>")[0]
    assert "setup text" in shown
    assert 'href="/jobs/odd/logs/0/gpu-2.log?line=14#L14"' in shown
    assert 'href="/jobs/odd/facts/?attempt=0">compare all nodes' in shown
    assert 'data-testid="shown-line"' in shown and "&amp;around=0" in shown
    assert "beyond the usual time" not in page, "no step shows what it costs"
    assert "time not known" in page, "the end of the evidence is not the beginning of what is wrong"


def test_an_axis_is_drawn_only_where_it_shows_more_than_how_the_job_went():
    assert not strip(found("progress", T0), found("outcome", T0 + 3)).is_drawn
    assert strip(found("progress", T0), found("root", T0 + 1)).is_drawn
    assert strip(found("progress", T0), found("outcome", T0 + 600), condition="hung").is_drawn, "a stall has a bar"

"""A job's events: narrowed, sorted, and taken away with its timeline as a trace."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.factories import make_attempt, make_job, make_user
from tests.pages import page_text
from tests.triage.report import T0, healthy, sample
from triage.selectors.events import Filter, job_events
from triage.services.diagnosing import diagnosis_store
from triage.timeline_trace import trace_bytes

pytestmark = pytest.mark.django_db


@pytest.fixture
def diagnosis():
    report = sample()
    report["logs"]["timeline"]["stages"] = [
        {"stage": "launch", "t0": T0, "t1": T0 + 400},
        {"stage": "training", "t0": T0 + 400, "t1": T0 + 1100},
    ]
    report["logs"]["events"][1] |= {"first_at": T0 + 100, "last_at": T0 + 120, "healthy_jobs": 40, "jobs_with_it": 3}
    return diagnosis_store(attempt=make_attempt(make_job("llama")), revision=1, report=report)


def roles(found):
    return [event.finding.role for event in found[0]]


def test_an_event_belongs_to_the_stage_in_which_it_began(diagnosis):
    events, stages = job_events(diagnosis, Filter())
    assert [event.stage for event in events] == ["training", "launch"]
    assert stages == ["launch", "training"]
    assert roles(job_events(diagnosis, Filter(stage="launch"))) == ["cascade"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", ["root", "cascade"]),
        ("first", ["cascade", "root"]),
        ("nodes", ["cascade", "root"]),
        ("lines", ["cascade", "root"]),
        ("rare", ["root", "cascade"]),
        ("nonsense", ["root", "cascade"]),
    ],
)
def test_events_sort_by_what_was_asked(diagnosis, sort, order):
    assert roles(job_events(diagnosis, Filter(), sort)) == order


def test_a_range_of_time_leaves_what_was_seen_in_it(diagnosis, client):
    assert roles(job_events(diagnosis, Filter(), span=(T0 + 110, T0 + 200))) == ["cascade"]
    client.force_login(make_user("ada", "engineer"))
    page = page_text(client.get(f"/jobs/llama/?t0={T0 + 110}&t1={T0 + 200}"))
    assert "Only what was logged in the part of the timeline" in page
    assert "fallen off the bus</mark>" not in page
    assert f'href="/jobs/llama/flows/?t0={T0 + 110}&amp;t1={T0 + 200}"' in page


def test_an_attempt_without_diagnosis_has_no_events():
    assert job_events(None, Filter()) == ([], [])


def read(timeline):
    return json.loads(gzip.decompress(trace_bytes(timeline, "llama")))["traceEvents"]


def test_the_trace_follows_the_rules_of_the_format(diagnosis):
    events = read(diagnosis.timeline)
    assert {event["ph"] for event in events} == {"M", "X", "i", "C"}
    for event in events:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["name"]
        if event["ph"] != "M":
            assert isinstance(event["ts"], int) and event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["dur"], int) and event["dur"] >= 0
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
    named = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert set(named) == {event["pid"] for event in events}
    assert named[0] == "llama"
    root = next(event for event in events if event["ph"] == "i")
    assert (named[root["pid"]], root["ts"], root["args"]["line"]) == ("gpu-0412", 500_000_000, 812)


def test_slices_of_one_track_never_overlap():
    rough = [{"stage": "training", "t0": T0, "t1": T0 + 9}, {"stage": "evaluation", "t0": T0 + 5, "t1": T0 + 7}]
    lane = {"node": "n1", "segments": [*rough, {"stage": "shutdown", "t0": T0 + 6, "t1": None}]}
    slices = [event for event in read({"t0": T0, "t1": T0 + 9, "lanes": [lane]}) if event["ph"] == "X"]
    ends = [event["ts"] + event["dur"] for event in slices]
    assert all(after["ts"] >= end for end, after in zip(ends, slices[1:], strict=False))
    assert len(slices) == 2


def test_the_trace_is_a_download_or_a_sentence(diagnosis, client):
    client.force_login(make_user("ada", "engineer"))
    response = client.get("/jobs/llama/timeline/0/trace.json.gz")
    assert response["Content-Disposition"] == 'attachment; filename="llama-0.trace.json.gz"'
    assert json.loads(gzip.decompress(response.content))["displayTimeUnit"] == "ms"
    report = healthy()
    report["logs"]["timeline"] = {}
    diagnosis_store(attempt=make_attempt(make_job("timeless")), revision=1, report=report)
    assert client.get("/jobs/timeless/timeline/0/trace.json.gz").status_code == 404

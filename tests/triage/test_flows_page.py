"""The Flows tab of a job: a real capture diagnosed, its tables kept, its charts small, its trace whole."""

import gzip
import json
from itertools import pairwise

import plotly.graph_objects as go
import pytest
from django.template.loader import render_to_string
from django.urls import reverse

from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from tests.pages import page_text
from triage.charts.flows import map_chart, ranks_chart, steps_chart
from triage.diagnosis_tables import table_path
from triage.selectors.answers import answer_of
from triage.selectors.flows import _slow_in_window, with_member_names
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


def data_url(flow_job, name="flow-ranks", *more):
    return reverse(name, args=["seen", 0, flow_job.stored.report["flows"]["jobs"][0]["id"], *more])


def test_steps_of_every_rank_are_kept_next_to_the_report_not_in_it(flow_job):
    row = flow_job.stored.report["flows"]["jobs"][0]
    assert table_path(flow_job.stored, row["table"]).exists()


@pytest.mark.parametrize("name", ["../../secret.parquet", "absent.parquet", "x.txt", ""])
def test_only_tables_of_the_diagnosis_are_opened(flow_job, name):
    assert table_path(flow_job.stored, name) is None


def test_the_tab_shows_parallelism_steps_quality_and_pairs(client, flow_job):
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    assert "dp 4" in page
    assert "Quality of the captures" in page
    assert "canonical-csv" in page
    assert "Communication map" in page
    assert "Perfetto trace" in page
    assert "drag the file onto the page" in page


def test_the_tab_begins_with_who_was_slow_and_ends_with_what_was_read(client, flow_job):
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    heads = ["What is slow", "Step time", "Ranks × time", "Communication map", "Quality of the captures"]
    places = [page.index(head) for head in heads if head in page]
    assert places == sorted(places)
    assert page.index("Who") < page.index("Why")


def test_a_window_of_the_timeline_is_bars_of_phases(client, flow_job):
    whole = client.get(data_url(flow_job)).json()
    assert whole["whole"][1] > whole["whole"][0]
    steps = flow_job.stored.report["flows"]["jobs"][0]["steps"]
    one = client.get(data_url(flow_job), {"t0": steps[4]["start"], "t1": steps[4]["end"]}).json()
    assert any(trace["type"] == "bar" for trace in one["data"])
    assert len(one["data"][0]["y"]) <= len(whole["data"][0]["y"])


@pytest.mark.parametrize("params", [{"t0": "nan", "t1": "inf"}, {"t0": "5", "t1": "1"}, {"t0": "x"}])
def test_a_window_that_makes_no_sense_shows_the_whole(client, flow_job, params):
    assert client.get(data_url(flow_job), params).json()["data"]


def test_the_trace_keeps_perfettos_rules(client, flow_job):
    response = client.get(data_url(flow_job, "flow-download", "trace"))
    trace = json.loads(gzip.decompress(b"".join(response.streaming_content)))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    tracks: dict = {}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    assert tracks
    for slices in tracks.values():
        slices.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(slices))


def test_the_trace_has_the_lanes_of_the_strip(client, flow_job):
    at = flow_job.stored.report["flows"]["jobs"][0]["steps"][2]["start"]
    silent = {"source": "flows", "what": "flows_ceased", "text": "n1 fell silent", "t": at, "until": None}
    silent |= {"places": [{"kind": "node", "name": "n1"}]}
    fault = {"kind": "node", "name": "n1", "rank": None, "p": 0.9, "reasons": ["silent"]}
    told = {"condition": "hung", "chain": [silent], "fault": [fault], "seen": [], "slowdowns": [], "moment": None}
    type(flow_job.stored).objects.filter(pk=flow_job.stored.pk).update(
        report=flow_job.stored.report | {"conclusion": told}
    )
    response = client.get(data_url(flow_job, "flow-download", "trace"))
    events = json.loads(gzip.decompress(b"".join(response.streaming_content)))["traceEvents"]
    named = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 0]
    assert named == ["steps", "n1"]
    assert [(e["name"], e["args"]["text"]) for e in events if e.get("cat") == "incident"] == [
        ("flows ceased", "n1 fell silent")
    ]


def test_the_top_says_who_owed_an_answer_and_not_when_each_machine_fell_silent():
    silent = {"source": "flows", "what": "flows_ceased", "text": "n1 sent its last message.", "amount": None}
    owing = silent | {"text": "n2 sent its last message; n1 got no answer.", "amount": 0.5}
    told = {"condition": "hung", "sentence": "It hung.", "chain": [silent, owing], "fault": []}
    assert answer_of({"conclusion": told}, "flows").texts == (owing["text"],)


def test_who_is_at_fault_is_called_with_its_kind_where_the_name_looks_like_a_machine():
    fault = [
        {"kind": "link", "name": "leaf0-leaf1", "p": 0.8, "from": ["flows"]},
        {"kind": "node", "name": "n1", "rank": 2, "p": 0.1, "from": ["flows"]},
    ]
    answer = answer_of({"conclusion": {"condition": "degraded", "fault": fault}}, "flows")
    assert answer.accused == (("link leaf0-leaf1", 0.8), ("n1 (rank 2)", 0.1))


@pytest.mark.parametrize(("accused", "is_silent"), [(True, False), (False, True)])
def test_evidence_that_accuses_somebody_is_not_said_to_add_nothing(accused, is_silent):
    fault = [{"kind": "rank", "name": "6", "p": 0.9, "from": ["stacks"]}] if accused else []
    answer = answer_of({"conclusion": {"condition": "hung", "sentence": "It hung.", "fault": fault}}, "stacks")
    page = render_to_string("triage/job/_answer.html", {"answer": answer, "source": "stacks"})
    assert ("add nothing to this" in page) == is_silent
    assert ("rank 6" in page) == accused


def test_members_have_the_names_of_their_machines_and_a_machine_is_named_once():
    names = {"10.0.0.1": "n1 rank 0", "10.0.0.2": "n2:5001", "10.0.0.3": "n2:5002"}
    job = {
        "names": names,
        "members": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9"],
        "pairs": [{"a": "10.0.0.1", "b": "10.0.0.9", "type": "DP"}],
        "peers": [{"members": ["10.0.0.1", "10.0.0.2"], "worst": 2.0}],
        "diagnoses": [{"kind": "slow_group", "members": ["10.0.0.1"], "culprits": ["10.0.0.1", "n1"]}],
    }
    shown = with_member_names(job)
    assert shown["members"] == ["n1 rank 0", "n2:5001", "n2:5002", "10.0.0.9"]
    assert (shown["pairs"][0]["a"], shown["pairs"][0]["b"]) == ("n1 rank 0", "10.0.0.9")
    assert shown["peers"][0]["members"] == ["n1 rank 0", "n2:5001"]
    assert shown["diagnoses"][0]["culprits"] == ["n1 rank 0"]
    assert with_member_names({"members": ["10.0.0.1"]}) == {"members": ["10.0.0.1"]}


def test_the_csv_holds_a_row_a_rank_and_step(client, flow_job):
    response = client.get(data_url(flow_job, "flow-download", "csv"))
    lines = b"".join(response.streaming_content).decode().splitlines()
    assert "rank" in lines[0]
    assert len(lines) > len(flow_job.stored.report["flows"]["jobs"][0]["steps"])


def test_strangers_get_neither_page_nor_data(client, flow_job):
    closed = make_cluster("closed")
    make_team("inside", clusters=[closed])
    flow_job.cluster = closed
    flow_job.save()
    client.force_login(make_user("stranger", "engineer"))
    for url in (reverse("job-flows", args=["seen"]), data_url(flow_job), data_url(flow_job, "flow-download", "csv")):
        assert client.get(url).status_code == 404


def test_a_capture_without_a_timeline_says_why(client):
    client.force_login(make_user("eng", "engineer"))
    flows = {"usable_for_timeline": False, "why_not": "Times are whole seconds.", "jobs": [], "captures": []}
    diagnosis_store(attempt=make_attempt(make_job("coarse")), revision=1, report={"flows": flows})
    assert "Times are whole seconds." in page_text(client.get(reverse("job-flows", args=["coarse"])))


def test_a_job_of_flows_alone_is_headed_by_their_finding_and_draws_no_timeline_of_logs(client):
    client.force_login(make_user("eng", "engineer"))
    headline = "gpu-7 of flows-1 is slow: 1.10 times as long as usual in steps 25 to 33."
    inputs = [{"path": "flows.csv", "kind": "flow", "skipped": None}]
    report = {"headline": headline, "inputs": inputs, "flows": {"jobs": [], "reasons": []}}
    attempt = make_attempt(make_job("flows-only"))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = page_text(client.get("/jobs/flows-only/flows/"))
    assert headline in page
    assert "shows no failure" not in page
    assert 'id="timeline"' not in page
    inputs.append({"path": "a.log", "kind": "log", "skipped": None})
    diagnosis_store(attempt=attempt, revision=2, report=report)
    page = page_text(client.get("/jobs/flows-only/flows/"))
    assert "shows no failure" in page
    assert page.index('id="timeline"') > page.index('<details class="timeline-fold">')
    assert '<details class="timeline-fold">' not in page_text(client.get("/jobs/flows-only/"))


def test_thousands_of_steps_are_thinned_but_no_slow_one_is_lost():
    steps = [{"start": float(n), "end": n + 0.9, "slow": n == 7001} for n in range(20_000)]
    chart = steps_chart({"steps": steps, "step_s": {"limit": 1.2}}, [])
    assert len(chart["data"][0]["x"]) <= 4000
    assert chart["data"][1]["text"] == ["step 7002, confidence 100%"]


def test_what_was_slow_is_marked_in_the_picture_of_ranks():
    view = {"t0": 0.0, "t1": 10.0, "lanes": ["a", "b"], "steps": [], "segments": [], "heat": None}
    steps = [{"start": float(n), "end": n + 1.0, "slow": n in (3, 4, 8)} for n in range(10)]
    late = {"kind": "slow_group", "t0": 2.0, "t1": 6.0, "reason": "b was <late>", "culprits": ["b", "node-2"]}
    outside = {"kind": "slow_group", "t0": 20.0, "t1": 26.0, "reason": "later", "culprits": ["a"]}
    found = _slow_in_window({"steps": steps, "diagnoses": [late, outside]}, view["lanes"], 0.0, 10.0)
    assert [(row["text"], row["lanes"]) for row in found] == [
        ("b was <late>", [1]),
        ("slow: steps 4 to 5", []),
        ("slow: step 9", []),
    ]
    chart = ranks_chart(view, [], found)
    assert chart["data"][0]["text"][0] == "b was &lt;late>"
    boxes = [shape for shape in chart["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(box["yref"], box["y0"], box["y1"]) for box in boxes] == [("y", 0.5, 1.5), ("paper", 0, 1), ("paper", 0, 1)]
    go.Figure({"data": chart["data"], "layout": chart["layout"]})


def test_addresses_in_the_map_are_text_both_ways():
    job = {"members": ["a", "b"], "pairs": [{"a": "a", "b": "b", "type": "DP", "records": 3}]}
    chart = map_chart(job)
    assert (chart["data"][0]["x"], chart["data"][0]["y"]) == ([0, 1], [1, 0])


def test_iterations_of_the_logs_are_laid_on_the_steps(client, flow_job):
    steps = flow_job.stored.report["flows"]["jobs"][0]["steps"]
    lines = [{"n": 40 + k, "t": step["end"] + 0.7, "seconds": 0.19} for k, step in enumerate(steps)]
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    assert 'data-testid="aligned"' not in page
    flow_job.stored.timeline = {**(flow_job.stored.timeline or {}), "iterations": lines}
    flow_job.stored.save()
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    said = page.partition('data-testid="aligned">')[2].partition("</p>")[0]
    assert "Step 1 is iteration 40 of the logs" in said
    assert "-700.0 ms" in said


def test_corrected_clocks_are_shown_with_their_offset(client):
    client.force_login(make_user("eng", "engineer"))
    clocks = [
        {"collector": "tor-1", "offset_s": -0.2504, "exact": True},
        {"collector": "tor-2", "offset_s": 0.01, "exact": False},
    ]
    flows = {"usable_for_timeline": True, "why_not": None, "jobs": [], "captures": [], "clocks": clocks}
    diagnosis_store(attempt=make_attempt(make_job("apart")), revision=1, report={"flows": flows})
    page = page_text(client.get(reverse("job-flows", args=["apart"])))
    shown = page.partition('data-testid="clocks"')[2].partition("</p>")[0]
    assert "-250.4 ms" in shown
    assert "+10.0 ms (roughly)" in shown


def test_a_planned_pause_is_called_so_and_stands_after_the_slow_steps(client, flow_job):
    report = flow_job.stored.report
    job = report["flows"]["jobs"][0]
    at = job["steps"][2]
    row = {"kind": "slow_step", "t0": at["start"], "t1": at["start"] + 1, "reason": "because", "culprits": []}
    job["diagnoses"] = [row | {"step": 3, "measure": "planned"}, row | {"step": 5}]
    type(flow_job.stored).objects.filter(pk=flow_job.stored.pk).update(report=report)
    page = page_text(client.get(f"/jobs/{flow_job.slug}/flows/"))
    assert "planned pause, step 3" in page
    assert page.index("step 5") < page.index("planned pause, step 3")

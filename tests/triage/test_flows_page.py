"""The Flows tab of a job: a real capture diagnosed, its tables kept, its charts small, its trace whole."""

import gzip
import io
import json
import tarfile
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.urls import reverse

from diagnosis import ParseHints, parse
from diagnosis.flows import diagnose_flows
from ingest import storage
from ingest.models import Artifact, Blob
from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from tests.pages import page_text
from triage.charts.flows import map_chart, ranks_chart, steps_chart
from triage.charts.flows_ports import ports_chart
from triage.flow_tables import table_path, tables_store
from triage.models import Activity
from triage.selectors.answers import answer_of
from triage.selectors.flows import FlowsView, PortsView, _slow_within
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """The report and the tables of a recorded capture, analysed once."""
    work = tmp_path_factory.mktemp("flows")
    with tarfile.open(Path(settings.BASE_DIR) / "samples" / "healthy_ddp_a.tar.gz") as archive:
        data = archive.extractfile("healthy_ddp_a/flows.csv").read()
    parsed = parse(io.BytesIO(data), "flows.csv", ParseHints(), work / "parsed")
    report = diagnose_flows([parsed], tables=work / "tables")
    report.pop("suspects", None)
    return report, work / "tables"


@pytest.fixture
def job(client, capture, tmp_path):
    client.force_login(make_user("eng", "engineer"))
    job = make_job("seen")
    report, tables = capture
    copies = tmp_path / "tables"
    copies.mkdir()
    for table in tables.iterdir():
        (copies / table.name).write_bytes(table.read_bytes())
    stored = diagnosis_store(attempt=make_attempt(job), revision=1, report={"engine": "t", "flows": report})
    tables_store(stored, copies)
    job.stored = stored
    return job


def data_url(job, name="flow-ranks", *more):
    return reverse(name, args=["seen", 0, job.stored.report["flows"]["jobs"][0]["id"], *more])


def test_steps_of_every_rank_are_kept_next_to_the_report_not_in_it(job):
    row = job.stored.report["flows"]["jobs"][0]
    assert "rank_steps" not in row
    assert table_path(job.stored, row["table"]).exists()


@pytest.mark.parametrize("name", ["../../secret.parquet", "absent.parquet", "x.txt", ""])
def test_only_tables_of_the_diagnosis_are_opened(job, name):
    assert table_path(job.stored, name) is None


def test_the_tab_shows_parallelism_steps_quality_and_pairs(client, job):
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    assert "dp 4" in page
    assert "Quality of the captures" in page
    assert "canonical-csv" in page
    assert "Communication map" in page
    assert "Perfetto trace" in page
    assert "drag the file onto the page" in page


def test_a_window_of_the_timeline_is_bars_of_phases(client, job):
    whole = client.get(data_url(job)).json()
    assert whole["whole"][1] > whole["whole"][0]
    steps = job.stored.report["flows"]["jobs"][0]["steps"]
    one = client.get(data_url(job), {"t0": steps[4]["start"], "t1": steps[4]["end"]}).json()
    assert any(trace["type"] == "bar" for trace in one["data"])
    assert len(one["data"][0]["y"]) <= len(whole["data"][0]["y"])


@pytest.mark.parametrize("params", [{"t0": "nan", "t1": "inf"}, {"t0": "5", "t1": "1"}, {"t0": "x"}])
def test_a_window_that_makes_no_sense_shows_the_whole(client, job, params):
    assert client.get(data_url(job), params).json()["data"]


def test_the_trace_keeps_perfettos_rules(client, job):
    response = client.get(data_url(job, "flow-download", "trace"))
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


def test_the_trace_has_the_lanes_of_the_strip(client, job):
    at = job.stored.report["flows"]["jobs"][0]["steps"][2]["start"]
    silent = {"source": "flows", "what": "flows_ceased", "text": "n1 fell silent", "t": at, "until": None}
    silent |= {"places": [{"kind": "node", "name": "n1"}]}
    fault = {"kind": "node", "name": "n1", "rank": None, "p": 0.9, "reasons": ["silent"]}
    told = {"condition": "hung", "chain": [silent], "fault": [fault], "seen": [], "slowdowns": [], "moment": None}
    type(job.stored).objects.filter(pk=job.stored.pk).update(report=job.stored.report | {"conclusion": told})
    response = client.get(data_url(job, "flow-download", "trace"))
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
    assert answer_of({"conclusion": told}, "flows").says == (owing["text"],)


def test_the_csv_holds_a_row_a_rank_and_step(client, job):
    response = client.get(data_url(job, "flow-download", "csv"))
    lines = b"".join(response.streaming_content).decode().splitlines()
    assert "rank" in lines[0]
    assert len(lines) > len(job.stored.report["flows"]["jobs"][0]["steps"])


def test_strangers_get_neither_page_nor_data(client, job):
    closed = make_cluster("closed")
    make_team("inside", clusters=[closed])
    job.cluster = closed
    job.save()
    client.force_login(make_user("stranger", "engineer"))
    for url in (reverse("job-flows", args=["seen"]), data_url(job), data_url(job, "flow-download", "csv")):
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
    assert 'id="timeline"' in page


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
    found = _slow_within({"steps": steps, "diagnoses": [late, outside]}, view["lanes"], 0.0, 10.0)
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


def test_a_capture_that_came_alone_proposes_its_job_and_a_click_attaches_it(client, job, capture):
    report = job.stored.report["flows"]["jobs"][0]
    target = make_job("trained", nodes_text=" ".join([*report["members"], *report.get("nodes", [])]))
    make_job("elsewhere", nodes_text="other-1 other-2")
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    shown = page.partition('data-testid="proposals"')[2].partition("</table>")[0]
    assert "trained" in shown
    assert "machines; when that job ran is not known" in shown
    assert "elsewhere" not in shown
    sha256 = storage_of(b"start_time,duration,src,dst,bytes\n1,0.1,10.0.0.1,10.0.0.2,5\n")
    Artifact.objects.create(attempt=make_attempt(job), path="flows.csv", blob_id=sha256, kind="flow", state="parsed")
    response = client.post(reverse("flow-attach", args=["seen"]), {"job": "trained"})
    assert response["Location"] == reverse("job-flows", args=["trained"])
    attached = Artifact.objects.get(attempt__job=target)
    assert (attached.path, attached.blob_id) == ("flows.csv", sha256)
    assert Activity.objects.get(kind="capture_attached").data["subject"] == "seen"


def test_a_capture_is_proposed_to_jobs_of_its_own_time_only(client, job, capture):
    seen = job.stored.report["flows"]["jobs"][0]
    began = datetime.fromtimestamp(seen["steps"][0]["start"], UTC) - timedelta(minutes=5)
    machines = " ".join([*seen["members"], *seen.get("nodes", [])])
    hour = timedelta(hours=1)
    make_job("meanwhile", nodes_text=machines, started_at=began, ended_at=began + hour)
    make_job("day-before", nodes_text=machines, started_at=began - 24 * hour, ended_at=began - 23 * hour)
    make_attempt(make_job("day-after", nodes_text=machines), started_at=began + 24 * hour, ended_at=began + 25 * hour)
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    shown = page.partition('data-testid="proposals"')[2].partition("</table>")[0]
    assert "meanwhile" in shown
    assert "day-" not in shown
    assert f"{len(seen['nodes'] or seen['members'])} of " in shown
    assert f"{began + timedelta(minutes=5):%Y-%m-%d %H:%M}" in shown


def test_what_was_attached_by_mistake_is_taken_out_again(client, job):
    target = make_job("wrong")
    earlier = storage_of(b"start_time,duration,src,dst,bytes\n1,0.1,10.0.0.1,10.0.0.2,7\n")
    own = Artifact.objects.create(
        attempt=make_attempt(target), path="flows.csv", blob_id=earlier, kind="flow", state="parsed"
    )
    sha256 = storage_of(b"start_time,duration,src,dst,bytes\n1,0.1,10.0.0.1,10.0.0.2,5\n")
    Artifact.objects.create(attempt=make_attempt(job), path="flows.csv", blob_id=sha256, kind="flow", state="parsed")
    client.post(reverse("flow-attach", args=["seen"]), {"job": "wrong"})
    files = Artifact.objects.filter(attempt__job=target, is_superseded=False)
    assert sorted(files.values_list("path", flat=True)) == ["flows.csv", "seen/flows.csv"]
    page = page_text(client.get(reverse("job-flows", args=["wrong"])))
    assert "1 file by eng" in page.partition('data-testid="attached"')[2]
    url = reverse("flow-detach", args=["wrong", Activity.objects.get(kind="capture_attached").pk])
    assert client.post(url)["Location"] == reverse("job-flows", args=["wrong"])
    assert list(Artifact.objects.filter(attempt__job=target)) == [own]
    assert 'data-testid="attached"' not in page_text(client.get(reverse("job-flows", args=["wrong"])))
    assert Activity.objects.get(kind="capture_detached").data == {"subject": "seen", "before": 1}
    client.post(url)
    assert Activity.objects.filter(kind="capture_detached").count() == 1
    assert Artifact.objects.filter(attempt__job=job, path="flows.csv").exists()


def test_a_capture_is_brought_to_the_attempt_that_ran_meanwhile(client, job):
    target = make_job("thrice")
    began = datetime.fromtimestamp(job.stored.report["flows"]["captures"][0]["t0"], UTC)
    for number, hours in enumerate((-9, -1, 5)):
        start = began + timedelta(hours=hours)
        make_attempt(target, number=number, started_at=start, ended_at=start + timedelta(hours=2))
    sha256 = storage_of(b"start_time,duration,src,dst,bytes\n1,0.1,10.0.0.1,10.0.0.2,5\n")
    Artifact.objects.create(attempt=make_attempt(job), path="flows.csv", blob_id=sha256, kind="flow", state="parsed")
    client.post(reverse("flow-attach", args=["seen"]), {"job": "thrice"})
    assert Artifact.objects.get(attempt__job=target).attempt.number == 1


def storage_of(data):
    """The digest of ``data``, kept as a blob."""
    with storage.Part() as part:
        part.write(data)
        sha256 = part.finish()
        Blob.objects.create(sha256=sha256, size_bytes=len(data))
        storage.blob_put(part.path, sha256)
    return sha256


def test_iterations_of_the_logs_are_laid_on_the_steps(client, job):
    steps = job.stored.report["flows"]["jobs"][0]["steps"]
    lines = [{"n": 40 + k, "t": step["end"] + 0.7, "seconds": 0.19} for k, step in enumerate(steps)]
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    assert 'data-testid="aligned"' not in page
    job.stored.timeline = {**(job.stored.timeline or {}), "iterations": lines}
    job.stored.save()
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    said = page.partition('data-testid="aligned">')[2].partition("</p>")[0]
    assert "Step 1 is iteration 40 of the logs" in said
    assert "-700.0 ms" in said


def test_a_viewer_does_not_attach_captures(client, job):
    client.force_login(make_user("view", "viewer"))
    assert client.post(reverse("flow-attach", args=["seen"]), {"job": "seen"}).status_code == 403
    assert client.post(reverse("flow-detach", args=["seen", 1])).status_code == 403


def test_an_act_that_attached_nothing_here_cannot_be_taken_back_here(client, job):
    act = Activity.objects.create(job=make_job("other"), kind="capture_attached", data={"subject": "x"})
    assert client.post(reverse("flow-detach", args=["seen", act.pk])).status_code == 404


@pytest.fixture
def counted(client, tmp_path):
    """A job whose evidence is a file of port counters, two ports over ten minutes."""
    client.force_login(make_user("eng", "engineer"))
    times = [1_750_000_000 + n for n in range(600)]
    table = pl.concat(
        pl.DataFrame(
            {
                "SaveTimeUTC": times,
                "PortName": [name] * 600,
                "InOctets": [size, size // 2] * 300,
                "OutOctets": [0] * 600,
            }
        )
        for name, size in (("Eth1/1", 125_000_000), ("Eth1/<2>", 12_500_000))
    )
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    parsed = parse(io.BytesIO(buffer.getvalue()), "leaf-1.parquet", ParseHints(), tmp_path / "parsed")
    report = diagnose_flows([parsed], tables=tmp_path / "tables")
    report.pop("suspects", None)
    stored = diagnosis_store(
        attempt=make_attempt(make_job("counted")), revision=1, report={"engine": "t", "flows": report}
    )
    tables_store(stored, tmp_path / "tables")
    return stored


def test_port_counters_are_a_chart_a_table_and_a_csv_file(client, counted):
    page = page_text(client.get(reverse("job-flows", args=["counted"])))
    assert "Bandwidth of 2 switch ports" in page
    assert 0.74e9 < counted.report["flows"]["ports"][0]["ports"][0]["in_bps"] < 0.76e9
    assert "Mb/s</td>" in page
    assert "add flow records" in page
    assert "Eth1/&lt;2&gt;" in page
    chart = client.get(reverse("flow-ranks", args=["counted", 0, "ports-1"])).json()
    assert [len(row) for row in chart["data"][0]["z"]] == [len(chart["data"][0]["x"])] * 2
    assert max(chart["data"][0]["z"][0]) == pytest.approx(1.0, rel=0.02)
    response = client.get(reverse("flow-download", args=["counted", 0, "ports-1", "csv"]))
    lines = b"".join(response.streaming_content).decode().splitlines()
    assert lines[0] == "port,time,in_bps,out_bps"
    assert len(lines) == 1 + 2 * 600
    assert client.get(reverse("flow-download", args=["counted", 0, "ports-1", "trace"])).status_code == 404


def test_a_port_is_chosen_by_its_link_and_an_unknown_one_shows_the_busiest(client, counted):
    chosen = page_text(client.get(reverse("job-flows", args=["counted"]), {"port": "Eth1/<2>"}))
    assert '<h3>Port <span class="mono">Eth1/&lt;2&gt;</span></h3>' in chosen
    other = page_text(client.get(reverse("job-flows", args=["counted"]), {"port": "x"}))
    assert '<h3>Port <span class="mono">Eth1/1</span></h3>' in other


def test_counters_whose_readings_are_missing_say_so(client, counted):
    storage.directory_delete(f"diagnoses/{counted.pk}", ["ports-1.parquet"])
    page = page_text(client.get(reverse("job-flows", args=["counted"])))
    assert "diagnose the job again" in page
    assert 'data-testid="ports"' in page


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


def test_ports_beyond_the_first_are_folded_away():
    rows = [{"port": f"p{n}", "in_bps": 1.0, "out_bps": 1.0, "peak_bps": 2.0, "idle": 0.0} for n in range(20)]
    ports = PortsView(
        {"ports": rows, "ports_total": 30, "path": "x", "t0": 0, "t1": 1}, [], "p0", None, has_table=False
    )
    shown = FlowsView({"captures": []}, None, None, None, [], [], has_table=False, ports=ports)
    page = render_to_string("triage/job/flows.html", {"shown": shown}, request=RequestFactory().get("/"))
    assert "4 more ports" in page
    assert "The 20 busiest of 30 ports." in page


def test_heat_maps_ask_for_no_style_attribute_that_the_policy_forbids():
    heat = {"columns": 1, "pp": [[10]], "dp": [[20]]}
    ranks = ranks_chart({"lanes": ["a"], "t0": 0.0, "t1": 1.0, "heat": heat, "segments": [], "steps": []}, [])
    ports = ports_chart({"ports": ["a"], "times": [0.0], "bps": [[1e9]]})
    for chart in (ranks, ports):
        trace = chart["data"][0]
        assert trace["type"] == "heatmap"
        assert trace["showscale"] is False
        assert trace.get("ygap") or trace.get("zsmooth")  # else plotly styles the image's pixels


def test_the_busiest_moment_has_the_full_colour_and_its_share_is_reported():
    heat = {"columns": 3, "pp": [[1, -1, 4]], "dp": [[2, -1, 8]]}
    view = {"lanes": ["a"], "t0": 0.0, "t1": 1.0, "heat": heat, "segments": [], "steps": []}
    chart = ranks_chart(view, [])
    assert (chart["data"][0]["z"], chart["data"][0]["zmax"]) == ([[3, None, 12]], 12)
    assert [note["text"] for note in chart["layout"]["annotations"]] == ["full colour: sending 12 % of the time"]
    still = ranks_chart({**view, "heat": {"columns": 1, "pp": [[-1]], "dp": [[-1]]}}, [])
    assert still["data"][0]["zmax"] == 5

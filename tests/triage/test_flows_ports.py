"""Port counters on the Flows tab: chart, table, file, and heat maps."""

import io

import polars as pl
import pytest
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.urls import reverse

from diagnosis import ParseHints, parse
from ingest import storage
from tests.diagnosis.kinds.reports import flows_json
from tests.factories import make_attempt, make_job, make_user
from tests.pages import page_text
from triage.charts.flows import ranks_chart
from triage.charts.flows_ports import ports_chart
from triage.diagnosis_tables import tables_store
from triage.selectors.flows import FlowsView, PortsView
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


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
    report = flows_json([parsed], tables=tmp_path / "tables")
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
    assert [note["text"] for note in chart["layout"]["annotations"]] == ["full colour: sending 12\u00a0% of the time"]
    still = ranks_chart({**view, "heat": {"columns": 1, "pp": [[-1]], "dp": [[-1]]}}, [])
    assert still["data"][0]["zmax"] == 5

"""No text of evidence acts on a page, in an export, in a chart or in a log's window: it is shown as signs."""

from __future__ import annotations

import gzip
import json

import polars as pl
import pytest

from diagnosis.values.plain import visible
from tests.factories import make_attempt, make_incident, make_job, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage import flow_tables, flow_trace
from triage.charts import chart_json
from triage.export import csv_lines
from triage.services.diagnosing import diagnosis_store
from triage.timeline_trace import trace_bytes

pytestmark = pytest.mark.django_db
#: ESC, bell, CSI of C1, each character that turns the direction of text, and some of each kind that nobody sees
ACTING = "\x1b\x07\x9b\x7f" + "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
ACTING += "\u200b\u200e\u200f\u061c\ufeff\u2028\u2029\u2060\xad\u3164\U000e0041"


def test_what_acts_is_named_and_what_does_not_stays() -> None:
    assert visible("a\x1b[31mred\u202etxt\u2066") == "a\u241b[31mred[U+202E]txt[U+2066]"
    assert visible("tab\there\r\nçà 日本 שלום 🙂") == "tab\there\r\nçà 日本 שלום 🙂"
    assert visible(visible(ACTING)) == visible(ACTING) and not set(ACTING) & set(visible(ACTING))


def test_pages_and_markdown_show_signs_where_evidence_holds_what_acts(client):
    report = sample()
    report["headline"] += ACTING
    for event in report["logs"]["events"]:
        event["example"] = event["template"] = ACTING + event["template"]
    report["suspects"][0]["reasons"] = [f"because {ACTING}"]
    report["missing"] = [f"nothing {ACTING}"]
    incident = None
    job = make_job("night-run", name=f"night {ACTING}")
    diagnosis_store(attempt=make_attempt(job), revision=1, report=report)
    incident = job.incidents.get()
    client.force_login(make_user("ada", "engineer", "manager"))
    client.post(f"/incidents/{incident.pk}/comment/", {"body": f"note {ACTING}"})
    pages = ["/", "/incidents/", "/jobs/", "/jobs/night-run/", "/jobs/night-run/events/", f"/incidents/{incident.pk}/"]
    for page in [*pages, f"/incidents/{incident.pk}.md", "/incidents/?q=%22%1b%E2%80%AE%22"]:
        text = page_text(client.get(page))
        assert not set(ACTING) & set(text), page
        assert "[U+202E]" in text and "\u241b" in text, page
    rows = b"".join(client.get("/incidents.csv").streaming_content).decode()
    assert not set(ACTING) & set(rows) and "[U+202E]" in rows


def test_a_chart_draws_no_text_that_acts() -> None:
    figure = {"data": [{"type": "scatter", "name": f"rank {ACTING} \\u202e", "x": [1], "y": [2]}], "layout": {}}
    name = json.loads(chart_json(figure))["data"][0]["name"]
    assert name == visible(f"rank {ACTING} \\u202e")


def test_a_list_that_a_script_fills_shows_signs(client):
    """Before, the suggestions under the search box turned the direction of the names in them."""
    make_incident(accused=(f"n{ACTING}1",))
    client.force_login(make_user("ada", "engineer"))
    answer = client.get("/incidents/suggest/?q=node:n")
    assert [row["text"] for row in answer.json()["suggestions"]] == [visible(f'node:"n{ACTING}1"')]


def test_a_spreadsheet_gets_no_text_that_acts() -> None:
    assert list(csv_lines(["a"], [["=1\u202e"], ["\x1bx"], [3]])) == [
        "a\r\n",
        "'=1[U+202E]\r\n",
        "\u241bx\r\n",
        "3\r\n",
    ]


def test_no_table_or_trace_that_is_downloaded_holds_what_acts(tmp_path) -> None:
    """Before, names of machines and switch ports stood in the files of flows as the capture has them."""
    name, table, file = f"=n{ACTING}", tmp_path / "t.parquet", tmp_path / "file"
    texts = []
    pl.DataFrame({"port": [name, "e1"], "time": [1.0, 2.0], "in_bps": [1.0, 2.0]}).write_parquet(table)
    flow_tables.write_ports_csv(table, file)
    texts.append(file.read_text())
    phases = {f"{kind}_{part}": [0.0] for kind in ("pp", "dp", "ep") for part in ("start", "end", "busy_s")}
    rows = {"step": [0], "rank": [name], "node": [name], "start": [0.0], "end": [1.0], **phases}
    pl.DataFrame(rows).write_parquet(table)
    flow_tables.write_steps_csv(table, file)
    texts.append(file.read_text())
    assert all(f"'{visible(name)}" in text for text in texts)
    tracks = [{"name": name, "marks": [{"t": 0.5, "name": name, "text": name}]}]
    traces = [gzip.decompress(flow_trace.write_trace(table, file, tracks).read_bytes()).decode()]
    traces.append(gzip.decompress(trace_bytes({"t0": 0.0, "lanes": [{"node": name}]}, name)).decode())
    assert all(visible(name) in str(json.loads(trace)) for trace in traces)
    for text in (*texts, *(str(json.loads(trace)) for trace in traces)):
        assert not set(ACTING) & set(text)


def test_pages_of_somebody_who_signed_in_are_not_stored(client):
    assert "Cache-Control" not in client.get("/sign-in/") or "no-store" in client.get("/sign-in/")["Cache-Control"]
    client.force_login(make_user("ada", "engineer"))
    for page in ("/", "/jobs/", "/account/tokens/", "/api/v1/jobs/", "/incidents/999/"):
        assert client.get(page)["Cache-Control"] == "no-store", page
    assert "ETag" in client.get("/faultline.pyz")

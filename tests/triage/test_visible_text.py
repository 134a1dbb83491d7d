"""No text of evidence acts on a page, in an export, in a chart or in a log's window: it is shown as signs."""

from __future__ import annotations

import json

import pytest

from diagnosis.plain import visible
from tests.factories import make_attempt, make_incident, make_job, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage.charts import chart_json
from triage.export import csv_lines
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db
#: ESC, bell, CSI of C1, and each character that turns the direction of text
ACTING = "\x1b\x07\x9b\x7f" + "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))


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
    assert [row["text"] for row in answer.json()["suggestions"]] == [visible(f"node:n{ACTING}1")]


def test_a_spreadsheet_gets_no_text_that_acts() -> None:
    assert list(csv_lines(["a"], [["=1\u202e"], ["\x1bx"], [3]])) == [
        "a\r\n",
        "'=1[U+202E]\r\n",
        "\u241bx\r\n",
        "3\r\n",
    ]


def test_pages_of_somebody_who_signed_in_are_not_stored(client):
    assert "Cache-Control" not in client.get("/sign-in/") or "no-store" in client.get("/sign-in/")["Cache-Control"]
    client.force_login(make_user("ada", "engineer"))
    for page in ("/", "/jobs/", "/account/tokens/", "/api/v1/jobs/", "/incidents/999/"):
        assert client.get(page)["Cache-Control"] == "no-store", page
    assert "ETag" in client.get("/faultline.pyz")

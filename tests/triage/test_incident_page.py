"""An incident's page: what it shows and in which order, what it costs, and that log text is data on it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.factories import make_attempt, make_incident
from tests.pages import INCIDENT_QUERIES, budget, page_text, words_of
from tests.triage.report import LOG, sample
from triage.services.diagnosing import diagnosis_store
from triage.services.grouping import incidents_merge
from triage.services.reviewing import comment_add, decision_make

pytestmark = pytest.mark.django_db


def test_the_incident_page_keeps_its_budget_with_everything_on_it(client, ada, incident):
    for n in range(20):
        decision_make(incident=incident, claim="suspect", subject=f"gpu-{n}", word="confirm", by=ada)
        comment_add(incident=incident, body=f"remark {n}", by=ada)
    twins = [make_incident(fingerprint=incident.fingerprint) for _ in range(12)]
    incidents_merge(incidents=[incident, *twins[:3]], by=ada)
    page = budget(client, f"/incidents/{incident.pk}/", INCIDENT_QUERIES)
    assert "same fingerprint" in page
    assert "same group" in page
    assert "remark 19" in page


def test_the_incident_page_says_what_why_where_and_what_is_missing(client, ada, incident):
    page = page_text(client.get(f"/incidents/{incident.pk}/"))
    for words in (
        "GPU lost from the PCIe bus",
        "93 %",
        "<mark>GPU has fallen off the bus</mark>",
        "in 0 of 40 healthy jobs",
        f"/jobs/llama/logs/0/{LOG}?line=812#L812",
        "No kernel log of gpu-0413.",
        "scontrol update NodeName=gpu-0412",
        "Observed",
        "Inferred",
    ):
        assert words in page, words


def test_one_block_answers_who_what_since_when_and_what_to_do_now_with_the_line_that_shows_it(client, ada, incident):
    page = page_text(client.get(f"/incidents/{incident.pk}/"))
    block = page.partition('data-testid="answer"')[2].partition("</section>")[0]
    root = f"/jobs/llama/logs/0/{LOG}?line=812#L812"
    order = ["Who</dt>", "gpu-0412", "What</dt>", "Since</dt>", "Shown by</dt>", root, "Do now</h2>"]
    places = [block.index(words) for words in order]
    assert places == sorted(places)
    assert "Evict" in block.partition("Do now</h2>")[2]
    assert page.count(root) == 1
    assert "1 further event besides the line at the top" in page


def test_where_only_teardown_was_logged_the_page_says_what_stands_out(client, ada):
    report = sample()
    for event in report["logs"]["events"]:
        event["role"] = "teardown"
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = page_text(client.get(f"/incidents/{attempt.incidents.get().pk}/"))
    assert "No log line shows it; the first suspect is gpu-0412: Xid 79 only here" in page
    assert "2 events, root causes first" in page


def test_without_a_root_the_line_at_the_top_is_what_the_accused_alone_wrote(client, ada):
    report = sample()
    first, second = report["logs"]["events"][:2]
    both = {"nodes": 2, "node_names": ["gpu-0413", "gpu-0412"], "example": "rank 0 timed out"}
    alone = {"nodes": 1, "node_names": ["gpu-0412"], "example": "rank 6 called another collective"}
    first |= {"role": "cascade", **both}
    second |= {"role": "cascade", **alone}
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = page_text(client.get(f"/incidents/{attempt.incidents.get().pk}/"))
    shown = page.partition("Shown by</dt>")[2].partition("</dd>")[0]
    assert "No line names the cause; this is what gpu-0412 wrote." in shown
    assert "rank 6 called another collective" in shown and "rank 0 timed out" not in shown
    second["nodes"] = 3  # not all of its writers are named
    diagnosis_store(attempt=attempt, revision=2, report=report)
    page = page_text(client.get(f"/incidents/{attempt.incidents.get().pk}/"))
    assert "this is the first sign of it" in page


def test_of_an_error_that_spread_the_page_shows_who_printed_it_first(client, ada):
    report = sample()
    times = {"gpu-0412": 1_795_226_000.120, "gpu-0413": 1_795_226_000.464, "gpu-0414": 1_795_226_012.5}
    writers = [{"file": f"logs/{node}.log", "line": 7, "node": node, "time": at} for node, at in times.items()]
    report["logs"]["events"][0] |= {"nodes": 5, "writers": writers}
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = page_text(client.get(f"/incidents/{attempt.incidents.get().pk}/"))
    block = words_of(page.partition('data-testid="writers"')[2].partition("</div>")[0])
    assert "gpu-0412 01:53:20.120 gpu-0413 +344 ms gpu-0414 +12.4 s 2 more nodes later" in block


def test_many_accused_are_folded_and_the_same_reasons_are_said_once(client, ada):
    report = sample()
    accused = {"kind": "node", "rank": None, "p": 0.9, "from": ["logs"], "reasons": ["fell silent"]}
    report["conclusion"]["fault"] = [{**accused, "name": f"gpu-{n}"} for n in range(12)]
    report["suspects"] = []
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = budget(client, f"/incidents/{attempt.incidents.get().pk}/", INCIDENT_QUERIES)
    assert page.index('data-testid="suspect-3"') < page.index("9 more accused") < page.index('data-testid="suspect-4"')
    assert page.count(">fell silent</p>") == 1
    assert page.count("for the same reasons") == 11


def test_a_word_of_a_page_leads_to_its_meaning(client, ada, incident):
    page = client.get(f"/incidents/{incident.pk}/").content.decode()
    assert '<a class="term" href="/glossary/#symptom" title="How the failure looked' in page
    assert '<div id="symptom"><dt>Symptom</dt><dd>How the failure looked' in client.get("/glossary/").content.decode()


def test_the_group_of_an_incident_leads_to_its_members(client, ada, incident):
    others = [make_incident(headline=f"twin {n}") for n in range(2)]
    group = incidents_merge(incidents=[incident, *others], by=ada)
    make_incident(headline="alone")
    assert f"?q=group:{group.pk}" in page_text(client.get(f"/incidents/{incident.pk}/"))
    page = page_text(client.get(f"/incidents/?q=group:{group.pk}"))
    assert f"Incidents in group {group.pk}." in page
    assert "twin 1" in page and "alone" not in page


def test_log_text_is_data_and_never_markup(client, ada):
    report = sample()
    event = report["logs"]["events"][0]
    event["example"] = event["template"] = "<script>alert(1)</script> GPU has fallen off the bus & <img src=x>"
    report["headline"] = "<b>bold</b> claim"
    report["suspects"][0]["reasons"] = ["<i>slanted</i>"]
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=report)
    incident = attempt.incidents.get()
    comment_add(incident=incident, body="[x](javascript:alert(1)) <script>y</script> **fine**", by=ada)
    page = page_text(client.get(f"/incidents/{incident.pk}/"))
    for bad in ("<script>alert", "<img src=x", "<b>bold</b>", "<i>slanted", 'href="javascript', "<script>y"):
        assert bad not in page, bad
    assert "<strong>fine</strong>" in page


def test_markdown_of_an_incident_holds_verdict_evidence_advice_and_what_was_said(client, ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada, reason="matches <DCGM>")
    comment_add(incident=incident, body="board *replaced*", by=ada)
    text = budget(client, reverse("incident-markdown", args=[incident.pk]))
    assert text.startswith(f"## #{incident.pk} GPU 5 of gpu-0412")
    for words in (
        "http://testserver/jobs/llama/logs/0/",
        "**Evict** gpu-0412",
        "```\nscontrol update NodeName=gpu-0412 State=DRAIN\n```",
        "### Missing evidence\n\n- No kernel log of gpu-0413.",
        "ada confirmed the category: GPU lost from the PCIe bus: matches `<DCGM>`",
        "ada commented: board `*replaced*`",
    ):
        assert words in text, words

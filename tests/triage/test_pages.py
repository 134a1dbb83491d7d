"""Pages: what they show, what they cost, what they refuse."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ingest.models import Artifact, Blob, Run
from tests.factories import make_attempt, make_incident, make_job, make_user
from tests.pages import page_text
from tests.triage.report import LOG, sample
from triage.models import Activity, Incident
from triage.services.diagnosing import diagnosis_store
from triage.services.grouping import incidents_merge
from triage.services.reviewing import comment_add, decision_make

pytestmark = pytest.mark.django_db

MAX_QUERIES = 8
#: with the categories that people find most often here, which are counted once an hour
INCIDENT_QUERIES = 9


@pytest.fixture
def incident():
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    attempt.job.refresh_from_db()
    attempt.job.diagnosing_revision = attempt.job.revision
    attempt.job.save()
    return attempt.incidents.get()


def budget(client, url, limit=MAX_QUERIES):
    with CaptureQueriesContext(connection) as queries:
        response = client.get(url)
    assert response.status_code == 200, response.content[:400]
    told = "\n".join(query["sql"][:160] for query in queries)
    assert len(queries) <= limit, f"{url} took {len(queries)} queries:\n{told}"
    return page_text(response)


def test_the_queue_teaches_when_nothing_awaits(client, ada):
    page = budget(client, "/")
    assert "Nothing awaits review" in page
    assert "faultline.pyz upload" in page


def test_the_queue_shows_what_awaits_and_hides_what_was_judged(client, ada, incident):
    judged = make_incident(headline="Judged before", state="confirmed")
    page = budget(client, "/")
    assert incident.headline in page
    assert judged.headline not in page


def test_the_list_keeps_its_budget_however_long_it_is(client, ada, incident):
    for n in range(60):
        make_incident(headline=f"Failure number {n}", accused=(f"gpu-{n}",), assignee=ada)
    page = budget(client, "/incidents/")
    assert "1–50 of 50+" in page
    last = budget(client, "/incidents/?page=2")
    assert "51–61 of 61" in last
    assert "Failure number 5" in last
    assert "1–50 of 61" in budget(client, "/incidents/?count=all")


def test_a_word_of_a_page_leads_to_its_meaning(client, ada, incident):
    page = client.get(f"/incidents/{incident.pk}/").content.decode()
    assert '<a class="term" href="/glossary/#symptom" title="How the failure looked' in page
    assert '<div id="symptom"><dt>Symptom</dt><dd>How the failure looked' in client.get("/glossary/").content.decode()


def test_a_search_is_said_in_words_and_its_facets_count(client, ada, incident):
    make_incident(category="network.link.down", headline="Link is gone")
    page = budget(client, "/incidents/?q=category:network")
    assert "Link is gone" in page
    assert incident.headline not in page
    assert "<b>1</b>" in page


def test_an_unknown_key_is_answered_with_the_known_ones(client, ada):
    response = client.get("/incidents/?q=colour:red")
    assert response.status_code == 422
    assert "category" in page_text(response)


def test_a_saved_view_is_used_by_its_slug_and_private_to_its_owner(client, ada, incident):
    client.post(reverse("view-save"), {"name": "My hardware", "q": "category:hardware"})
    assert incident.headline in budget(client, "/incidents/?filter=my-hardware", 9)
    client.force_login(make_user("bob", "engineer"))
    assert "no saved view" in page_text(client.get("/incidents/?filter=my-hardware"))


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


def test_the_incident_page_begins_with_the_line_that_tells_it_and_says_it_once(client, ada, incident):
    page = page_text(client.get(f"/incidents/{incident.pk}/"))
    root = f"/jobs/llama/logs/0/{LOG}?line=812#L812"
    assert page.index(root) < page.index('id="verdict-title"')
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


def test_many_accused_are_folded_and_the_same_reasons_are_said_once(client, ada):
    report = sample()
    report["suspects"] = [
        {
            "entity": f"gpu-{n}",
            "kind": "node",
            "score": 0.9,
            "suspect": True,
            "from": ["logs"],
            "reasons": ["fell silent"],
        }
        for n in range(12)
    ]
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = budget(client, f"/incidents/{attempt.incidents.get().pk}/", INCIDENT_QUERIES)
    assert "7 more accused" in page
    assert page.index('data-testid="suspect-5"') < page.index("7 more accused") < page.index('data-testid="suspect-6"')
    assert page.count(">fell silent</li>") == 1
    assert page.count("for the same reasons") == 11


def test_a_row_says_what_it_cost_and_of_how_many_nodes(client, ada):
    make_incident(accused=("gpu-1",), gpu_hours=1189.6, node_count=512)
    make_incident(gpu_hours=0.04, node_count=1)
    for url in ("/", "/incidents/"):
        page = page_text(client.get(url))
        assert "1,190 GPU-h" in page
        assert "of 512 nodes" in page
        assert "0.04 GPU-h" in page
        assert ">1 node<" in page


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


def test_judging_by_plain_forms_works_and_offers_an_undo(client, ada, incident):
    url = reverse("decide", args=[incident.pk])
    page = page_text(client.post(url, {"claim": "category", "word": "confirm"}, follow=True))
    incident.refresh_from_db()
    assert incident.state == Incident.State.CONFIRMED
    request_id = Activity.objects.get(kind="decided").request_id
    assert reverse("undo", args=[request_id]) in page
    client.post(reverse("undo", args=[request_id]))
    incident.refresh_from_db()
    assert incident.state == Incident.State.AWAITING_REVIEW


def test_correcting_a_suspect_shows_before_and_after_in_the_activity(client, ada, incident):
    data = {"claim": "suspect", "subject": "gpu-0412", "word": "correct", "value": "gpu-0413", "reason": "PSU"}
    page = page_text(client.post(reverse("decide", args=[incident.pk]), data, follow=True))
    assert "corrected suspect gpu-0412: gpu-0412 → gpu-0413" in page
    assert "PSU" in page


def test_a_bulk_act_on_several_asks_with_the_count_before_it_acts(client, ada):
    rows = [make_incident() for _ in range(3)]
    data = {"act": "reject", "id": [row.pk for row in rows]}
    asked = client.post(reverse("bulk"), data)
    assert "Reject 3 incidents?" in page_text(asked)
    assert Incident.objects.filter(state="rejected").count() == 0
    client.post(reverse("bulk"), data | {"expected": "3"})
    assert Incident.objects.filter(state="rejected").count() == 3


def test_a_bulk_act_says_what_kinds_it_takes_in_and_goes_back_only_within_the_site(client, ada):
    rows = [make_incident() for _ in range(14)] + [make_incident(category="network.link_down")]
    data = {"act": "confirm", "id": [row.pk for row in rows], "next": "https://evil.example/"}
    page = page_text(client.post(reverse("bulk"), data))
    assert "Confirm 15 incidents</button>" in page
    assert "14 × GPU lost from the PCIe bus" in page and "1 × Fabric link down" in page
    assert "and 3 more" in page
    assert "evil.example" not in page.partition("<footer")[2].partition("</footer>")[0]


def test_a_bulk_act_whose_count_changed_meanwhile_is_refused(client, ada):
    for _ in range(3):
        make_incident()
    response = client.post(reverse("bulk"), {"act": "confirm", "scope": "query", "q": "is:unreviewed", "expected": "2"})
    assert response.status_code == 409
    assert not Incident.objects.filter(state="confirmed").exists()


def test_a_form_cannot_send_people_to_another_site(client, ada, incident):
    data = {"claim": "category", "word": "confirm", "next": "https://evil.example/"}
    response = client.post(reverse("decide", args=[incident.pk]), data)
    assert response["Location"] == f"/incidents/{incident.pk}/"


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


def test_the_job_pages_keep_their_budget(client, ada, incident):
    attempt = incident.attempt
    for n in range(30):
        blob = Blob.objects.create(sha256=f"{n:064d}", size_bytes=n)
        Artifact.objects.create(attempt=attempt, path=f"logs/{n}.log", blob=blob, state="parsed")
        Run.objects.create(job=attempt.job, kind="parse", state="succeeded")
        make_incident(make_job(f"job-x{n}"))
    assert incident.headline in budget(client, "/jobs/llama/")
    assert "logs/29.log" in budget(client, "/jobs/llama/files/", 9)
    assert "llama" in budget(client, "/jobs/")


def test_a_job_that_is_worked_on_keeps_its_budget_and_asks_for_its_progress(client, ada, incident):
    fragment = 'hx-get="/ingest/progress/llama/'
    assert fragment not in budget(client, "/jobs/llama/")
    run = Run.objects.create(job=incident.job, kind="diagnose", state="running", stage="cross_job")
    page = budget(client, "/jobs/llama/")
    assert f'{fragment}"' in page and 'data-state="active"' in page
    assert "cross job" in budget(client, "/ingest/progress/llama/", 10)
    assert "cross job" in page_text(client.get("/jobs/llama/work/")), "without JavaScript it is read here"
    Run.objects.filter(pk=run.pk).update(state="failed", error="The worker died.")
    page = budget(client, "/jobs/llama/")
    assert f'{fragment}?was=settled"' in page and 'data-state="done"' in page


def test_what_was_wrong_with_settled_evidence_is_one_line_and_does_not_reload_the_page(client, ada, incident):
    blob = Blob.objects.create(sha256="2" * 64, size_bytes=3)
    Artifact.objects.create(
        attempt=incident.attempt, path="photo.jpg", blob=blob, state="skipped", problem="It is a picture."
    )
    assert "was=settled" in page_text(client.get("/jobs/llama/"))
    told = client.get("/ingest/progress/llama/?was=settled", headers={"HX-Request": "true"})
    assert "HX-Refresh" not in told.headers
    assert "1 message about the evidence" in page_text(told)
    assert "photo.jpg" in page_text(told)


def test_a_job_whose_files_were_all_taken_out_waits_for_nothing(client, ada, incident):
    incident.job.revision += 1
    incident.job.save()
    assert "ingest/progress" not in page_text(client.get("/jobs/llama/"))


def test_events_of_a_job_can_be_filtered_by_role_words_node_and_level(client, ada, incident):
    assert "Watchdog caught" in page_text(client.get("/jobs/llama/?role=cascade"))
    assert "Watchdog caught" not in page_text(client.get("/jobs/llama/?role=root"))
    assert "Watchdog caught" not in page_text(client.get("/jobs/llama/?words=fallen"))
    assert "No event passes" in page_text(client.get("/jobs/llama/?node=gpu-9999"))
    assert "No event passes" not in page_text(client.get("/jobs/llama/?level=error"))
    assert "No event passes" in page_text(client.get("/jobs/llama/?level=fatal"))


def test_errors_say_what_to_do(client, ada):
    assert "There is no incident #404" in page_text(client.get("/incidents/404/"))
    assert "There is no job" in page_text(client.get("/jobs/nope/"))


def test_no_page_carries_inline_script_or_style(client, ada, incident):
    for url in (
        "/",
        "/incidents/",
        f"/incidents/{incident.pk}/",
        "/jobs/",
        "/jobs/llama/",
        "/jobs/llama/files/",
        "/nope",
    ):
        response = client.get(url)
        page = page_text(response)
        assert " style=" not in page, url
        assert "<style" not in page, url
        assert "<script>" not in page and " onclick" not in page, url
        policy = response["Content-Security-Policy"]
        assert "unsafe-inline" not in policy and "default-src 'self'" in policy


def test_csv_holds_what_the_search_finds_and_no_formula(client, ada):
    make_incident(headline="=cmd()", category="network.link.down")
    make_incident(headline="other")
    assert client.get("/incidents.csv").status_code == 403
    client.force_login(make_user("mona", "manager"))
    lines = b"".join(client.get("/incidents.csv?q=category:network").streaming_content).decode().splitlines()
    assert len(lines) == 2
    assert "'=cmd()" in lines[1]
    assert lines[0].startswith("incident,headline,job,attempt,") and lines[1].split(",")[3] == "0"


def test_health_and_metrics_answer_without_signing_in(client):
    assert client.get("/healthz").json()["status"] == "ok"
    make_incident()
    assert 'faultline_incidents{state="awaiting_review"} 1' in page_text(client.get("/metrics"))


def test_a_page_without_charts_weighs_little(client, ada, settings):
    import gzip

    page = client.get("/").content
    files = (
        "css/tokens.css",
        "css/base.css",
        "css/components.css",
        "css/pages.css",
        "js/keys.js",
        "js/desk.js",
        "js/theme.js",
        "vendor/htmx.min.js",
    )
    whole = b"".join((settings.BASE_DIR / "static" / name).read_bytes() for name in files)
    assert len(gzip.compress(page)) + len(gzip.compress(whole)) < 150_000


def test_a_file_can_be_taken_out_by_an_engineer_only(client, ada, incident):
    blob = Blob.objects.create(sha256="1" * 64, size_bytes=3)
    artifact = Artifact.objects.create(attempt=incident.attempt, path="wrong.log", blob=blob, state="parsed")
    url = reverse("file-delete", args=["llama", artifact.pk])
    client.force_login(make_user("mona", "manager"))
    assert client.post(url).status_code == 403
    client.force_login(ada)
    client.post(url)
    assert not Artifact.objects.filter(pk=artifact.pk).exists()
    assert client.post(url).status_code == 404


def test_an_empty_site_offers_a_sample_job_to_those_who_may_upload(client, ada):
    assert "Load a sample job" in budget(client, "/")
    response = client.post(reverse("sample-load"))
    assert response["Location"] == "/jobs/sample-sigkill-rank5/"
    assert client.post(reverse("sample-load"))["Location"] == response["Location"]
    client.force_login(make_user("vera", "viewer"))
    assert "Load a sample job" not in page_text(client.get("/"))
    assert client.post(reverse("sample-load")).status_code == 403

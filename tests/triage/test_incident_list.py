"""The queue and the list of incidents: which rows they show, in which words, at what cost."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from ingest.models import Upload, Watch
from tests.factories import make_incident, make_job, make_user
from tests.pages import budget, page_text

pytestmark = pytest.mark.django_db


def test_the_queue_teaches_when_nothing_awaits(client, ada):
    page = budget(client, "/")
    assert "Nothing awaits review" in page
    for step in ("Load a sample job", "my-job/files/", "faultline.pyz run --job my-job"):
        assert step in page


def test_the_first_steps_stand_on_an_empty_site_alone(client, ada, incident):
    make_job("quiet")
    incident.delete()
    for url in ("/", "/jobs/"):
        assert 'data-testid="first-steps"' not in page_text(client.get(url))


def test_the_queue_shows_what_awaits_and_hides_what_was_judged(client, ada, incident):
    judged = make_incident(headline="Judged before", state="confirmed")
    page = budget(client, "/")
    assert incident.headline in page
    assert judged.headline not in page


def test_a_job_that_runs_with_an_alarm_comes_first_in_the_queue(client, ada):
    costly, hanging, calm = make_incident(gpu_hours=900), make_incident(), make_incident(gpu_hours=50)
    for incident, alarm in ((hanging, "hang"), (calm, "")):
        grows = {"job": incident.job, "attempt": incident.attempt, "size_bytes": None}
        Upload.objects.create(path="train.log", **grows)
        Watch.objects.create(attempt=incident.attempt, alarm=alarm)
    ended = make_incident(gpu_hours=1)
    Watch.objects.create(attempt=ended.attempt, alarm="hang")
    page = budget(client, "/")
    titles = re.findall(r'class="list-section">([^<]+) <', page)
    assert titles == ["Running now, with an alarm", "Last 24 hours"]
    numbers = [int(pk) for pk in re.findall(r'id="incident-(\d+)"', page)]
    assert numbers == [hanging.pk, costly.pk, calm.pk, ended.pk]
    told = page_text(client.get(reverse("incident", args=[hanging.pk])))
    assert 'data-testid="still-runs"' in told and "<dt>Lost</dt>" not in told
    assert 'data-testid="still-runs"' not in page_text(client.get(reverse("incident", args=[ended.pk])))
    following = client.get(reverse("incident-next", args=[hanging.pk]))
    assert following["Location"].startswith(f"/incidents/{costly.pk}/")


def test_an_empty_site_offers_a_sample_job_to_those_who_may_upload(client, ada):
    assert "Load a sample job" in budget(client, "/")
    response = client.post(reverse("sample-load"))
    assert response["Location"] == "/jobs/sample-sigkill-rank5/"
    assert client.post(reverse("sample-load"))["Location"] == response["Location"]
    client.force_login(make_user("vera", "viewer"))
    assert "Load a sample job" not in page_text(client.get("/"))
    assert client.post(reverse("sample-load")).status_code == 403


def test_the_list_keeps_its_budget_however_long_it_is(client, ada, incident):
    for n in range(60):
        make_incident(headline=f"Failure number {n}", accused=(f"gpu-{n}",), assignee=ada)
    page = budget(client, "/incidents/")
    assert "1–50 of 50+" in page
    last = budget(client, "/incidents/?page=2")
    assert "51–61 of 61" in last
    assert "Failure number 5" in last
    assert "1–50 of 61" in budget(client, "/incidents/?count=all")


def test_a_row_says_what_it_cost_and_of_how_many_nodes(client, ada):
    make_incident(accused=("gpu-1",), gpu_hours=1189.6, node_count=512)
    make_incident(gpu_hours=0.04, node_count=1)
    for url in ("/", "/incidents/"):
        page = page_text(client.get(url))
        assert ">GPU-hours</span>" in page
        assert ">1,190</span>" in page
        assert ">512 nodes<" in page
        assert ">0.04</span>" in page
        assert ">1 node<" in page


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


def test_csv_holds_what_the_search_finds_and_no_formula(client, ada):
    make_incident(headline="=cmd()", category="network.link.down")
    make_incident(headline="other")
    assert client.get("/incidents.csv").status_code == 403
    client.force_login(make_user("mona", "manager"))
    lines = b"".join(client.get("/incidents.csv?q=category:network").streaming_content).decode().splitlines()
    assert len(lines) == 2
    assert "'=cmd()" in lines[1]
    assert lines[0].startswith("incident,headline,job,attempt,") and lines[1].split(",")[3] == "0"

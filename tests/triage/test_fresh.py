"""What pages remember: never what is not true any more, never what is another's."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage.models import Activity, Incident
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

PAGES = ("queue", "incidents", "statistics", "nodes", "jobs")


@pytest.fixture
def ada(client):
    user = make_user("ada", "engineer", "manager")
    client.force_login(user)
    return user


@pytest.fixture
def incident():
    return make_incident(category="hardware.gpu.ecc", headline="gpu-7 lost a GPU", accused=("gpu-7",), gpu_hours=5.0)


def seen(client):
    """Every page as it is now; read twice, so that the second answer comes from the caches."""
    pages = {}
    for name in PAGES:
        client.get(reverse(name))
        pages[name] = page_text(client.get(reverse(name)))
    return pages


def waiting(page):
    """What the navigation says of the queue."""
    found = re.search(r'title="awaiting review">([^<]*)<', page)
    return found[1] if found else ""


def facet(page, value):
    """How many a facet counts."""
    found = re.search(rf'>{value}</span><span class="n">([\d,]+)</span>', page)
    return int(found[1].replace(",", "")) if found else 0


def act(client, name, number, **given):
    assert client.post(reverse(name, args=[number]), given).status_code == 302


def test_a_verdict_shows_on_every_page_at_once_and_so_does_taking_it_back(client, ada, incident):
    before = seen(client)
    assert (waiting(before["incidents"]), facet(before["incidents"], "unreviewed")) == ("1", 1)
    act(client, "decide", incident.pk, claim="category", word="confirm")
    after = seen(client)
    assert waiting(after["jobs"]) == ""
    assert facet(after["incidents"], "confirmed") == 1
    assert incident.headline not in after["queue"]
    assert "100.0 %" in after["statistics"]
    client.post(reverse("decision-undo", args=[incident.pk, incident.decisions.get().pk]))
    again = seen(client)
    assert (waiting(again["incidents"]), facet(again["incidents"], "unreviewed")) == ("1", 1)
    assert incident.headline in again["queue"]


def test_a_correction_moves_the_incident_to_its_category(client, ada, incident):
    assert facet(seen(client)["incidents"], "Network") == 0
    act(client, "decide", incident.pk, claim="category", word="correct", value="network.link_down")
    after = seen(client)
    assert (facet(after["incidents"], "Network"), facet(after["incidents"], "Hardware")) == (1, 0)
    assert "category%3Anetwork.link_down" in after["statistics"]


def test_an_assignment_shows_in_the_row(client, ada, incident):
    assert "assigned to ada" not in seen(client)["incidents"]
    act(client, "assign", incident.pk, assignee="me")
    after = seen(client)
    assert "assigned to ada" in after["incidents"]
    assert "assigned to ada" in after["queue"]


def test_a_new_diagnosis_shows_and_counts(client, ada, incident):
    seen(client)
    stored = diagnosis_store(attempt=make_attempt(make_job("llama")), revision=1, report=sample())
    headline = stored.incidents.get().headline
    after = seen(client)
    assert headline in after["queue"]
    assert headline in after["incidents"]
    assert waiting(after["jobs"]) == "2"


def test_a_later_diagnosis_changes_the_row(client, ada):
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    seen(client)
    diagnosis_store(attempt=attempt, revision=2, report={**sample(), "headline": "It was the cable"})
    after = seen(client)
    assert "It was the cable" in after["incidents"]
    assert "It was the cable" in after["queue"]


def test_a_note_on_a_node_shows_in_the_fleet(client, ada, incident):
    assert "drained" not in seen(client)["nodes"].partition("<tbody>")[2]
    client.post(reverse("node", args=["gpu-7"]), {"note": "bad riser", "drained": "1"})
    assert "drained" in seen(client)["nodes"].partition("<tbody>")[2]


def test_a_snoozed_incident_comes_back_when_its_time_is_over_without_an_act(client, ada, incident):
    act(client, "incident-act", incident.pk, act="snoozed", hours="4")
    assert waiting(seen(client)["jobs"]) == ""
    # four hours pass
    Incident.objects.filter(pk=incident.pk).update(snoozed_until=timezone.now() - timedelta(seconds=1))
    after = seen(client)
    assert waiting(after["jobs"]) == "1"
    assert incident.headline in after["queue"]


def test_an_act_that_was_overtaken_by_a_later_number_counts_too(client, ada, incident):
    last = Activity.objects.create(pk=5000, incident=incident, kind="commented", data={"body": "x"})
    assert facet(seen(client)["incidents"], "unreviewed") == 1
    # a transaction that took its number earlier ends now
    late = make_incident(headline="Late")
    Activity.objects.create(pk=last.pk - 20, incident=late, kind="diagnosed", data={})
    assert facet(seen(client)["incidents"], "unreviewed") == 2


def test_what_one_person_may_see_is_not_told_to_another(client, ada):
    closed = make_cluster("closed")
    insider = make_user("insider", "engineer")
    make_team("inside", members=[insider], clusters=[closed])
    make_incident(make_job(cluster=closed), headline="Secret failure")
    client.force_login(insider)
    assert waiting(seen(client)["jobs"]) == "1"
    client.force_login(ada)
    others = seen(client)
    assert waiting(others["jobs"]) == ""
    assert facet(others["incidents"], "unreviewed") == 0


def token_of(page):
    """The reader's own token, which must stand in every form of the page."""
    (token,) = {value[-32:] for value in re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)}
    return token


@pytest.mark.parametrize("name", ["incident", "job"])
def test_a_page_that_is_read_again_is_not_put_together_again(
    client, ada, incident, name, django_assert_max_num_queries, time_machine
):
    time_machine.move_to(timezone.now(), tick=False)  # a page states how long ago things were, and is kept for an hour
    url = reverse(name, args=[incident.pk if name == "incident" else incident.job.slug])
    first = page_text(client.get(url))
    with django_assert_max_num_queries(3):
        again = page_text(client.get(url))
    assert re.sub(r'"\w{64}"', "token", again) == re.sub(r'"\w{64}"', "token", first)
    assert incident.headline in again


def test_each_act_shows_on_a_page_that_was_kept(client, ada, incident):
    url = reverse("incident", args=[incident.pk])
    acts = (
        ("decide", {"claim": "category", "word": "correct", "value": "network.link_down"}, "corrected the category"),
        ("comment", {"body": "Looked at the cable"}, "Looked at the cable"),
        ("assign", {"assignee": "me"}, "Yours: give back"),
        ("incident-act", {"act": "resolved", "reason": "changed it"}, "changed it"),
    )
    for name, given, shown in acts:
        client.get(url)
        assert shown not in page_text(client.get(url))
        act(client, name, incident.pk, **given)
        assert shown in page_text(client.get(url))
    assert "resolved" in page_text(client.get(reverse("job", args=[incident.job.slug])))


def test_a_kept_page_gives_each_reader_their_own_token_rights_and_name(client, ada, incident):
    page = reverse("incident", args=[incident.pk])
    act(client, "assign", incident.pk, assignee="me")
    seen = {}
    for name, role in (("ada", None), ("eve", "engineer"), ("vic", "viewer")):
        reader = Client()
        reader.force_login(ada if role is None else make_user(name, role))
        reader.get(page)
        seen[name] = page_text(reader.get(page))
    assert len({token_of(seen["ada"]), token_of(seen["eve"])}) == 2
    assert "Yours: give back" in seen["ada"]
    assert "ada: take over" in seen["eve"]
    assert "confirm-category" in seen["eve"]
    assert "confirm-category" not in seen["vic"]


def test_similar_incidents_of_closed_clusters_are_not_kept_for_others(client, ada, incident):
    closed = make_cluster("closed")
    insider = make_user("insider", "engineer", "manager")
    make_team("inside", members=[insider], clusters=[closed])
    make_incident(make_job(cluster=closed), category=incident.category, headline="Secret failure")
    reader = Client()
    reader.force_login(insider)
    assert "Secret failure" in page_text(reader.get(reverse("incident", args=[incident.pk])))
    assert "Secret failure" not in page_text(client.get(reverse("incident", args=[incident.pk])))


def test_what_is_mine_is_counted_for_each_person(client, ada, incident):
    act(client, "assign", incident.pk, assignee="me")
    page = reverse("incidents") + "?q=assignee:me"
    assert facet(page_text(client.get(page)), "unreviewed") == 1
    client.force_login(make_user("bob", "engineer"))
    assert facet(page_text(client.get(page)), "unreviewed") == 0


@pytest.mark.parametrize(
    ("name", "given", "budget"),
    [("planning", {}, 9), ("job-compare", {"slug": "llama"}, 13), ("job-cost", {"slug": "llama"}, 10)],
)
def test_a_page_of_figures_keeps_its_budget(client, ada, name, given, budget, django_assert_max_num_queries):
    """Not one query more with many candidates, attempts or diagnoses."""
    for n in range(6):
        job = make_job("llama" if n == 0 else f"llama-{n}", family="llama")
        for number in range(3):
            make_incident(attempt=make_attempt(job, number=number))
    with django_assert_max_num_queries(budget):
        assert client.get(reverse(name, kwargs=given)).status_code == 200


def test_a_page_keeps_its_budget_also_when_nothing_is_remembered(client, ada, django_assert_max_num_queries):
    later = make_incident(attempt=make_attempt(make_job("llama"), number=1), accused=("gpu-1", "gpu-2"))
    pages = [reverse(name) for name in PAGES] + [f"/incidents/{later.pk}/", "/jobs/llama/", "/nodes/gpu-1/"]
    for page in pages:
        Activity.objects.create(incident=later, kind="commented", data={"body": "x"})
        # one more: what is counted once an hour for the corrections of an incident. Statistics ask how sure verdicts
        # were, what the month before cost, and how long the jobs trained; a node for its year, its notes and its parts.
        budget = {"statistics": 11, "nodes": 11, "incidents": 9}.get(page.split("/")[1], 8)
        with django_assert_max_num_queries(budget):
            assert client.get(page).status_code == 200
        with django_assert_max_num_queries(10 if "/nodes/" in page else 7):
            assert client.get(page).status_code == 200

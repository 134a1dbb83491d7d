"""What people do to incidents through the pages: what each act answers, keeps, refuses and takes back."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.factories import make_incident, make_team, make_user
from tests.pages import page_text
from triage.models import Activity, Incident
from triage.services.grouping import incidents_merge

pytestmark = pytest.mark.django_db


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


def test_a_form_cannot_send_people_to_another_site(client, ada, incident):
    data = {"claim": "category", "word": "confirm", "next": "https://evil.example/"}
    response = client.post(reverse("decide", args=[incident.pk]), data)
    assert response["Location"] == f"/incidents/{incident.pk}/"


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
    assert 'id="undo-last"' not in page
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


def test_the_grouping_is_explained_by_words_masks_and_rules(client, ada, incident, django_assert_max_num_queries):
    url = reverse("incident-grouping", args=[incident.pk])
    with django_assert_max_num_queries(8):
        assert "Nobody merged or split it" in page_text(client.get(url))
    twin = make_incident(fingerprint=incident.fingerprint)
    incidents_merge(incidents=[incident, twin], by=ada)
    page = page_text(client.get(url))
    assert '<span class="masked">&lt;PCI&gt;</span>' in page
    assert "1 other incident" in page
    assert f"<b>ada</b> put it into group {Incident.objects.get(pk=incident.pk).group_id}" in page
    assert "<html" not in page


def test_a_merge_and_a_split_of_several_offer_an_undo_and_tell_what_they_did(client, ada, incident):
    others = [make_incident(headline=f"Other {n}") for n in range(3)]
    url = reverse("incident-group", args=[incident.pk])
    numbers = ", ".join(f"#{row.pk}" for row in others)
    page = page_text(client.post(url, {"act": "merge", "numbers": numbers}, follow=True))
    assert "now holds 4 incidents" in page
    merged = Activity.objects.filter(kind="merged").first()
    assert reverse("undo", args=[merged.request_id]) in page
    page = page_text(client.post(url, {"act": "split", "id": [others[0].pk, others[1].pk]}, follow=True))
    assert "2 incidents are separate again" in page
    incident.refresh_from_db()
    assert incident.group.incidents.count() == 2
    page = client.post(reverse("undo", args=[Activity.objects.filter(kind="split").first().request_id]), follow=True)
    assert "Undone on 2 incidents: you " in page_text(page)
    assert incident.group.incidents.count() == 4
    page = client.post(reverse("incident-group", args=[make_incident().pk]), {"act": "split"}, follow=True)
    assert "None of these incidents is in a group" in page_text(page)


def test_snoozing_leaves_the_queue_until_then_and_can_be_taken_back(client, ada, incident):
    url = reverse("incident-act", args=[incident.pk])
    page = page_text(client.post(url, {"act": "snoozed", "hours": "4"}, follow=True))
    assert "snoozed until" in page
    assert incident.headline not in page_text(client.get("/"))
    request_id = Activity.objects.get(kind="snoozed").request_id
    client.post(reverse("undo", args=[request_id]))
    assert incident.headline in page_text(client.get("/"))
    assert "There is nothing to undo" in page_text(client.post(reverse("undo", args=[request_id]), follow=True))
    assert "Give a time in the future" in page_text(client.post(url, {"act": "snoozed"}, follow=True))
    page = page_text(client.post(url, {"act": "snoozed", "until": "2090-01-01"}, follow=True))
    assert "2090-01-01" in page
    client.post(url, {"act": "woken"})
    assert incident.headline in page_text(client.get("/"))


def test_the_menu_offers_what_the_state_allows(client, ada, incident):
    url = f"/incidents/{incident.pk}/"

    def offered():
        page = page_text(client.get(url))
        return [name for name in ("actioned", "resolved", "reopened", "woken") if f'value="{name}"' in page]

    assert offered() == []
    client.post(reverse("decide", args=[incident.pk]), {"claim": "category", "word": "confirm"})
    assert offered() == ["actioned", "resolved"]
    client.post(reverse("incident-act", args=[incident.pk]), {"act": "resolved"})
    assert offered() == ["actioned", "reopened"]
    client.post(reverse("incident-act", args=[incident.pk]), {"act": "snoozed", "hours": "24"})
    assert offered() == ["actioned", "reopened", "woken"]


def test_a_verdict_is_explained_by_the_clues_behind_it(client, ada, incident):
    client.force_login(ada)
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    why = page[page.index('data-testid="why-verdict"') :]
    why = why[: why.index("</details>")]
    assert "Explain this verdict (2 clues)" in why
    assert "a fault is printed where it happens" in why
    assert why.index("the only node with") < why.index("The GPU has fallen off the bus.")


def test_an_incident_is_resolved_only_after_a_verdict_and_reopens(client, ada, incident):
    url = reverse("incident-act", args=[incident.pk])
    assert "Say first what it was" in page_text(client.post(url, {"act": "resolved"}, follow=True))
    client.post(reverse("decide", args=[incident.pk]), {"claim": "category", "word": "confirm"})
    client.post(url, {"act": "resolved", "reason": "board replaced"})
    incident.refresh_from_db()
    assert incident.state == Incident.State.RESOLVED
    page = page_text(client.post(url, {"act": "reopened"}, follow=True))
    assert "board replaced" in page
    incident.refresh_from_db()
    assert incident.state == Incident.State.CONFIRMED
    assert "There is no act" in page_text(client.post(url, {"act": "eaten"}, follow=True))


def test_an_incident_is_given_to_me_to_somebody_to_nobody(client, ada, incident):
    make_user("bob", "engineer")
    url = reverse("assign", args=[incident.pk])
    for name, said in (("me", "Assigned to ada"), ("bob", "Assigned to bob"), ("", "Nobody is assigned now")):
        page = page_text(client.post(url, {"assignee": name}, follow=True))
        assert said in page
    assert "Nobody called eve" in page_text(client.post(url, {"assignee": "eve"}, follow=True))
    kinds = list(Activity.objects.filter(incident=incident, kind="assigned").values_list("data__after", flat=True))
    assert kinds == ["ada", "bob", None]


def test_a_comment_is_kept_and_an_empty_one_is_refused_with_a_sentence(client, ada, incident):
    url = reverse("comment", args=[incident.pk])
    assert client.post(url, {"body": "seen **before**"})["Location"].endswith("#activity")
    assert "<strong>before</strong>" in page_text(client.get(f"/incidents/{incident.pk}/"))
    assert "The comment is empty" in page_text(client.post(url, {"body": " "}, follow=True))


def test_one_word_is_taken_back_by_whoever_may_review_and_only_once(client, ada, incident):
    client.post(reverse("decide", args=[incident.pk]), {"claim": "stage", "word": "confirm"})
    client.force_login(make_user("bob", "engineer"))
    url = reverse("decision-undo", args=[incident.pk, incident.decisions.get().pk])
    assert "Undone" in page_text(client.post(url, follow=True))
    assert "already undone" in page_text(client.post(url, follow=True))
    assert Activity.objects.get(kind="undone").actor.username == "bob"
    refused = client.post(reverse("decide", args=[incident.pk]), {"claim": "colour", "word": "confirm"}, follow=True)
    assert "There is no claim" in page_text(refused)


ACTS = ("decide", "incident-act", "assign", "comment", "incident-group")


@pytest.mark.parametrize("name", ACTS)
def test_viewers_read_and_strangers_do_not_even_find_it(client, incident, name):
    url = reverse(name, args=[incident.pk])
    assert client.post(url).status_code == 302  # to sign in
    client.force_login(make_user("vera", "viewer"))
    refused = client.post(url)
    assert refused.status_code == 403
    assert "Reviewing needs the role engineer" in page_text(refused)
    assert client.get(f"/incidents/{incident.pk}/").status_code == 200
    make_team("red", clusters=[incident.cluster])
    client.force_login(make_user("sam", "engineer"))
    assert client.post(url).status_code == 404


def test_bulk_assigning_merging_and_splitting_ask_act_and_can_be_taken_back(client, ada):
    rows = [make_incident() for _ in range(3)]
    chosen = {"id": [row.pk for row in rows]}
    assert "Assign 3 incidents?" in page_text(client.post(reverse("bulk"), chosen | {"act": "assign"}))
    sure = chosen | {"expected": "3"}
    page = page_text(client.post(reverse("bulk"), sure | {"act": "assign", "assignee": "eve"}, follow=True))
    assert "Nobody called eve" in page
    page = page_text(client.post(reverse("bulk"), sure | {"act": "assign", "assignee": "ada"}, follow=True))
    assert "Assigned 3 incidents to ada" in page
    page = page_text(client.post(reverse("bulk"), sure | {"act": "merge", "title": "One cause"}, follow=True))
    assert "are now group" in page
    assert "Split 3 incidents?" in page_text(client.post(reverse("bulk"), chosen | {"act": "split"}))
    page = page_text(client.post(reverse("bulk"), sure | {"act": "split"}, follow=True))
    assert "3 of them left their group" in page
    client.post(reverse("undo", args=[Activity.objects.filter(kind="split").first().request_id]))
    assert Incident.objects.filter(group__title="One cause").count() == 3
    assert "Nothing was chosen" in page_text(client.post(reverse("bulk"), {"act": "confirm"}, follow=True))
    assert client.post(reverse("bulk"), sure | {"act": "eat"}).status_code == 400
    assert client.post(reverse("bulk"), {"scope": "query", "q": "colour:red", "act": "confirm"}).status_code == 400


def test_a_saved_view_is_shared_replaced_and_forgotten_by_its_owner_alone(client, ada):
    make_incident(category="network.link.down", headline="Link is gone")
    make_incident(headline="other")
    save, bob = reverse("view-save"), make_user("bob", "manager")
    client.post(save, {"name": "Net", "q": "category:hardware"})
    client.post(save, {"name": "Net", "q": "category:network", "is_shared": "on"})
    assert "Give the view a name" in page_text(client.post(save, {"name": "?!", "q": ""}, follow=True))
    assert "cannot be saved" in page_text(client.post(save, {"name": "x", "q": "colour:red"}, follow=True))
    client.force_login(bob)
    assert "Link is gone" in page_text(client.get("/incidents/?filter=net"))
    lines = b"".join(client.get("/incidents.csv?filter=net").streaming_content).decode().splitlines()
    assert len(lines) == 2
    assert client.get("/incidents.csv?filter=nope").status_code == 400
    client.post(save, {"name": "Net", "q": "is:unreviewed"})
    assert "Only its owner" in page_text(client.post(reverse("view-delete", args=["net"]), follow=True))
    assert "filter=net-2" in page_text(client.get("/incidents/"))
    client.force_login(ada)
    assert "The view was deleted" in page_text(client.post(reverse("view-delete", args=["net"]), follow=True))

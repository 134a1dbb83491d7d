"""Two people judge one incident: nobody replaces the other's decision without having seen it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.factories import api_of, make_user
from tests.pages import page_text
from triage.services.reviewing import ReviewError, decision_make, incident_confirm

pytestmark = pytest.mark.django_db

REJECT = {"claim": "category", "word": "reject"}


@pytest.fixture
def bob():
    return make_user("bob", "engineer")


def state_of(incident):
    incident.refresh_from_db()
    return incident.state


def test_a_page_opened_before_anothers_decision_does_not_replace_it(client, ada, bob, incident):
    url = reverse("incident", args=[incident.pk])
    assert 'name="seen" value="0"' in page_text(client.get(url))
    confirmed = decision_make(incident=incident, claim="category", word="confirm", by=bob)
    page = page_text(client.post(reverse("decide", args=[incident.pk]), {**REJECT, "seen": 0}, follow=True))
    assert "bob confirmed the category just now, after you opened this page. Nothing was changed." in page
    assert state_of(incident) == "confirmed"
    assert f'name="seen" value="{confirmed.pk}"' in page
    client.post(reverse("decide", args=[incident.pk]), {**REJECT, "seen": confirmed.pk})
    assert state_of(incident) == "rejected"


def test_two_who_agree_do_not_stop_each_other(ada, bob, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=bob)
    decision_make(incident=incident, claim="category", word="confirm", by=ada, seen=0)
    assert incident.decisions.count() == 2


def test_decisions_on_other_claims_do_not_stop_one(ada, bob, incident):
    decision_make(incident=incident, claim="suspect", subject="gpu-0412", word="reject", by=bob)
    decision_make(incident=incident, claim="category", word="confirm", by=ada, seen=0)
    assert state_of(incident) == "confirmed"


def test_one_may_change_ones_own_mind_in_another_tab(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    decision_make(incident=incident, claim="category", word="reject", by=ada, seen=0)
    assert state_of(incident) == "rejected"


def test_what_was_taken_back_stops_nobody(ada, bob, incident):
    decision = decision_make(incident=incident, claim="category", word="confirm", by=bob)
    decision.undone_at = decision.made_at
    decision.save()
    decision_make(incident=incident, claim="category", word="reject", by=ada, seen=0)
    assert state_of(incident) == "rejected"


def test_a_program_may_say_what_it_has_seen(ada, bob, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=bob)
    address = f"/api/v1/incidents/{incident.pk}/decisions/"
    refused = api_of(ada, "review").post(address, {**REJECT, "seen": 0}, format="json")
    assert refused.status_code == 422
    assert "bob confirmed the category" in refused.json()["detail"]
    assert api_of(ada, "review").post(address, REJECT, format="json").status_code == 201


def test_confirming_category_and_suspect_leaves_both_if_one_was_decided_unseen(ada, bob, incident):
    decision_make(incident=incident, claim="suspect", subject="gpu-0412", word="reject", by=bob)
    with pytest.raises(ReviewError, match="suspect gpu-0412"):
        incident_confirm(incident=incident, suspect="gpu-0412", by=ada, seen=0)
    assert state_of(incident) == "awaiting_review"

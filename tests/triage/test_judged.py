"""Advice follows people: what they correct or reject is no longer its ground."""

from __future__ import annotations

import json

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone

from diagnosis.advising.advice import advise
from diagnosis.advising.advice_facts import AdviceEvidence
from diagnosis.evidence import decode
from tests.factories import make_incident
from tests.pages import page_text
from tests.triage.report import sample
from triage.domain.judged import judged_report
from triage.domain.route_message import message_of
from triage.export import markdown
from triage.selectors.advice import advice_view
from triage.selectors.incident import incident_view
from triage.selectors.payloads import incident_payload, job_payload
from triage.selectors.tickets import node_ticket_payload
from triage.services.reviewing import decision_make
from triage.services.tried import tried_record

pytestmark = pytest.mark.django_db


def lost_node() -> dict:
    """A report that evicts node-3, whose neighbour node-4 is suspected less."""
    fault = [{"kind": "node", "name": "node-3", "p": 0.9}, {"kind": "node", "name": "node-4", "p": 0.3}]
    conclusion = {
        **{"condition": "failed", "id": "hardware.gpu.off_bus", "category": "hardware", "subcategory": "gpu_lost"},
        **{"confidence": 0.9, "sentence": "node-3 lost a GPU.", "seen": [], "chain": [], "fault": fault},
    }
    report = {**sample(), "conclusion": conclusion}
    return {**report, "advice": msgspec.to_builtins(advise(decode(report, AdviceEvidence)))}


@pytest.fixture
def incident():
    return make_incident(report=lost_node(), accused=("node-3",))


def advice_of(ada, incident):
    view = incident_view(ada, incident)
    return advice_view(incident, view.report, view.activities, view.decisions)


def test_a_confirmed_verdict_keeps_the_machines_advice(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    shown = advice_of(ada, incident)
    assert (shown.advice["action"], shown.advice["targets"]) == ("evict", ["node-3"])
    assert not shown.is_after_review


def test_a_suspect_that_a_person_confirmed_is_as_sure_as_it_can_be(ada, incident):
    decision = decision_make(incident=incident, claim="suspect", subject="node-3", word="confirm", by=ada)
    first = judged_report(lost_node(), [decision])["conclusion"]["fault"][0]
    assert (first["name"], first["p"]) == ("node-3", 1.0)


def test_a_rejected_suspect_is_not_evicted(ada, incident):
    decision_make(incident=incident, claim="suspect", subject="node-3", word="reject", by=ada)
    assert "node-3" not in advice_of(ada, incident).advice["targets"]


def test_the_machine_that_a_person_names_is_evicted_instead(ada, incident):
    decision_make(incident=incident, claim="suspect", subject="node-3", word="correct", value="node-9", by=ada)
    assert advice_of(ada, incident).advice["targets"] == ["node-9"]


def test_a_corrected_category_gets_the_advice_of_the_category_that_a_person_chose(client, ada, incident):
    decision_make(incident=incident, claim="category", word="correct", value="user.code.exception", by=ada)
    shown = advice_of(ada, incident)
    assert shown.advice["rule"] == "fix.user_exception"
    assert shown.is_after_review
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    assert "Correct the code" in page
    assert "After review" in page
    told = client.get(reverse("api-incident", args=[incident.pk])).json()
    assert told["advice"]["action"] == "fix_code"


def message_about(incident):
    incident.refresh_from_db()
    data = {"incident": incident_payload(incident), "job": job_payload(incident.job)}
    told = {"type": "incident.decided", "timestamp": "2026-01-01T00:00:00Z", "data": data}
    return message_of(json.dumps(told), key="k")


def test_a_message_advises_what_the_page_advises_after_a_correction(ada, incident):
    decision_make(incident=incident, claim="category", word="correct", value="user.code.exception", by=ada)
    facts = dict(message_about(incident).facts)
    assert facts["What to do"] == "Correct the code"
    assert facts["Cause"].endswith("corrected by a person")


def test_a_message_calls_a_rejected_verdict_the_machines_former_opinion(ada, incident):
    decision_make(incident=incident, claim="category", word="reject", by=ada)
    message = message_about(incident)
    facts = dict(message.facts)
    assert facts["Cause"].endswith("was the machine's former opinion, rejected by a person")
    assert facts["What to do"].startswith(advice_of(ada, incident).advice["action_title"])


def test_a_message_evicts_no_machine_that_a_person_cleared(ada, incident):
    decision_make(incident=incident, claim="suspect", subject="node-3", word="reject", by=ada)
    facts = dict(message_about(incident).facts)
    assert "node-3" not in facts["What to do"] + facts["Where"]


def test_a_message_passes_over_an_action_that_failed_again(ada, incident):
    tried_record(incident=incident, action="evict", targets="node-3", outcome="failed_again", by=ada)
    assert "Evict" not in dict(message_about(incident).facts)["What to do"]


def test_a_ticket_of_a_node_advises_nothing_for_a_machine_that_a_person_cleared(ada, incident):
    node = incident.suspects.get(entity="node-3").node
    assert node_ticket_payload(node, now=timezone.now())["node"]["advice"]["action"] == "evict"
    decision_make(incident=incident, claim="category", word="correct", value="user.code.exception", by=ada)
    assert node_ticket_payload(node, now=timezone.now())["node"]["advice"]["action"] is None


def test_markdown_says_whose_opinion_each_one_is(ada, incident):
    decision_make(incident=incident, claim="category", word="correct", value="user.code.exception", by=ada)
    decision_make(incident=incident, claim="suspect", subject="node-3", word="reject", by=ada)
    incident.refresh_from_db()
    text = markdown(incident_view(ada, incident), "https://site")
    assert "- Machine's former opinion: " in text
    assert "rejected by ada" in text
    assert "Correct the code" in text


def test_a_message_costs_three_queries_while_nobody_contradicted(incident, django_assert_num_queries):
    with django_assert_num_queries(3):
        incident_payload(incident)


def test_a_decision_that_was_undone_changes_nothing(ada, incident):
    report = lost_node()
    decision = decision_make(incident=incident, claim="category", word="reject", by=ada)
    assert judged_report(report, [decision])["conclusion"]["id"] == "unknown"
    decision.undone_at = decision.made_at
    assert judged_report(report, [decision]) == report

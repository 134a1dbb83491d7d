"""What one judges is what counts: a category, a suspect, both at once; and the last act is taken back."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from diagnosis import taxonomy
from ingest.models.outcome import standing_outcome
from tests.factories import make_attempt, make_cluster, make_incident, make_job
from tests.pages import page_text
from tests.triage.report import healthy, sample
from triage.export import _escape_markup
from triage.models import Activity, Incident, Suspect
from triage.selectors.incident import incident_view
from triage.services.diagnosing import diagnosis_store
from triage.services.importing import Fault, faults_import
from triage.services.reviewing import ReviewError, decision_make, incident_act, incident_assign, incident_confirm
from triage.services.reviewing_many import incidents_decide
from triage.services.undoing import act_undo, last_act_undo

pytestmark = pytest.mark.django_db


def words(incident):
    return dict(incident.suspects.values_list("entity", "word"))


def test_a_word_on_the_category_is_none_on_a_suspect(ada, incident):
    other = make_incident(accused=("gpu-0412",))
    decision_make(incident=other, claim="category", word="confirm", by=ada)
    seen = incident_view(ada, incident).suspects[0]
    assert (seen.past, seen.past_confirmed) == (1, 0)
    decision_make(incident=other, claim="suspect", subject="gpu-0412", word="confirm", by=ada)
    seen = incident_view(ada, incident).suspects[0]
    assert (seen.past, seen.past_confirmed) == (1, 1)


def test_category_and_suspect_are_confirmed_in_one_act_and_taken_back_as_one(client, ada, incident):
    url = reverse("decide", args=[incident.pk])
    client.post(url, {"claim": "category", "word": "confirm", "suspect": "gpu-0412"})
    incident.refresh_from_db()
    assert (incident.state, words(incident)["gpu-0412"]) == ("confirmed", "confirm")
    rows = Activity.objects.filter(kind="decided")
    assert {row.data["claim"] for row in rows} == {"category", "suspect"}
    act_undo(request_id=rows[0].request_id, by=ada)
    incident.refresh_from_db()
    assert (incident.state, words(incident)["gpu-0412"]) == ("awaiting_review", "")


def test_whoever_works_through_the_queue_is_told_how_many_are_left(client, ada, incident):
    other = make_incident()
    url = reverse("decide", args=[incident.pk])
    page = page_text(client.post(url, {"claim": "category", "word": "confirm"}, follow=True))
    assert f"Confirmed the category of #{incident.pk}. 1 more awaits review." in page
    page = page_text(
        client.post(reverse("decide", args=[other.pk]), {"claim": "category", "word": "reject"}, follow=True)
    )
    assert "Nothing else awaits review." in page


def test_whoever_confirms_by_key_goes_on_to_the_next_of_the_queue(client, ada, incident):
    other = make_incident()
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    assert "2 left" in page.partition('data-testid="left"')[2][:20]
    said = {"claim": "category", "word": "confirm", "next": reverse("incident-next", args=[incident.pk])}
    answer = client.post(reverse("decide", args=[incident.pk]), said, headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (200, said["next"])
    page = page_text(client.get(said["next"], follow=True))
    assert f"<title>#{other.pk}" in page
    assert f"Confirmed the category of #{incident.pk}. 1 more awaits review." in page


def test_a_decision_that_was_not_saved_leaves_its_page_open(client, ada, incident):
    said = {"claim": "category", "word": "nonsense", "next": reverse("incident-next", args=[incident.pk])}
    answer = client.post(reverse("decide", args=[incident.pk]), said, headers={"HX-Request": "true"})
    assert answer.headers["Location"] == reverse("incident", args=[incident.pk])


def test_a_rejection_gets_its_reason_in_one_click(client, ada, incident):
    url, address = reverse("decide", args=[incident.pk]), reverse("incident", args=[incident.pk])
    client.post(url, {"claim": "category", "word": "reject"})
    page = page_text(client.get(address))
    assert 'data-testid="rejection-reasons"' in page
    client.post(url, {"claim": "category", "word": "reject", "reason": "Nothing failed"})
    page = page_text(client.get(address))
    assert "<q>Nothing failed</q>" in page
    assert 'data-testid="rejection-reasons"' not in page


def test_only_who_is_accused_is_confirmed_with_the_category(ada, incident):
    with pytest.raises(ReviewError, match="gpu-0413 is not accused here"):
        incident_confirm(incident=incident, suspect="gpu-0413", by=ada)
    assert not incident.decisions.exists()


def test_what_the_machine_did_not_name_is_answered_and_not_confirmed(client, ada):
    unknown = make_incident(category="unknown", accused=("n1",))
    with pytest.raises(ReviewError, match="named no category"):
        decision_make(incident=unknown, claim="category", word="confirm", by=ada)
    page = page_text(client.get(reverse("incident", args=[unknown.pk])))
    assert 'data-testid="confirm-category"' not in page
    assert "no category was found" in page
    assert "Name it…" in page
    assert "0\u00a0%" not in page
    decision_make(incident=unknown, claim="category", word="correct", value="hardware.gpu.ecc", by=ada)


def test_many_with_an_unnamed_one_among_them_are_not_confirmed(ada):
    named, unknown = make_incident(), make_incident(category="unknown")
    with pytest.raises(ReviewError, match=f"named no category for #{unknown.pk}"):
        incidents_decide(incidents=[named, unknown], word="confirm", by=ada)
    assert set(Incident.objects.values_list("state", flat=True)) == {"awaiting_review"}
    incidents_decide(incidents=[named, unknown], word="inconclusive", by=ada)


def options(page):
    """The groups of the categories that a correction offers, each with its values."""
    select = re.search(r'<select id="value-category-0".*?</select>', page, re.DOTALL)[0]
    groups = re.findall(r'<optgroup label="([^"]+)">(.*?)</optgroup>', select, re.DOTALL)
    return {title: re.findall(r'value="([^"]+)"', inside) for title, inside in groups}


def test_a_correction_offers_the_runner_up_then_what_is_frequent_here_then_the_tree(client, ada, incident):
    for category, count in (("network.link_down", 2), ("user.config.invalid", 3), ("hardware.gpu.off_bus", 4)):
        for _ in range(count):
            make_incident(category=category, state=Incident.State.CONFIRMED)
    make_incident(category="framework.dataloader")  # judged by nobody
    for number in range(9):  # a record of faults is nobody's choice
        make_incident(ordinal=number, category="hardware.gpu.ecc", state=Incident.State.RESOLVED, is_imported=True)
    found = options(page_text(client.get(reverse("incident", args=[incident.pk]))))
    assert list(found)[:3] == ["Runner-up", "Most frequent here", "Hardware"]
    assert found["Runner-up"] == ["hardware.gpu.ecc"]
    assert found["Most frequent here"] == ["user.config.invalid", "network.link_down"]
    named = {value for title, values in found.items() if title not in list(found)[:2] for value in values}
    assert named == {leaf.id for leaf in taxonomy.load().leaves()} - {incident.category}


def last(ada, **given):
    return [row.kind for row in last_act_undo(by=ada, now=given.pop("now", timezone.now()), **given)]


def test_the_last_own_act_is_taken_back_then_the_one_before(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    incident_assign(incident=incident, assignee=ada, by=ada)
    incident_act(incident=incident, act="resolved", by=ada)
    assert [last(ada), last(ada), last(ada), last(ada)] == [["resolved"], ["assigned"], ["decided"], []]
    incident.refresh_from_db()
    assert (incident.state, incident.assignee) == ("awaiting_review", None)


def test_others_acts_old_ones_and_those_on_other_incidents_stay(ada, incident, manager):
    other = make_incident()
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    incident_assign(incident=other, assignee=ada, by=ada)
    decision_make(incident=other, claim="category", word="reject", by=manager)
    assert last(ada, incident=incident) == ["decided"]
    assert last(ada, incident=incident) == []
    assert last(ada, now=timezone.now() + timedelta(days=2)) == []
    assert last(ada) == ["assigned"]
    other.refresh_from_db()
    assert other.state == "rejected"


def test_an_act_taken_back_once_stays_so_when_a_colleague_does_it_again(ada, incident, manager):
    incident_assign(incident=incident, assignee=ada, by=ada)
    assert last(ada) == ["assigned"]
    incident_assign(incident=incident, assignee=ada, by=manager)
    assert last(ada) == []
    incident.refresh_from_db()
    assert incident.assignee == ada


def test_the_page_says_what_was_taken_back(client, ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    client.post(reverse("undo-last"), {"incident": incident.pk})
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    assert f"Undone on #{incident.pk}: you confirmed the category" in page
    client.post(reverse("undo-last"))
    assert "no act of yours in the last day" in page_text(client.get(reverse("queue")))


def test_the_button_of_a_message_says_what_it_took_back_because_the_page_shows_the_next_incident(client, ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    request_id = Activity.objects.get(incident=incident, kind="decided").request_id
    page = page_text(client.post(reverse("undo", args=[request_id]), follow=True))
    assert f"Undone on #{incident.pk}: you confirmed the category" in page


def test_an_imported_fault_is_marked_and_claims_no_confidence(client, ada, manager):
    start = timezone.now() - timedelta(days=2)
    faults_import(cluster=make_cluster(), slug="faults", faults=[Fault("n1", start, start + timedelta(hours=3), "ECC")])
    found = Incident.objects.get()
    page = page_text(client.get(reverse("incident", args=[found.pk])))
    assert "imported record" in page
    assert "machine, unreviewed" not in page
    assert "Confidence" not in page
    assert "100\u00a0%" not in page
    assert "out of service" in page
    exports = Client()
    exports.force_login(manager)
    row = next(csv.DictReader(io.StringIO(b"".join(exports.get("/incidents.csv").streaming_content).decode())))
    assert [row[name] for name in ("machine_category", "confidence", "is_imported")] == ["", "", "yes"]
    assert [one["is_imported"] for one in client.get("/api/v1/incidents/").json()["results"]] == [True]
    for term in ("machine:hardware", "machine:unknown", "confidence:<0.6", "confidence:>0.6", "verdict:right"):
        assert not client.get("/api/v1/incidents/", {"q": term}).json()["results"], term
    listed = page_text(client.get(reverse("incidents")))
    assert "imported" in re.search(rf'id="incident-{found.pk}".*?</li>', listed, re.DOTALL)[0]


def test_suspects_stand_in_the_order_of_their_scores_in_words_and_figures(client, ada, incident):
    incident.suspects.all().delete()
    for position, (entity, score) in enumerate((("n1", 0.4), ("n2", 0.8))):
        Suspect.objects.create(incident=incident, position=position, entity=entity, kind="node", score=score)
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    listed = page[page.index('id="suspects-title"') :]
    assert listed.index("n2") < listed.index("n1")
    assert re.findall(r'class="surety">(.*?) <b>(\d+)', listed)[:2] == [("likely", "80"), ("uncertain", "40")]


def said(outcome, found, **fields):
    standing = standing_outcome(outcome, found)
    return make_job(declared_outcome=outcome, found_outcome=found, outcome=standing, **fields)


def test_a_job_called_failed_whose_log_ends_well_says_so_first(client, ada):
    attempt = make_attempt(said("failed", "succeeded", slug="doubtful"))
    diagnosis_store(attempt=attempt, revision=1, report=healthy())
    page = page_text(client.get(reverse("job", args=["doubtful"])))
    assert "Its uploader says that it failed, but its evidence ends well" in page
    assert page.index("Said: failed. Found: succeeded.") < page.index("Events")
    assert "Nothing failed:" not in page
    listed = page_text(client.get(reverse("jobs"), {"outcome": "disputed"}))
    assert re.search(r"failed</span> <span class=.chip attention.", listed), "the stated outcome stands"
    assert "found succeeded" in listed


def test_an_incident_of_a_job_called_succeeded_shows_both(client, ada, incident):
    incident.job.declared_outcome = "succeeded"
    incident.job.save()
    sentence = "Its uploader says that it succeeded, but its evidence shows that it failed."
    assert sentence in page_text(client.get(reverse("incident", args=[incident.pk])))
    assert f"- {sentence}" in page_text(client.get(reverse("incident-markdown", args=[incident.pk])))


@pytest.mark.parametrize(("outcome", "found"), [("failed", "failed"), ("unknown", "failed"), ("failed", "unknown")])
def test_who_agrees_or_says_nothing_is_not_contradicted(client, ada, outcome, found):
    said(outcome, found, slug="clear")
    assert 'data-testid="disagreement"' not in page_text(client.get(reverse("job", args=["clear"])))
    assert "No job matches" in page_text(client.get(reverse("jobs"), {"outcome": "disputed"}))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("rank_5 of gpu_node_02 failed", "rank_5 of gpu_node_02 failed"),
        ("[rank5]: <b>no</b> space", "`[rank5]: <b>no</b>` space"),
        ("at __w/pytorch and `x`", "at `__w/pytorch` and `'x'`"),
        ("@channel *now*\n# no heading", "`@channel *now* #` no heading"),
    ],
)
def test_markdown_for_chats_shows_words_as_they_are_without_backslashes(text, written):
    assert _escape_markup(text) == written


def test_instead_of_a_suspect_every_node_that_the_evidence_names_is_offered(ada, incident):
    named = [name for row in sample()["logs"]["events"] for name in row.get("node_names") or []]
    names = incident_view(ada, incident).names
    assert names[:2] == ["gpu-0412", "gpu-0413"]  # in the order of their scores
    assert set(named) <= set(names)
    assert len(names) == len(set(names))

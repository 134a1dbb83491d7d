"""Decisions of people: made, changed, undone; never lost."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.factories import make_incident, make_user
from triage.models import Activity, Decision, GroupRule, Incident
from triage.services import reviewing, reviewing_many
from triage.services.grouping import incidents_merge, incidents_split
from triage.services.reviewing import ReviewError, decision_make, decision_undo, incident_act
from triage.services.reviewing_many import incidents_assign, incidents_decide
from triage.services.undoing import act_undo

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return make_user("ada", "engineer")


@pytest.fixture
def incident():
    return make_incident(accused=("gpu-7",), stage="training", iteration=12)


def test_confirming_the_category_confirms_the_incident(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada, reason="matches DCGM")
    incident.refresh_from_db()
    assert incident.state == Incident.State.CONFIRMED
    assert incident.reviewed_at is not None
    row = Activity.objects.get(kind="decided")
    assert (row.actor, row.data["reason"], row.data["after"]) == (ada, "matches DCGM", "hardware.gpu.off_bus")


def test_a_correction_stands_and_undo_brings_back_the_word_before_it(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    second = decision_make(incident=incident, claim="category", word="correct", value="hardware.gpu.ecc", by=ada)
    incident.refresh_from_db()
    assert (incident.state, incident.standing_category) == ("corrected", "hardware.gpu.ecc")
    decision_undo(decision=second, by=ada)
    incident.refresh_from_db()
    assert (incident.state, incident.standing_category) == ("confirmed", "hardware.gpu.off_bus")
    assert incident.decisions.count() == 2
    assert Activity.objects.filter(kind="undone").count() == 1


def test_undoing_the_only_word_awaits_review_again(ada, incident):
    decision_undo(decision=decision_make(incident=incident, claim="category", word="reject", by=ada), by=ada)
    incident.refresh_from_db()
    assert (incident.state, incident.reviewed_at) == ("awaiting_review", None)


def test_undoing_twice_is_refused(ada, incident):
    decision = decision_make(incident=incident, claim="category", word="reject", by=ada)
    decision_undo(decision=decision, by=ada)
    with pytest.raises(ReviewError, match="already undone"):
        decision_undo(decision=decision, by=ada)


def test_a_word_on_a_suspect_leaves_the_state_alone(ada, incident):
    decision_make(incident=incident, claim="suspect", subject="gpu-7", word="correct", value="gpu-8", by=ada)
    incident.refresh_from_db()
    assert incident.state == Incident.State.AWAITING_REVIEW
    assert incident.decisions.get().machine_value == "gpu-7"


def test_a_word_on_a_suspect_does_not_reopen_a_resolved_incident(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    incident_act(incident=incident, act="resolved", by=ada)
    decision_make(incident=incident, claim="suspect", subject="gpu-7", word="confirm", by=ada)
    incident.refresh_from_db()
    assert incident.state == Incident.State.RESOLVED
    assert incident.resolved_at is not None


@pytest.mark.parametrize(
    ("claim", "word", "value", "said"),
    [
        ("category", "correct", "", "needs the right value"),
        ("category", "correct", "hardware.gpu.off_bus", "confirm it instead"),
        ("category", "correct", "hardware.teapot", "no category"),
        ("stage", "correct", "lunch", "no stage"),
        ("iteration", "correct", "many", "whole number"),
        ("colour", "confirm", "", "no claim"),
        ("category", "maybe", "", "no word"),
        ("suspect", "confirm", "", "Name the suspect"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(ada, incident, claim, word, value, said):
    with pytest.raises(ReviewError, match=said):
        decision_make(incident=incident, claim=claim, word=word, value=value, by=ada)
    assert not incident.decisions.exists()


def test_stage_and_iteration_can_be_corrected(ada, incident):
    decision_make(incident=incident, claim="stage", word="correct", value="evaluation", by=ada)
    decision_make(incident=incident, claim="iteration", word="correct", value="13", by=ada)
    assert {d.value for d in incident.decisions.all()} == {"evaluation", "13"}


def test_resolving_needs_a_verdict_first(ada, incident):
    with pytest.raises(ReviewError, match="Say first"):
        incident_act(incident=incident, act="resolved", by=ada)


def test_snoozing_needs_a_time_to_come(ada, incident):
    with pytest.raises(ReviewError, match="future"):
        incident_act(incident=incident, act="snoozed", by=ada, until=timezone.now() - timedelta(hours=1))
    incident_act(incident=incident, act="snoozed", by=ada, until=timezone.now() + timedelta(hours=1))
    incident.refresh_from_db()
    assert incident.snoozed_until > timezone.now()


def test_an_act_of_two_words_on_one_incident_is_undone_on_one_incident(ada):
    incident = make_incident(accused=("gpu-0412",))
    request_id = uuid.uuid4()
    decision_make(incident=incident, claim="category", word="confirm", by=ada, request_id=request_id)
    decision_make(incident=incident, claim="suspect", subject="gpu-0412", word="confirm", by=ada, request_id=request_id)
    assert act_undo(request_id=request_id, by=ada) == 1
    assert not incident.decisions.filter(undone_at=None).exists()


def test_a_bulk_act_is_one_act_and_is_undone_as_one(ada):
    rows = [make_incident() for _ in range(3)]
    request_id, count = incidents_decide(incidents=rows, word="confirm", by=ada)
    assert count == 3
    assert Incident.objects.filter(state="confirmed").count() == 3
    assert act_undo(request_id=request_id, by=ada) == 3
    assert Incident.objects.filter(state="awaiting_review").count() == 3
    assert act_undo(request_id=request_id, by=ada) == 0


@pytest.mark.parametrize("word", ["confirm", "reject", "inconclusive"])
def test_many_are_judged_as_one_by_one_is(ada, word):
    one, other = make_incident(category="hardware.gpu.ecc"), make_incident(category="hardware.gpu.ecc")
    for incident in (one, other):
        decision_make(incident=incident, claim="category", word="correct", value="network.link_down", by=ada)
    decision_make(incident=one, claim="category", word=word, by=ada, reason=" seen ")
    incidents_decide(incidents=[other], word=word, by=ada, reason=" seen ")
    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.state, one.standing_category) == (other.state, other.standing_category)
    assert other.reviewed_at
    told = [incident.activities.order_by("pk").last().data for incident in (one, other)]
    assert [{**row, "decision": 0} for row in told] == [{**told[0], "decision": 0}] * 2
    said = [incident.decisions.order_by("pk").last() for incident in (one, other)]
    assert said[0].value == said[1].value and said[1].machine_value == "hardware.gpu.ecc"


def test_many_are_judged_or_assigned_in_few_queries(ada, django_assert_max_num_queries):
    rows = [make_incident() for _ in range(40)]
    with django_assert_max_num_queries(16):
        incidents_decide(incidents=rows, word="confirm", by=ada)
    with django_assert_max_num_queries(12):
        request_id, count = incidents_assign(incidents=rows, assignee=ada, by=ada)
    assert count == Incident.objects.filter(assignee=ada, state="confirmed").count() == 40
    assert act_undo(request_id=request_id, by=ada) == 40
    assert not Incident.objects.filter(assignee=ada).exists()


def test_many_are_judged_all_or_none(ada, monkeypatch):
    rows = [make_incident() for _ in range(3)]
    monkeypatch.setattr(reviewing_many, "acts_log", lambda acts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        incidents_decide(incidents=rows, word="confirm", by=ada)
    assert Incident.objects.filter(state="awaiting_review").count() == 3
    assert not Decision.objects.exists()


def test_somebody_else_cannot_undo_ones_act(ada, incident):
    request_id, _ = incidents_decide(incidents=[incident], word="reject", by=ada)
    assert act_undo(request_id=request_id, by=make_user("bob", "engineer")) == 0


def test_confirming_one_incident_never_confirms_its_twin(ada):
    first, twin = make_incident(fingerprint="aa"), make_incident(fingerprint="aa")
    decision_make(incident=first, claim="category", word="confirm", by=ada)
    twin.refresh_from_db()
    assert twin.state == Incident.State.AWAITING_REVIEW


def test_a_comment_is_kept_and_an_empty_one_refused(ada, incident):
    reviewing.comment_add(incident=incident, body="  looks **bad**  ", by=ada)
    assert Activity.objects.get(kind="commented").data["body"] == "looks **bad**"
    with pytest.raises(ReviewError, match="empty"):
        reviewing.comment_add(incident=incident, body="  ", by=ada)


def test_any_number_of_incidents_merges_and_their_old_groups_come_along(ada):
    a, b, c, d = (make_incident(fingerprint=letter) for letter in "abcd")
    incidents_merge(incidents=[a, b], by=ada)
    group = incidents_merge(incidents=[b, c, d], by=ada, title="One cause")
    assert group.incidents.count() == 4
    assert group.title == "One cause"


def test_a_single_incident_is_no_group(ada, incident):
    with pytest.raises(ReviewError, match="two"):
        incidents_merge(incidents=[incident, incident], by=ada)


def test_the_last_of_a_fingerprint_to_leave_keeps_it_apart(ada):
    a, b = make_incident(fingerprint="aa"), make_incident(fingerprint="bb")
    group = incidents_merge(incidents=[a, b], by=ada)
    assert incidents_split(incidents=[b], by=ada) == 1
    assert list(group.incidents.all()) == [a]
    assert group.rules.model.objects.filter(fingerprint="bb").last().group is None


@pytest.mark.parametrize("act", ["actioned", "resolved", "reopened", "snoozed"])
def test_every_act_on_an_incident_can_be_taken_back(ada, incident, act):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    incident_act(incident=incident, act="resolved" if act == "reopened" else "actioned", by=ada)
    incident.refresh_from_db()
    fields = ("state", "resolved_at", "repaired_s", "snoozed_until")
    before = {name: getattr(incident, name) for name in fields}
    request_id, until = uuid.uuid4(), timezone.now() + timedelta(hours=4)
    incident_act(incident=incident, act=act, by=ada, until=until, request_id=request_id)
    undone = act_undo(request_id=request_id, by=ada)
    incident.refresh_from_db()
    assert {name: getattr(incident, name) for name in fields} == before
    assert undone == (0 if act == "actioned" else 1)  # it was actioned already: nothing to take back
    assert act_undo(request_id=request_id, by=ada) == 0


def test_an_act_that_somebody_followed_up_is_not_taken_back(ada, incident):
    decision_make(incident=incident, claim="category", word="confirm", by=ada)
    request_id = uuid.uuid4()
    incident_act(incident=incident, act="actioned", by=ada, request_id=request_id)
    incident_act(incident=incident, act="resolved", by=make_user("bob", "engineer"))
    assert act_undo(request_id=request_id, by=ada) == 0
    incident.refresh_from_db()
    assert incident.state == Incident.State.RESOLVED


def test_a_merge_taken_back_restores_groups_and_where_new_ones_go(ada):
    a, b, c = (make_incident(fingerprint=letter) for letter in "abc")
    first = incidents_merge(incidents=[a, b], by=ada)
    request_id = uuid.uuid4()
    incidents_merge(incidents=[b, c], by=ada, request_id=request_id)
    assert act_undo(request_id=request_id, by=ada) == 3
    assert {row.pk for row in first.incidents.all()} == {a.pk, b.pk}
    c.refresh_from_db()
    assert c.group is None
    last = {row.fingerprint: row.group_id for row in GroupRule.objects.order_by("pk")}
    assert last == {"a": first.pk, "b": first.pk, "c": None}


def test_a_merge_taken_back_leaves_what_somebody_grouped_again_since(ada):
    grace = make_user("grace", "engineer")
    a, b, d = (make_incident(fingerprint=letter) for letter in "abd")
    request_id = uuid.uuid4()
    incidents_merge(incidents=[a, b], by=ada, request_id=request_id)
    b.refresh_from_db()
    incidents_split(incidents=[b], by=grace)
    b.refresh_from_db()
    later = incidents_merge(incidents=[b, d], by=grace)
    assert act_undo(request_id=request_id, by=ada) == 1
    a.refresh_from_db()
    b.refresh_from_db()
    assert (a.group, b.group) == (None, later)
    last = {row.fingerprint: row.group_id for row in GroupRule.objects.order_by("pk")}
    assert last == {"a": None, "b": later.pk, "d": later.pk}, "new ones go where the last word says"


def test_a_split_of_several_taken_back_puts_them_together_again(ada):
    rows = [make_incident(fingerprint=letter) for letter in "abcd"]
    group = incidents_merge(incidents=rows, by=ada)
    request_id = uuid.uuid4()
    assert incidents_split(incidents=rows[1:], by=ada, request_id=request_id) == 3
    assert act_undo(request_id=request_id, by=ada) == 3
    assert group.incidents.count() == 4
    assert {row.fingerprint: row.group_id for row in GroupRule.objects.order_by("pk")} == dict.fromkeys(
        "abcd", group.pk
    )


def test_many_are_taken_back_merged_and_split_in_few_queries(ada, django_assert_max_num_queries):
    rows = [make_incident(fingerprint=f"{n:02d}") for n in range(60)]
    undo, _ = incidents_decide(incidents=rows, word="reject", by=ada)
    with django_assert_max_num_queries(24):
        assert act_undo(request_id=undo, by=ada) == 60
    assert Incident.objects.filter(state="awaiting_review", reviewed_at=None).count() == 60
    undo, _ = incidents_assign(incidents=rows, assignee=ada, by=ada)
    with django_assert_max_num_queries(24):
        assert act_undo(request_id=undo, by=ada) == 60
    merged, split = uuid.uuid4(), uuid.uuid4()
    with django_assert_max_num_queries(24):
        group = incidents_merge(incidents=rows, by=ada, request_id=merged)
    with django_assert_max_num_queries(24):
        assert incidents_split(incidents=rows, by=ada, request_id=split) == 60
    with django_assert_max_num_queries(24):
        assert act_undo(request_id=split, by=ada) == 60
    assert group.incidents.count() == 60
    assert {rule.group for rule in standing_rules().values()} == {group}
    with django_assert_max_num_queries(24):
        assert act_undo(request_id=merged, by=ada) == 60
    assert group.incidents.count() == 0
    assert {rule.group for rule in standing_rules().values()} == {None}


def standing_rules():
    """The last word on each fingerprint."""
    return {rule.fingerprint: rule for rule in GroupRule.objects.order_by("pk")}


def test_taking_many_back_leaves_what_came_after_and_says_what_it_did(ada):
    one, corrected = make_incident(), make_incident()
    decision_make(incident=corrected, claim="category", word="correct", value="network.link_down", by=ada)
    undo, _ = incidents_decide(incidents=[one, corrected], word="confirm", by=ada)
    bob = make_user("bob", "engineer")
    decision_undo(decision=one.decisions.get(), by=bob)
    assert act_undo(request_id=undo, by=ada) == 1
    corrected.refresh_from_db()
    assert (corrected.state, corrected.standing_category) == ("corrected", "network.link_down")
    told = corrected.activities.order_by("pk").last()
    assert (told.kind, told.actor, told.data["after"], told.data["word"]) == (
        "undone",
        ada,
        "network.link_down",
        "confirm",
    )
    assert one.activities.filter(kind="undone").get().actor == bob
    assert corrected.decisions.order_by("pk").last().undone_by == ada


def test_a_rejected_category_is_unknown_until_somebody_says_what_it_was(ada):
    incident = make_incident(category="hardware.gpu.ecc")

    def stands():
        incident.refresh_from_db()
        return incident.state, incident.standing_category, incident.category

    rejected = decision_make(incident=incident, claim="category", word="reject", by=ada)
    assert stands() == ("rejected", "unknown", "hardware.gpu.ecc")
    decision_undo(decision=rejected, by=ada)
    assert stands() == ("awaiting_review", "hardware.gpu.ecc", "hardware.gpu.ecc")
    undo, _ = incidents_decide(incidents=[incident], word="reject", by=ada)
    assert stands() == ("rejected", "unknown", "hardware.gpu.ecc")
    incident_act(incident=incident, act="resolved", by=ada)
    assert stands() == ("resolved", "unknown", "hardware.gpu.ecc")
    decision_make(incident=incident, claim="category", word="correct", value="network.link_down", by=ada)
    assert stands() == ("corrected", "network.link_down", "hardware.gpu.ecc")
    assert act_undo(request_id=undo, by=ada) == 1
    assert stands() == ("corrected", "network.link_down", "hardware.gpu.ecc")

"""Sums that are kept by week: after every act they equal a new sum over everything."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.triage.report import T0, healthy, sample
from triage.models import Activity, Incident
from triage.selectors.memory import acts_since
from triage.selectors.sums import Period, pieces_of
from triage.services import reviewing, reviewing_many
from triage.services.diagnosing import diagnosis_store
from triage.services.importing import Fault, faults_import
from triage.services.ownership import team_follow

pytestmark = pytest.mark.django_db

HAPPENED = datetime.fromtimestamp(T0 + 500, UTC)
PERIOD = Period((HAPPENED - timedelta(days=30)).date(), (HAPPENED + timedelta(days=3)).date())


def told(pieces):
    return pieces.now, {week: list(map(float, values)) for week, values in pieces.before.items()}


class Kept:
    """What is kept from one look to the next, checked against all of it added up anew."""

    def __init__(self, by="team"):
        self.by = by
        self.pieces = self.anew()

    def anew(self):
        return pieces_of(Incident.objects.filter(is_withdrawn=False), PERIOD, self.by)

    def look(self):
        before, anew = self.pieces, self.anew()
        self.pieces = pieces_of(Incident.objects.filter(is_withdrawn=False), PERIOD, self.by, before)
        assert told(self.pieces) == told(anew)
        return told(self.pieces) != told(before)


@pytest.fixture
def ada():
    return make_user("ada", "engineer", "manager")


@pytest.fixture
def incident():
    for days in (1, 8, 16, 40):
        make_incident(at=HAPPENED - timedelta(days=days), gpu_hours=2.0, accused=("gpu-7",))
    return Incident.objects.order_by("-happened_at").first()


def test_words_and_acts_of_people_change_the_week_of_their_incident(ada, incident):
    kept = Kept()
    word = reviewing.decision_make(incident=incident, claim="category", word="confirm", by=ada)
    assert kept.look()
    reviewing.incident_act(incident=incident, act="resolved", by=ada)
    assert kept.look()
    reviewing.incident_act(incident=incident, act="reopened", by=ada)
    assert kept.look()
    reviewing.decision_undo(decision=word, by=ada)
    assert kept.look()
    others = list(Incident.objects.exclude(pk=incident.pk))
    reviewing_many.incidents_decide(incidents=others, word="reject", by=ada)
    assert kept.look()
    reviewing.decision_make(incident=others[-1], claim="category", word="correct", value="network.link_down", by=ada)
    assert kept.look()


def test_only_the_week_of_the_incident_is_added_up_again(ada, incident):
    kept = Kept()
    before = kept.pieces
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=ada)
    assert kept.look()
    assert len(before.now) == 3
    assert [week for week, piece in kept.pieces.now.items() if piece is not before.now.get(week)] == [incident.week]


def test_what_changes_nothing_is_not_added_up_at_all(ada, incident, django_assert_num_queries):
    seen = Incident.objects.filter(is_withdrawn=False)
    pieces = pieces_of(seen, PERIOD, "team")
    with django_assert_num_queries(1):
        assert pieces_of(seen, PERIOD, "team", pieces) is pieces
    Activity.objects.create(kind="rule_saved", actor=ada)
    with django_assert_num_queries(2):
        pieces_of(seen, PERIOD, "team", pieces)


def test_a_new_diagnosis_moves_an_incident_to_another_week_and_one_without_failure_takes_it_away(incident):
    kept, attempt = Kept(), make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    assert kept.look()
    moved = sample()
    moved["conclusion"]["moment"]["t"] = T0 - 9 * 86_400
    diagnosis_store(attempt=attempt, revision=2, report=moved)
    assert kept.look()
    diagnosis_store(attempt=attempt, revision=3, report=healthy())
    assert kept.look()


def test_imports_and_teams_change_many_incidents_at_once(ada, incident):
    kept, cluster = Kept(), make_cluster("trace")
    fault = Fault(node="n1", description="ECC", started_at=HAPPENED - timedelta(days=12), ended_at=HAPPENED)
    faults_import(cluster=cluster, slug="trace", faults=[fault], user=ada)
    assert kept.look()
    incident.job.team = make_team("pretraining")
    incident.job.save()
    team_follow(job=incident.job)
    assert kept.look()


def test_an_act_that_was_overtaken_by_a_later_number_counts_too(incident):
    last = Activity.objects.create(pk=5000, incident=incident, kind="commented")
    kept = Kept()
    late = make_incident(at=HAPPENED - timedelta(days=2))
    Activity.objects.create(pk=last.pk - 20, incident=late, kind="diagnosed")
    assert kept.look()


def test_an_act_that_was_stored_late_is_new_and_those_after_it_are_not(ada):
    early, late, newest = (Activity.objects.create(kind=kind, actor=ada) for kind in ("a", "b", "c"))
    acts = Activity.objects.all()
    fresh, known = acts_since(acts, {early.pk, newest.pk}, ("kind",))
    assert [kind for (kind,) in fresh] == ["b"]
    assert {early.pk, late.pk, newest.pk} <= known
    assert acts_since(acts, known, ("kind",)) == ([], known)

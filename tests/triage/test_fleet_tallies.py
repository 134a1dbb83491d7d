"""Tallies of machines that are kept by change: after every act they equal a new sum over everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from ingest.models import Node
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_user
from tests.triage.report import sample
from triage.models import Activity
from triage.selectors.fleet_tallies import fleet_tallies, tallies_of
from triage.services import reviewing, reviewing_many
from triage.services.diagnosing import diagnosis_store
from triage.services.importing import Fault, faults_import

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 28, 10, 30, tzinfo=UTC)
SINCE = NOW - timedelta(days=28)


@pytest.fixture
def ada():
    return make_user("ada", "engineer", "manager")


def kept(user):
    """The kept tallies by the names of the machines, which equal new ones."""
    tallies = fleet_tallies(user, NOW)
    anew = tallies_of(Node.objects.values("pk"), SINCE)
    assert {pk: tuple(tally) for pk, tally in tallies.items()} == {pk: tuple(tally) for pk, tally in anew.items()}
    names = dict(Node.objects.values_list("pk", "name"))
    return {names[pk]: tally.accusations for pk, tally in tallies.items()}


def accusing(*names):
    report = sample()
    first = report["conclusion"]["fault"][0]
    report["conclusion"]["fault"] = [{**first, "name": name} for name in names]
    return report


def test_words_of_people_change_the_machines_of_their_incidents(ada):
    make_incident(accused=("n1",), at=NOW - timedelta(days=60))
    first = make_incident(accused=("n1", "n2"), at=NOW - timedelta(days=2), gpu_hours=3)
    second = make_incident(accused=("n3",), at=NOW - timedelta(days=1))
    assert kept(ada) == {"n1": 2, "n2": 1, "n3": 1}
    word = reviewing.decision_make(incident=first, claim="suspect", subject="n1", word="reject", by=ada)
    assert kept(ada) == {"n1": 1, "n2": 1, "n3": 1}
    reviewing.decision_undo(decision=word, by=ada)
    assert kept(ada) == {"n1": 2, "n2": 1, "n3": 1}
    reviewing_many.incidents_decide(incidents=[first, second], word="reject", by=ada)
    assert kept(ada) == {"n1": 1}


def test_a_new_diagnosis_that_accuses_another_machine_takes_the_accusation_from_the_former_one(ada):
    attempt = make_attempt(make_job("llama"))
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        Node.objects.create(cluster=attempt.job.cluster, name=name)
    diagnosis_store(attempt=attempt, revision=1, report=accusing("gpu-1", "gpu-2"))
    assert kept(ada) == {"gpu-1": 1, "gpu-2": 1}
    diagnosis_store(attempt=attempt, revision=2, report=accusing("gpu-2", "gpu-3"))
    assert Activity.objects.get(data__revision=2).data["former_nodes"] == [Node.objects.get(name="gpu-1").pk]
    assert kept(ada) == {"gpu-2": 1, "gpu-3": 1}


def test_an_import_changes_all(ada):
    cluster = make_cluster("trace")
    make_incident(accused=("n1",), at=NOW)
    assert kept(ada) == {"n1": 1}
    fault = Fault(node="n9", description="ECC", started_at=NOW - timedelta(days=3), ended_at=NOW)
    faults_import(cluster=cluster, slug="trace", faults=[fault], user=ada)
    assert kept(ada) == {"n1": 1, "n9": 1}


def test_what_changes_nothing_is_not_summed_and_an_act_reads_the_machines_of_its_job(ada, django_assert_num_queries):
    incident = make_incident(accused=("n1",), at=timezone.now())
    make_incident(accused=("n2",), at=timezone.now())
    fleet_tallies(ada, NOW)
    with django_assert_num_queries(1):
        fleet_tallies(ada, NOW)
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=ada)
    with django_assert_num_queries(4):
        fleet_tallies(ada, NOW)

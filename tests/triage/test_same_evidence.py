"""The same evidence in two jobs is one: counted once, by whatever paths and names it came."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_user
from tests.pages import page_text
from tests.triage.report import T0, sample
from triage import search
from triage.models import Incident
from triage.selectors.nodes import fleet_page
from triage.selectors.statistics import Period, statistics_of
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db
HAPPENED = datetime.fromtimestamp(T0 + 500, UTC)
PERIOD = Period(HAPPENED.date(), HAPPENED.date())


def sent(slug, *, path="logs/gpu-0412.log", digest="ab", **fields):
    """A job whose only file has this digest."""
    report = copy.deepcopy(sample())
    report["inputs"] = [{**report["inputs"][0], "path": path, "sha256": digest * 32}]
    attempt = make_attempt(make_job(slug, **fields))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    return attempt.incidents.get()


def total():
    user = make_user(f"boss{Incident.objects.count()}", "manager")
    return statistics_of(user=user, query=search.parse(""), period=PERIOD, now=HAPPENED + timedelta(hours=1)).total


def test_the_second_upload_is_the_first_ones_duplicate(client):
    first, again, other = sent("first"), sent("again", path="copy/x.log"), sent("other", digest="cd")
    assert (first.duplicate_of, again.duplicate_of, other.duplicate_of) == (None, first, None)
    assert total() == 2
    client.force_login(make_user("eng", "engineer"))
    page = page_text(client.get(reverse("job", args=["again"])))
    notice = page.partition('data-testid="duplicate"')[2].partition("</div>")[0]
    assert 'href="/jobs/first/"' in notice and "delete this job" in notice
    assert 'data-testid="duplicate"' not in page_text(client.get(reverse("job", args=["first"])))


def test_a_node_is_accused_once_by_the_same_evidence():
    sent("first"), sent("again")
    (row,) = fleet_page(make_user("ada", "engineer"), now=HAPPENED + timedelta(hours=1)).rows
    assert (row.accusations, row.recent) == (1, 1)


def test_a_diagnosis_again_keeps_what_is_counted():
    first, again = sent("first"), sent("again")
    report = sample()
    diagnosis_store(attempt=first.attempt, revision=2, report=report)
    first.refresh_from_db()
    assert first.duplicate_of is None
    first.job.delete()
    again.refresh_from_db()
    assert again.duplicate_of is None
    assert total() == 1


def test_other_clusters_count_for_themselves():
    sent("first")
    assert sent("again", cluster=make_cluster("other")).duplicate_of is None


def test_a_doubtful_accusation_weighs_less_than_a_sure_one():
    now = HAPPENED + timedelta(hours=1)
    for node, score in (("doubtful", 0.35), ("certain", 0.96)):
        incident = make_incident(make_job(node), accused=(node,), at=HAPPENED)
        incident.suspects.update(score=score)
    lemons = {row.node.name: row.lemon for row in fleet_page(make_user("ada", "engineer"), now=now).rows}
    assert 2 * lemons["doubtful"] < lemons["certain"]

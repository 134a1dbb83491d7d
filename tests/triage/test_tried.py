"""What was done about an incident: recorded, undone, and the effect on the advice."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks import simulate
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import INCIDENT_QUERIES, page_text
from tests.triage.report import sample
from triage.models import Activity, Incident
from triage.services.diagnosing import diagnosis_store
from triage.services.reviewing import ReviewError
from triage.services.tried import MAX_TARGETS, tried_record, tried_undo

pytestmark = pytest.mark.django_db

EVICT = {"action": "evict", "outcome": "failed_again", "targets": "gpu-0412", "reason": "Xid 79 came back elsewhere"}


def incident_of(job, number=0, **changes):
    attempt = make_attempt(job, number=number)
    diagnosis_store(attempt=attempt, revision=1, report={**sample(), **changes})
    return attempt.incidents.get()


@pytest.fixture
def incident():
    return incident_of(make_job("llama"))


def advice_on(client, incident):
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    return page.partition('data-testid="advice"')[2].partition("</div>")[0]


def test_an_eviction_that_failed_again_moves_the_advice_to_the_next_rung(client, ada, incident):
    assert "<b>Evict</b>" in advice_on(client, incident)
    page = page_text(client.post(reverse("incident-tried", args=[incident.pk]), EVICT, follow=True))
    assert "Recorded on" in page
    assert "recorded evict (gpu-0412): failed again" in page
    assert "<q>Xid 79 came back elsewhere</q>" in page
    told = advice_on(client, incident)
    assert "<b>Stop-time checks</b>" in told
    assert "Already tried without success: Evict (gpu-0412)." in told
    row = Activity.objects.get(kind="tried")
    assert (row.actor, row.job, row.data["targets"]) == (ada, incident.job, ["gpu-0412"])


@pytest.mark.parametrize("outcome", ["helped", "open"])
def test_what_helped_or_is_open_is_shown_and_leaves_the_advice(client, ada, incident, outcome):
    client.post(reverse("incident-tried", args=[incident.pk]), {**EVICT, "outcome": outcome})
    assert "<b>Evict</b>" in advice_on(client, incident)
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    assert 'data-testid="tried"' in page


def test_a_record_is_taken_back_once_by_a_further_act(client, ada, incident):
    client.post(reverse("incident-tried", args=[incident.pk]), EVICT)
    row = Activity.objects.get(kind="tried")
    url = reverse("incident-tried-undo", args=[incident.pk, row.pk])
    page = page_text(client.post(url, follow=True))
    assert "undid the record of evict (gpu-0412)" in page
    assert "<b>Evict</b>" in advice_on(client, incident)
    assert Activity.objects.filter(kind="tried").count() == 1
    assert "already undone" in page_text(client.post(url, follow=True))
    assert Activity.objects.filter(kind="untried").count() == 1


def test_the_message_offers_the_undo(client, ada, incident):
    client.post(reverse("incident-tried", args=[incident.pk]), EVICT)
    request_id = Activity.objects.get(kind="tried").request_id
    client.post(reverse("undo", args=[request_id]))
    assert "<b>Evict</b>" in advice_on(client, incident)


def test_what_failed_on_an_earlier_attempt_counts_for_the_next_of_the_same_kind(client, ada, incident):
    tried_record(incident=incident, by=ada, **EVICT)
    later = incident_of(incident.job, number=1)
    assert "<b>Stop-time checks</b>" in advice_on(client, later)
    page = page_text(client.get(reverse("incident", args=[later.pk])))
    assert f"attempt 0, #{incident.pk}" in page
    assert "<b>Stop-time checks</b>" in advice_on(client, incident)
    code = {"category": "user", "subcategory": "type_error", "id": "user.exception"}
    different = incident_of(incident.job, number=2, conclusion=sample()["conclusion"] | code)
    assert "Already tried" not in advice_on(client, different)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "reboot the sun"}, "choose one of evict"),
        ({"action": "ask_human"}, "choose one of evict"),
        ({"outcome": "maybe"}, "no outcome"),
        ({"targets": " ".join(f"n{i}" for i in range(MAX_TARGETS + 1))}, "at most 512 are kept"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(client, ada, incident, given, said):
    page = client.post(reverse("incident-tried", args=[incident.pk]), {**EVICT, **given}, follow=True)
    assert said in page_text(page)
    assert not Activity.objects.filter(kind="tried").exists()


def test_only_a_record_of_an_action_can_be_taken_back(ada, incident):
    with pytest.raises(ReviewError, match="records no action"):
        tried_undo(row=incident.activities.get(kind="diagnosed"), by=ada)


def test_names_are_data_and_never_markup(client, ada, incident):
    client.post(reverse("incident-tried", args=[incident.pk]), {**EVICT, "targets": "<b>n1</b>,n2;n2 n3"})
    assert Activity.objects.get(kind="tried").data["targets"] == ["<b>n1</b>", "n2", "n3"]
    assert "<b>n1</b>" not in page_text(client.get(reverse("incident", args=[incident.pk])))


def test_viewers_may_not_record_and_strangers_find_nothing(client, incident):
    cluster = make_cluster("secret")
    hidden = make_incident(make_job("hidden", cluster=cluster))
    make_team("owners", clusters=[cluster])
    client.force_login(make_user("vic", "viewer"))
    assert client.post(reverse("incident-tried", args=[incident.pk]), EVICT).status_code == 403
    assert 'data-testid="record-action"' not in page_text(client.get(reverse("incident", args=[incident.pk])))
    client.force_login(make_user("eve", "engineer"))
    assert client.post(reverse("incident-tried", args=[hidden.pk]), EVICT).status_code == 404
    assert not Activity.objects.filter(kind="tried").exists()


def hang():
    """Ranks 0-7 on four nodes as the engine reports them; rank 5 is stuck and stalls its pipeline group."""
    case = simulate.hang({"tp": 1, "pp": 2, "dp": 4}, "tp-dp-pp", {5}, "kernel", per_node=2)
    return stacks_json(simulate.dumps(case))


def test_each_candidate_group_shows_what_evicting_it_takes_out(client, ada):
    accused = {"kind": "node", "name": "node-002", "rank": None, "p": 0.9, "from": ["stacks"], "reasons": []}
    conclusion = sample()["conclusion"] | {"fault": [accused]}
    advice = {"action": "over_evict", "targets": ["node-000", "node-002"], "rule": "over_evict.hang_group"}
    found = incident_of(make_job("hung"), stacks=hang(), conclusion=conclusion, advice=advice)
    page = page_text(client.get(reverse("incident", args=[found.pk])))
    table = page.partition('data-testid="eviction"')[2].partition("</table>")[0]
    rows = table.split("<tr>")[2:]
    assert "The suspects alone" in rows[0]
    assert "PP group 1/5" in rows[1]
    assert "advised" in rows[1]
    for label, value in (
        ("Ranks", "4"),
        ("GPUs idle", "16"),
        ("Probably healthy", "1 of 2"),
        ("Standbys it takes", "2"),
    ):
        assert f'data-label="{label}">{value}' in rows[1]


def test_without_anything_to_evict_there_is_no_table(client, ada):
    nobody = sample()["conclusion"] | {"fault": []}
    advice = {"action": "fix_input", "rule": "fix.input"}
    found = incident_of(make_job("plain"), conclusion=nobody, suspects=[], advice=advice)
    assert 'data-testid="eviction"' not in page_text(client.get(reverse("incident", args=[found.pk])))


def test_the_page_of_a_first_attempt_asks_nothing_more_for_its_advice(
    client, ada, incident, django_assert_max_num_queries
):
    tried_record(incident=incident, by=ada, **EVICT)
    with django_assert_max_num_queries(INCIDENT_QUERIES):
        client.get(reverse("incident", args=[incident.pk]))
    assert Incident.objects.get(pk=incident.pk).state == incident.state

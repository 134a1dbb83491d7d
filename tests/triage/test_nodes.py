"""The fleet table and a node's page."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from diagnosis.values.numbers import natural_key
from ingest.models import Node
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage.models import Activity, Incident, Suspect
from triage.selectors.nodes import SORTS, fleet_page, node_page
from triage.services.diagnosing import diagnosis_store
from triage.services.importing import Fault, faults_import
from triage.services.reviewing import decision_make, decision_undo
from triage.templatetags.statistics import lemon_bar

pytestmark = pytest.mark.django_db


@pytest.fixture
def engineer(client):
    user = make_user("eng", "engineer")
    client.force_login(user)
    return user


def fleet(user, **kwargs):
    return [row.node.name for row in fleet_page(user, now=timezone.now(), **kwargs).rows]


def test_the_most_accused_machine_of_late_comes_first(engineer):
    now = timezone.now()
    for _ in range(3):
        make_incident(accused=("old",), at=now - timedelta(days=60))
    for _ in range(2):
        make_incident(accused=("lemon",), at=now - timedelta(days=3))
    make_incident(accused=("once",), at=now)
    assert fleet(engineer) == ["lemon", "once", "old"]
    assert fleet(engineer, sort="accused") == ["old", "lemon", "once"]
    assert fleet(engineer, text="emo") == ["lemon"]


@pytest.mark.parametrize("sort", ["recent", "accused", "latest", "name"])
def test_the_pages_of_an_order_follow_each_other_and_equals_are_distinguished(engineer, monkeypatch, sort):
    rng, now, past = random.Random(sort), timezone.now(), {}
    for _ in range(40):
        name, days, state = f"n{rng.randrange(12)}", rng.choice((1, 20, 40, 90)), rng.choice(("rejected", "confirmed"))
        at = now - timedelta(days=days, minutes=rng.randrange(999))
        make_incident(accused=(name,), at=at, state=state, gpu_hours=1.5)
        past.setdefault(name, []).extend([(days, at)] if state == "confirmed" else [])
    orders = {
        "recent": lambda name: (-sum(days < 28 for days, _ in past[name]), -len(past[name]), natural_key(name)),
        "accused": lambda name: (-len(past[name]), natural_key(name)),
        "latest": lambda name: (-max((at.timestamp() for _, at in past[name]), default=0), natural_key(name)),
        "name": natural_key,
    }
    monkeypatch.setattr("triage.selectors.nodes.PAGE_SIZE", 5)
    pages = [fleet_page(engineer, sort=sort, page=n, now=now).rows for n in (1, 2, 3)]
    rows = [row for page in pages for row in page]
    assert [row.node.name for row in rows] == sorted(past, key=orders[sort])
    told = {row.node.name: (row.accusations, row.recent, row.gpu_hours or 0) for row in rows}
    assert told == {
        name: (len(was), sum(days < 28 for days, _ in was), pytest.approx(1.5 * len(was))) for name, was in past.items()
    }


def test_the_most_accused_are_ordered_by_what_still_counts(engineer):
    make_incident(accused=("twice",)), make_incident(accused=("twice",))
    first = make_incident(accused=("thrice",))
    for fields in ({"is_withdrawn": True}, {"state": "rejected"}, {"duplicate_of": first}):
        make_incident(accused=("thrice",), **fields)
    make_incident(accused=("never",), state="rejected")
    assert fleet(engineer, sort="accused", is_accused_only=False) == ["twice", "thrice", "never"]


def test_a_machine_that_was_not_accused_lately_comes_after_those_that_were(engineer):
    now = timezone.now()
    for name, days in (("old", 90), ("older", 200), ("new", 1)):
        make_incident(accused=(name,), at=now - timedelta(days=days))
    assert fleet(engineer, sort="latest") == ["new", "old", "older"]


@pytest.mark.parametrize("sort", ["recent", "accused", "name"])
def test_equals_are_in_the_order_in_which_people_count(engineer, sort):
    for number in (10, 9, 100, 1):
        make_incident(accused=(f"gpu-{number}",))
    assert fleet(engineer, sort=sort) == ["gpu-1", "gpu-9", "gpu-10", "gpu-100"]


def test_both_pages_show_the_same_figures_of_a_machine(client, engineer, monkeypatch):
    """Before, the page added up what it lists, and wrote 0.00 where the list has a dash."""
    monkeypatch.setattr("triage.selectors.nodes.MAX_ACCUSATIONS", 3)
    for number in range(5):
        make_incident(
            accused=("busy",), category="hardware.gpu.ecc", gpu_hours=2, at=timezone.now() - timedelta(number)
        )
    assert told(engineer, "busy") == (5, 0, 0.79)  # each with its probability of .9: 1 - exp(-5 * 0.9 * (0.15 + 0.2))
    page = page_text(client.get(reverse("node", args=["busy"])))
    assert node_page(engineer, "busy", now=timezone.now()).categories == [("hardware.gpu.ecc", 5)]
    assert "The latest 3" in page
    cleared = make_incident(accused=("cleared",))
    say(cleared, engineer, "reject")
    figures = page_text(client.get(reverse("node", args=["cleared"]))).partition('class="figures"')[2]
    row = page_text(client.get(reverse("nodes"))).partition(">cleared</a>")[2].partition("</tr>")[0]
    for part in (figures.partition("</dl>")[0], row):
        assert "0.00" not in part and "–" in part


def test_machines_never_accused_show_only_when_asked_for(engineer):
    make_incident(accused=("bad",))
    Node.objects.create(cluster=make_cluster(), name="good")
    assert fleet(engineer) == ["bad"]
    assert sorted(fleet(engineer, is_accused_only=False)) == ["bad", "good"]


def say(incident, engineer, word, claim="suspect"):
    subject = incident.accused[0] if claim == "suspect" else ""
    return decision_make(incident=incident, claim=claim, subject=subject, word=word, by=engineer)


def told(engineer, name="n1"):
    """What both pages say of a machine: accusations of 28 days, confirmed ones, and the score."""
    page = node_page(engineer, name, now=timezone.now())
    row = next(row for row in fleet_page(engineer, now=timezone.now()).rows if row.node.name == name)
    assert row == page.row
    return row.recent, row.confirmed, round(row.lemon, 2)


def test_a_rejected_incident_does_not_count_against_a_machine(engineer):
    say(make_incident(accused=("n1",)), engineer, "reject", claim="category")
    make_incident(accused=("n1",))
    assert told(engineer)[:2] == (1, 0)


def test_a_word_on_the_category_convicts_no_machine(engineer):
    """One accusation of .9, unreviewed and alone: 1 - exp(-0.9 * (0.15 + 0.2)) = 0.27; confirmed: 1 - exp(-0.5 - 0.2)
    = 0.50.
    """
    incident = make_incident(accused=("n1",))
    assert told(engineer) == (1, 0, 0.27)
    say(incident, engineer, "confirm", claim="category")
    assert told(engineer) == (1, 0, 0.27)
    word = say(incident, engineer, "confirm")
    assert told(engineer) == (1, 1, 0.5)
    decision_undo(decision=word, by=engineer)
    assert told(engineer) == (1, 0, 0.27)


def test_an_accusation_with_others_counts_less_than_one_alone_on_both_pages(engineer):
    make_incident(accused=("n1", "n2"))
    assert told(engineer) == (1, 0, 0.13)


@pytest.mark.parametrize("word", ["reject", "correct"])
def test_a_machine_that_a_human_cleared_is_accused_no_more(engineer, word):
    incident = make_incident(accused=("n1",))
    value = "n2" if word == "correct" else ""
    decision_make(incident=incident, claim="suspect", subject="n1", word=word, value=value, by=engineer)
    page = node_page(engineer, "n1", now=timezone.now())
    row = fleet_page(engineer, now=timezone.now()).rows[0]
    assert page.accusations[0].word == word
    assert (row.recent, row.lemon) == (0, 0)
    assert row == page.row


def test_a_word_on_a_suspect_outlives_a_new_diagnosis(engineer):
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    say(Incident.objects.get(), engineer, "confirm")
    diagnosis_store(attempt=attempt, revision=2, report=sample())
    assert [(row.entity, row.word) for row in Suspect.objects.exclude(word="")] == [("gpu-0412", "confirm")]


def test_an_imported_fault_is_a_time_out_of_service_and_no_conviction(engineer):
    now = timezone.now()
    fault = Fault("n1", now - timedelta(days=2), now - timedelta(days=1), "GPU DBE")
    faults_import(cluster=make_cluster(), slug="faults", faults=[fault])
    assert told(engineer) == (1, 0, 0.22)  # 1 - exp(-0.25)


def test_machines_of_closed_clusters_are_not_there_for_strangers(client, engineer):
    closed = make_cluster("closed")
    make_team("inside", clusters=[closed])
    make_incident(make_job(cluster=closed), accused=("secret",))
    assert fleet(engineer) == []
    assert client.get(reverse("node", args=["secret"])).status_code == 404


def test_machines_of_one_name_in_two_clusters_are_distinguished(client, engineer):
    make_incident(make_job(cluster=make_cluster("north")), accused=("gpu-1",), headline="in the north")
    make_incident(make_job(cluster=make_cluster("south")), accused=("gpu-1",), headline="in the south")
    page = page_text(client.get(reverse("node", args=["gpu-1"]), {"cluster": "south"}))
    assert "in the south" in page
    assert "in the north" not in page
    assert "Same name in north" in page


def test_a_note_and_a_drain_are_kept_and_logged(client, engineer):
    make_incident(accused=("n1",))
    response = client.post(reverse("node", args=["n1"]), {"note": "RMA <b>4711</b>", "drained": "1"})
    assert response.status_code == 302
    node = Node.objects.get(name="n1")
    assert node.drained_at
    assert Activity.objects.get(kind="node_noted").data["after"] == {"note": "RMA <b>4711</b>", "is_drained": True}
    page = page_text(client.get(reverse("node", args=["n1"])))
    assert "RMA &lt;b&gt;4711" in page
    client.post(reverse("node", args=["n1"]), {"note": ""})
    assert Node.objects.get(name="n1").drained_at is None


def test_viewers_read_and_do_not_write(client):
    make_incident(accused=("n1",))
    client.force_login(make_user("view", "viewer"))
    assert client.get(reverse("nodes")).status_code == 200
    assert client.post(reverse("node", args=["n1"]), {"note": "x"}).status_code == 403


def test_the_pages_need_few_queries(client, engineer, django_assert_max_num_queries):
    for n in range(20):
        make_incident(accused=(f"n{n}", "n0"))
    for n, sort in enumerate(SORTS):
        with django_assert_max_num_queries(8 + (n == 0)):
            assert client.get(reverse("nodes"), {"sort": sort, "all": "1"}).status_code == 200
    with django_assert_max_num_queries(10):
        assert client.get(reverse("node", args=["n0"])).status_code == 200


def test_a_years_accusations_show_by_month_with_the_confirmed_ones_apart(client, engineer, time_machine):
    time_machine.move_to(datetime(2026, 11, 20, tzinfo=UTC), tick=False)
    for month, is_confirmed in ((11, True), (11, False), (2, False)):
        found = make_incident(accused=("n1",), at=datetime(2026, month, 3, tzinfo=UTC))
        if is_confirmed:
            decision_make(incident=found, claim="suspect", subject="n1", word="confirm", by=engineer)
    make_incident(accused=("n1",), at=datetime(2025, 11, 30, tzinfo=UTC))
    months = node_page(engineer, "n1", now=timezone.now()).year
    assert [one.month.isoformat() for one in months][::11] == ["2025-12-01", "2026-11-01"]
    counted = {one.month.month: (one.accused, one.confirmed) for one in months if one.accused}
    assert counted == {2: (1, 0), 11: (2, 1)}
    assert "1 of 2 confirmed" in page_text(client.get(reverse("node", args=["n1"])))


def test_the_parts_of_a_lemon_score_add_up_to_it(client, engineer):
    for word in ("confirm", ""):
        found = make_incident(accused=("n1",))
        if word:
            decision_make(incident=found, claim="suspect", subject="n1", word=word, by=engineer)
    row = node_page(engineer, "n1", now=timezone.now()).row
    bar = lemon_bar(row)
    assert [part["name"] for part in bar] == ["confirmed", "unreviewed", "alone"]
    assert sum(part["width"] for part in bar) == pytest.approx(100 * row.lemon, abs=0.05)
    assert "confirmed by people" in page_text(client.get(reverse("node", args=["n1"])))


def test_earlier_drains_stay_with_their_reasons_and_not_on_a_namesake(client, engineer):
    make_incident(accused=("n1",))
    make_incident(make_job("other", cluster=make_cluster("north")), accused=("n1",))
    url = reverse("node", args=["n1"]) + "?cluster="
    client.post(f"{url}north", {"note": "bad riser", "drained": "1"})
    client.post(f"{url}north", {"note": "riser changed"})
    notes = page_text(client.get(f"{url}north")).partition('data-testid="notes"')[2].partition("</ol>")[0]
    assert notes.index("put it back") < notes.index("drained it: bad riser")
    assert 'data-testid="notes"' not in page_text(client.get(f"{url}default"))


def test_a_page_of_a_node_begins_with_its_record_and_the_list_hides_empty_columns(client, engineer):
    make_incident(accused=("n1",), category="network.link_down"), make_incident(accused=("n1",))
    page = " ".join(page_text(client.get(reverse("node", args=["n1"]))).split())
    line = page.partition('data-testid="node-line">')[2].partition("</p>")[0]
    assert "Accused <b>2 times</b>, 2 of them in the last 28 days" in line
    assert "People confirmed <b>0</b>." in line
    listed = page_text(client.get(reverse("nodes")))
    assert "<th>Cluster</th>" not in listed and "<th>State</th>" not in listed
    Node.objects.update(note="fan replaced")
    make_incident(make_job(cluster=make_cluster("b200")), accused=("n2",))
    Activity.objects.create(kind="set_up", actor=engineer)
    listed = page_text(client.get(reverse("nodes")))
    assert "<th>Cluster</th>" in listed and "<th>State</th>" in listed


def test_an_empty_fleet_says_why(client, engineer):
    assert "Nodes appear here when a diagnosis accuses them" in page_text(client.get(reverse("nodes")))

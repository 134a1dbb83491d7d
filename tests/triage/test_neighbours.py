"""On to the next incident and back: of the queue, or of the list that it was opened from, in that list's order."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from triage import search
from triage.models import Incident
from triage.selectors.incidents import SORTS, incident_page, queue_sections
from triage.selectors.neighbours import neighbour_in_list, neighbour_in_queue
from triage.services.reviewing import decision_make

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def many():
    """Incidents with equal times, costs and confidences among them, some without a cost."""
    rng, job = random.Random(3), make_job()
    for n in range(24):
        make_incident(
            attempt=make_attempt(job, number=n),
            opened_at=NOW - timedelta(days=rng.choice((0, 0, 3, 3, 20))),
            at=NOW - timedelta(days=rng.choice((1, 2))),
            gpu_hours=rng.choice((None, None, 1.0, 5.0)),
            node_count=rng.choice((None, 8, 64)),
            confidence=rng.choice((0.5, 0.9)),
        )


def walk(step, first):
    found = [first]
    while (pk := step(Incident.objects.get(pk=found[-1]))) is not None:
        found.append(pk)
        assert len(found) < 99
    return found


@pytest.mark.parametrize("sort", SORTS)
def test_a_walk_through_a_list_meets_each_once_in_its_order_and_back(ada, many, sort):
    query = search.parse("")
    listed = [row.pk for row in incident_page(ada, query, sort=sort).incidents]
    assert len(listed) == 24

    def step(is_next):
        return lambda one: neighbour_in_list(ada, one, query, sort=sort, is_next=is_next)

    assert walk(step(True), listed[0]) == listed
    assert walk(step(False), listed[-1]) == listed[::-1]


def test_a_walk_through_the_queue_meets_each_once_in_its_order_and_back(ada, many):
    listed = [row.pk for _, rows in queue_sections(ada, NOW) for row in rows]
    assert len(listed) == 24
    for is_next, expected in ((True, listed), (False, listed[::-1])):
        step = lambda one, way=is_next: neighbour_in_queue(ada, one, is_next=way, now=NOW)  # noqa: E731
        assert walk(step, expected[0]) == expected


def test_what_was_judged_and_left_the_list_leads_on_from_where_it_stood(ada, many):
    query = search.parse("is:unreviewed")
    listed = [row.pk for row in incident_page(ada, query, sort="cost").incidents]
    queue = [row.pk for _, rows in queue_sections(ada, NOW) for row in rows]
    for pk in {listed[5], queue[5]}:
        decision_make(incident=Incident.objects.get(pk=pk), claim="category", word="confirm", by=ada)
    judged = Incident.objects.get(pk=listed[5])
    assert neighbour_in_list(ada, judged, query, sort="cost", is_next=True) == next(
        pk for pk in listed[6:] if pk != queue[5]
    )
    judged = Incident.objects.get(pk=queue[5])
    rest = [pk for pk in queue if pk != listed[5]]
    at = rest.index(queue[5])
    assert neighbour_in_queue(ada, judged, is_next=True, now=NOW) == rest[at + 1]
    assert neighbour_in_queue(ada, judged, is_next=False, now=NOW) == rest[at - 1]


def test_nobody_is_led_to_what_they_may_not_see(ada):
    private = make_cluster("private")
    make_team("red", clusters=[private])
    seen = make_incident(opened_at=NOW - timedelta(hours=2))
    make_incident(make_job(cluster=private), opened_at=NOW - timedelta(hours=3))
    assert neighbour_in_list(ada, seen, search.parse(""), sort="newest", is_next=True) is None
    assert neighbour_in_queue(ada, seen, is_next=True, now=NOW) is None


def test_the_page_leads_on_in_the_list_it_was_opened_from(client, ada, django_assert_max_num_queries):
    now = timezone.now()
    first, other, second = (
        make_incident(category=category, opened_at=now - timedelta(hours=hours))
        for hours, category in ((1, "hardware.gpu.ecc"), (2, "network.link_down"), (3, "hardware.gpu.ecc"))
    )
    listed = page_text(client.get("/incidents/?q=category:hardware&sort=newest"))
    link = f"/incidents/{first.pk}/?q=category%3Ahardware"
    assert f'href="{link}"' in listed
    page = page_text(client.get(link))
    assert 'value="category:hardware"' in page  # the search box says which list that is
    on = f"/incidents/{first.pk}/next/?q=category%3Ahardware"
    assert f'href="{on}"' in page
    with django_assert_max_num_queries(6):
        assert client.get(on).url == f"/incidents/{second.pk}/?q=category%3Ahardware"
    assert client.get(f"/incidents/{second.pk}/previous/?q=category%3Ahardware").url == link
    assert client.get(f"/incidents/{first.pk}/next/").url == f"/incidents/{other.pk}/"
    end = client.get(f"/incidents/{second.pk}/next/?q=category:hardware", follow=True)
    assert end.redirect_chain == [("/incidents/?q=category%3Ahardware", 302)]
    assert f"#{second.pk} was the last of this list." in page_text(end)
    start = client.get(f"/incidents/{first.pk}/previous/", follow=True)
    assert start.redirect_chain == [(f"/incidents/{first.pk}/", 302)]
    assert "is the first of this queue" in page_text(start)
    assert client.get(f"/incidents/{second.pk}/next/", follow=True).redirect_chain == [("/", 302)]


def test_a_search_that_cannot_be_read_and_one_with_markup_do_no_harm(client, ada):
    one = make_incident()
    assert client.get(f"/incidents/{one.pk}/next/?q=colour:red").status_code == 400
    page = page_text(client.get(reverse("incident", args=[one.pk]) + '?q="><script>x</script>'))
    assert "<script>x" not in page
    listed = page_text(client.get('/incidents/?q="><script>x</script>&sort=cost'))
    assert "<script>x" not in listed


def test_rows_that_are_remembered_lead_on_in_the_list_that_shows_them(client):
    client.force_login(make_user("eve", "viewer"))
    one = make_incident()
    for query in ("category:hardware", "is:unreviewed"):
        listed = page_text(client.get("/incidents/", {"q": query}))
        assert f'/incidents/{one.pk}/?q={query.replace(":", "%3A")}"' in listed
    assert f'href="/incidents/{one.pk}/"' in page_text(client.get("/"))

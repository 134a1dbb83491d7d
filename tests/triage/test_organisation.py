"""People, teams and clusters: who reads them, who changes them, and what is kept of a change."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from ingest.models import Cluster, Team
from ingest.services import token_create
from tests.factories import make_cluster, make_team, make_user
from tests.pages import budget, page_text
from triage.models import Activity

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client):
    root = make_user("root", "admin")
    client.force_login(root)
    return root


def person(name):
    return get_user_model().objects.get(username=name)


def test_a_new_person_gets_a_password_once_and_signs_in_with_it(client, admin):
    make_team("red")
    given = {"username": "mia", "email": "mia@example.org", "roles": ["engineer"], "teams": ["red"]}
    page = page_text(client.post(reverse("people"), given))
    password = re.search(r'data-testid="password">([^<]+)<', page)[1]
    assert person("mia").check_password(password)
    assert [group.name for group in person("mia").groups.all()] == ["engineer"]
    assert [team.slug for team in person("mia").teams.all()] == ["red"]
    again = page_text(client.get(reverse("people")))
    assert "mia@example.org" in again and password not in again
    assert "person mia: password" in again


def test_the_name_of_somebody_is_not_taken_twice(client, admin):
    make_user("mia", "viewer")
    answer = client.post(reverse("people"), {"username": "mia", "roles": ["admin"]})
    assert answer.status_code == 422
    assert "There is already a person mia" in page_text(answer)
    assert [group.name for group in person("mia").groups.all()] == ["viewer"]


def test_roles_teams_and_the_right_to_sign_in_are_changed_and_changed_back(client, admin):
    make_user("mia", "viewer")
    make_team("red")
    url = reverse("person", args=["mia"])
    client.post(url, {"roles": ["manager"], "teams": ["red"]})
    assert not person("mia").is_active
    assert "deactivated" in page_text(client.get(reverse("people")))
    client.post(url, {"roles": ["viewer"], "is_active": "on"})
    assert person("mia").is_active
    assert [group.name for group in person("mia").groups.all()] == ["viewer"]
    acts = Activity.objects.filter(kind="set_up", actor=admin)
    assert [act.data["done"] for act in acts.order_by("pk")] == [
        ["person mia: is_active, roles, teams"],
        ["person mia: is_active, roles, teams"],
    ]


def test_nobody_takes_their_own_right_to_administer_away(client, admin):
    answer = client.post(reverse("person", args=["root"]), {"roles": ["viewer"], "is_active": "on"})
    assert answer.status_code == 422
    assert "let another administrator take your role" in page_text(answer)


def test_a_token_of_a_person_is_seen_and_revoked(client, admin):
    mia = make_user("mia", "engineer")
    token, secret = token_create(user=mia, name="laptop", scopes=["read"])
    url = reverse("person", args=["mia"])
    assert "laptop" in page_text(client.get(url))
    client.post(url, {"revoke": token.pk})
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    assert client.post(url, {"revoke": "999999"}).status_code == 404


def test_teams_have_clusters_and_a_quota(client, admin):
    make_cluster("north")
    given = {"slug": "red", "title": "Red team", "clusters": ["north"], "quota_gb": "500"}
    client.post(reverse("teams"), given)
    red = Team.objects.get(slug="red")
    assert (red.title, red.max_bytes, [one.slug for one in red.clusters.all()]) == ("Red team", 500 * 10**9, ["north"])
    assert 'value="500"' in page_text(client.get(reverse("teams")))
    client.post(reverse("teams"), {**given, "title": "Reds", "quota_gb": "1.5"})
    red.refresh_from_db()
    assert (red.title, red.max_bytes) == ("Reds", 1_500_000_000)
    client.post(reverse("teams"), {**given, "title": "Reds", "quota_gb": ""})
    red.refresh_from_db()
    assert red.max_bytes is None, "an empty field gives the quota of the installation back"
    assert client.post(reverse("teams"), {**given, "quota_gb": "much"}).status_code == 422
    assert "Seen by Reds" in page_text(client.get(reverse("clusters")))


def test_clusters_are_made_and_changed(client, admin):
    client.post(reverse("clusters"), {"slug": "west", "gpus_per_node": "4"})
    client.post(reverse("clusters"), {"slug": "west", "title": "West", "gpus_per_node": "8", "shares_history": "on"})
    west = Cluster.objects.get(slug="west")
    assert (west.title, west.gpus_per_node, west.shares_history) == ("West", 8, True)
    assert client.post(reverse("clusters"), {"slug": "No Slug", "gpus_per_node": "8"}).status_code == 422


def test_managers_read_and_change_nothing(client):
    client.force_login(make_user("boss", "manager"))
    make_user("mia", "viewer")
    for url in (reverse("people"), reverse("person", args=["mia"]), reverse("teams"), reverse("clusters")):
        page = page_text(client.get(url))
        assert "Administrators change these" in page
        assert '<form method="post" class="panel-body"' not in page
        assert client.post(url, {"username": "x", "slug": "x"}).status_code == 403


def test_the_list_of_people_is_searched_and_takes_few_queries(client, admin):
    for n in range(5):
        make_team(f"team-{n}", members=[make_user(f"person-{n}", "engineer")])
    page = budget(client, reverse("people") + "?find=son-3", limit=10)
    assert "person-3" in page
    assert "person-2" not in page.partition('data-testid="people"')[2].partition("</table>")[0]

"""Sign-in by a provider, run by test_oidc.py in a process of its own whose settings name one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model

from tests.factories import make_cluster, make_team, make_user
from tests.pages import page_text
from tests.triage.provider import Provider, providing
from triage.models import Activity

pytestmark = pytest.mark.django_db
LOGIN = "/sign-in/oidc/login/"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as found:
        (app,) = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
        app["settings"]["server_url"] = found.url
        found.person = {
            "sub": "4711",
            "preferred_username": "ada",
            "email": "ada@example.org",
            "groups": ["gpu-users", "ml-red"],
        }
        yield found


def sign_in(client, provider, query=""):
    start = client.get(LOGIN + query)
    assert start.status_code == 302 and start["Location"].startswith(f"{provider.url}/authorize?")
    return client.get(provider.authorise(start["Location"]))


def test_the_button_is_there_and_leads_to_the_provider_and_back_to_where_one_was(client, provider):
    page = page_text(client.get("/sign-in/?next=/jobs/%3Fwords%3Da"))
    assert "Sign in with Example Login" in page
    assert f'href="{LOGIN}?next=%2Fjobs%2F%3Fwords%3Da"' in page
    done = sign_in(client, provider, "?next=/jobs/%3Fwords%3Da")
    assert (done.status_code, done["Location"]) == (302, "/jobs/?words=a")
    assert client.get("/jobs/").status_code == 200
    user = get_user_model().objects.get()
    assert (user.username, user.has_usable_password()) == ("ada", False)
    assert client.session["_auth_user_backend"] == "triage.auth.Backend", "the one that knows roles and clusters"


def test_roles_and_teams_follow_the_groups_at_each_sign_in(client, provider):
    closed = make_cluster("closed")
    make_team("red", clusters=[closed])
    make_team("night")
    sign_in(client, provider)
    user = get_user_model().objects.get()
    user.teams.add(make_team("by-hand"))
    assert [g.name for g in user.groups.all()] == ["engineer"]
    provider.person["groups"] = ["gpu-admins", "ml-blue"]
    sign_in(client, provider)
    assert [g.name for g in user.groups.all()] == ["admin"]
    assert sorted(user.teams.values_list("slug", flat=True)) == ["blue", "by-hand"]
    changes = Activity.objects.filter(kind="membership", actor=user)
    assert [row.data["after"]["roles"] for row in changes] == [["engineer"], ["admin"]]


@pytest.mark.parametrize("groups", [[], ["others"], None])
def test_whoever_has_no_group_that_counts_is_refused_with_a_sentence(client, provider, groups):
    provider.person["groups"] = groups
    done = sign_in(client, provider)
    assert done["Location"] == "/sign-in/"
    assert "None of your groups has a role" in page_text(client.get("/sign-in/"))
    assert not get_user_model().objects.exists()


def test_whoever_lost_the_group_or_the_account_is_refused_too(client, provider):
    sign_in(client, provider)
    client.logout()
    provider.person["groups"] = []
    assert sign_in(client, provider)["Location"] == "/sign-in/"
    user = get_user_model().objects.get()
    assert (user.groups.count(), user.teams.count()) == (0, 0), "or their tokens would go on as before"
    provider.person["groups"] = ["gpu-users"]
    get_user_model().objects.update(is_active=False)
    assert sign_in(client, provider)["Location"] == "/sign-in/"
    assert "is disabled" in page_text(client.get("/sign-in/"))
    assert "_auth_user_id" not in client.session


def test_a_person_of_the_same_name_or_letter_box_is_not_taken_over(client, provider):
    local = make_user("ada", "admin", email="ada@example.org")
    sign_in(client, provider)
    signed_in = get_user_model().objects.get(pk=client.session["_auth_user_id"])
    assert signed_in.pk != local.pk
    assert signed_in.username != "ada"


def test_a_stale_or_forged_answer_signs_nobody_in(client, provider):
    start = client.get(LOGIN)
    back = provider.authorise(start["Location"])
    assert client.get(back.replace("state=", "state=x"))["Location"] == "/sign-in/"
    assert "did not work" in page_text(client.get("/sign-in/"))
    again = provider.authorise(client.get(LOGIN)["Location"])
    provider.codes.clear()
    assert client.get(again)["Location"] == "/sign-in/"
    provider.audience = "another site"
    assert sign_in(client, provider)["Location"] == "/sign-in/"
    assert not get_user_model().objects.exists()


def test_cancelling_at_the_provider_leads_back(client, provider):
    start = client.get(LOGIN)
    state = provider.authorise(start["Location"]).rpartition("state=")[2]
    done = client.get(f"{LOGIN}callback/?error=access_denied&state={state}", follow=True)
    assert "cancelled" in page_text(done)


def test_passwords_continue_working(client, provider):
    make_user("root", "admin")
    done = client.post("/sign-in/", {"username": "root", "password": "right horse"})
    assert (done.status_code, done["Location"]) == (302, "/")


def test_an_open_redirect_is_not_offered(client, provider):
    assert sign_in(client, provider, "?next=https://evil.example/")["Location"] == "/"

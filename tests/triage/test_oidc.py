"""Sign-in by OpenID Connect: off unless settings name a provider."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured

from tests.factories import make_team, make_user
from tests.pages import page_text
from tests.patience import WORK_S
from triage.environment import env_pairs
from triage.models import Activity
from triage.services.membership import membership_sync, roles_for

ROOT = Path(__file__).resolve().parent.parent.parent
ROLES = {"engineer": {"gpu-users", "sre"}, "admin": {"gpu-admins"}}


@pytest.mark.django_db
def test_without_a_provider_there_is_no_button_and_no_address(client, settings):
    assert 'data-testid="oidc"' not in page_text(client.get("/sign-in/"))
    assert client.get("/sign-in/oidc/login/").status_code in (302, 404)
    assert not [app for app in settings.INSTALLED_APPS if app.startswith("allauth.socialaccount")]


def test_with_a_provider_people_come_in_with_roles_and_teams_of_their_groups():
    """In a process of its own, because installed applications cannot change while Django runs. To migrate its database
    would cost more than all of its tests, and other tests migrate the same tables."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_URL", "PYTEST_"))}
    env |= {"FAULTLINE_OIDC_ISSUER": "http://provider.invalid", "no_proxy": "*"}
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--ds=tests.settings_oidc"]
    argv += ["--no-migrations"]
    done = subprocess.run(
        [*argv, "tests/triage/oidc_cases.py"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=WORK_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_groups_give_roles_and_the_default_counts_only_where_they_give_none():
    assert roles_for(["sre", "x"], roles=ROLES, default="viewer") == {"engineer"}
    assert roles_for(["x"], roles=ROLES, default="viewer") == {"viewer"}
    assert roles_for(["x"], roles=ROLES, default="") == set()
    assert roles_for(["sre", "gpu-admins"], roles=ROLES, default="viewer") == {"engineer", "admin"}


@pytest.mark.django_db
def test_without_a_mapping_what_administrators_gave_stays():
    ada, new = make_user("ada", "manager"), make_user("new")
    ada.teams.add(make_team("red"))
    for user in (ada, new):
        membership_sync(user=user, groups=["x"], roles={}, teams={}, default="viewer")
    assert [group.name for group in ada.groups.all()] == ["manager"]
    assert [team.slug for team in ada.teams.all()] == ["red"]
    assert [group.name for group in new.groups.all()] == ["viewer"]


@pytest.mark.django_db
def test_groups_that_are_no_roles_stay_and_a_sign_in_that_changes_nothing_is_no_act():
    ada = make_user("ada", "viewer")
    ada.groups.add(Group.objects.create(name="on call"))
    for _ in range(2):
        membership_sync(user=ada, groups=["sre"], roles=ROLES, teams={"red": {"ml-red"}}, default="viewer")
    assert sorted(group.name for group in ada.groups.all()) == ["engineer", "on call"]
    assert Activity.objects.filter(kind="membership", actor=ada).count() == 1


@pytest.mark.parametrize("text", ["engineer", "engineer=", "captain=x", "=x"])
def test_a_mapping_that_cannot_be_read_stops_the_start_with_its_name(monkeypatch, text):
    monkeypatch.setenv("FAULTLINE_OIDC_ROLES", text)
    with pytest.raises(ImproperlyConfigured, match="FAULTLINE_OIDC_ROLES"):
        env_pairs("FAULTLINE_OIDC_ROLES", ("engineer", "admin"))

"""Accounts without a browser: `manage.py ensure` and `PUT /api/v1/setup/` make what is wanted, and a second time
nothing."""

from __future__ import annotations

import json
import socket
import stat
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from ingest.models import Cluster, ServiceAccount, Team, Token
from ingest.roles import ABILITIES, role_names
from ingest.services import accounts, token_use
from tests.factories import api_of, make_user
from triage.domain import wanted_setup
from triage.models import Activity, Route
from triage.places import ROOT

pytestmark = pytest.mark.django_db
SECRET = "fl_" + "a1" * 32
RESOLVE = socket.getaddrinfo
GUIDE = (ROOT / "docs" / "accounts.md").read_text()
#: the file of the guide, with a token that Faultline makes
SETUP = GUIDE.partition("```toml\n")[2].partition("```")[0]
MADE_TOKEN = """
[[tokens]]
user = "epilog"
name = "made"
scopes = ["upload", "read"]
write_to = "FOLDER/token"
"""


def resolved_without_names(host: str, *arguments: Any, **options: Any) -> Any:
    """As a machine whose network has no names answers."""
    return RESOLVE(host, *arguments, **options | {"flags": socket.AI_NUMERICHOST})


def ensure(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("ensure", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {f"{row['kind']} {row['name']}": row["state"] for row in answer["results"]}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "password").write_text("a long good password\n")
    monkeypatch.setenv("EPILOG_TOKEN", SECRET)
    monkeypatch.setattr(socket, "getaddrinfo", resolved_without_names)
    made = tmp_path / "setup.toml"
    text = SETUP.replace("/run/secrets/mara-password", "FOLDER/password") + MADE_TOKEN
    made.write_text(text.replace("FOLDER", str(tmp_path)))
    return made


def test_a_file_makes_everything_once_and_a_second_time_nothing(file: Path) -> None:
    first = ensure(str(file))
    assert first["changed"] and set(states(first).values()) == {"created"}
    mara = get_user_model().objects.get(username="mara")
    assert mara.check_password("a long good password") and mara.email == "mara@example.org"
    assert role_names(mara) == {"manager"} and not mara.is_staff
    red = Team.objects.get(slug="red")
    assert {user.username for user in red.members.all()} == {"mara", "epilog"}
    assert [cluster.gpus_per_node for cluster in red.clusters.all()] == [8]
    route = Route.objects.get()
    assert (route.owner, route.team, route.query) == (mara, red, "category:hardware")
    rows = Activity.objects.count()
    second = ensure(str(file))
    assert not second["changed"] and set(states(second).values()) == {"unchanged"}
    assert "secret" not in str(second) and Activity.objects.count() == rows


def test_a_host_that_nobody_knows_yet_is_told_and_one_that_is_not_public_is_refused(file: Path) -> None:
    told = {row["name"]: row["note"] for row in ensure(str(file))["results"] if "note" in row}
    assert told == {"mara/on call": "The host hooks.example.org is not known here. Messages are sent as soon as it is."}
    file.write_text(file.read_text().replace("https://hooks.example.org/", "http://169.254.169.254/"))
    with pytest.raises(CommandError, match="on call"):
        ensure(str(file))


def test_a_secret_that_is_made_goes_to_its_file_and_one_that_is_given_is_used(file: Path, tmp_path: Path) -> None:
    answer = ensure(str(file))
    written = tmp_path / "token"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    token = token_use(secret=written.read_text().strip())
    assert token is not None and token.name == "made"
    given = token_use(secret=SECRET)
    assert given is not None and given.name == "alpha"
    assert SECRET not in str(answer) and written.read_text().strip() not in str(answer)
    shown = [row["name"] for row in answer["results"] if "secret" in row]
    assert shown == ["mara/on call"], "only the signing secret has no other place"


def test_a_token_whose_file_is_lost_is_told_and_nothing_changes(file: Path, tmp_path: Path) -> None:
    ensure(str(file))
    (tmp_path / "token").unlink()
    file.write_text(file.read_text().replace('title = "Alpha"', 'title = "Other"'))
    with pytest.raises(CommandError, match="shown only once"):
        ensure(str(file))
    assert Cluster.objects.get(slug="alpha").title == "Alpha"


def test_another_given_secret_replaces_the_token(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(str(file))
    monkeypatch.setenv("EPILOG_TOKEN", "fl_" + "b2" * 32)
    assert states(ensure(str(file)))["token epilog/alpha"] == "created"
    assert token_use(secret=SECRET) is None and token_use(secret="fl_" + "b2" * 32) is not None
    monkeypatch.setenv("EPILOG_TOKEN", SECRET)
    with pytest.raises(CommandError, match="was used before"):
        ensure(str(file))


def test_what_is_left_out_stays_and_a_list_is_the_whole_list(file: Path, tmp_path: Path) -> None:
    ensure(str(file))
    mara = get_user_model().objects.get(username="mara")
    mara.set_password("another long password")
    mara.save()
    part = tmp_path / "part.toml"
    part.write_text(
        'people = [{username = "mara", roles = ["admin"]}]\nroutes = [{owner = "mara", name = "on call", query = ""}]'
    )
    answer = ensure(str(part))
    assert [row["changes"] for row in answer["results"]] == [["is_staff", "is_superuser", "roles"], ["query"]]
    mara.refresh_from_db()
    assert mara.check_password("another long password") and mara.teams.get().slug == "red"
    assert role_names(mara) == {"admin"}
    assert Route.objects.get().opened("url") == "https://hooks.example.org/faultline"
    assert states(ensure(str(file)))["person mara"] == "changed"
    mara.refresh_from_db()
    assert mara.check_password("another long password"), "the password of the file is for a new person alone"


def test_people_and_services_are_disabled_and_tokens_revoked(file: Path, tmp_path: Path) -> None:
    ensure(str(file))
    end = tmp_path / "end.toml"
    end.write_text(
        'people = [{username = "mara", is_active = false}]\n'
        'services = [{name = "epilog", role = "engineer", is_active = false}]\n'
        'tokens = [{user = "epilog", name = "alpha", scopes = ["read"], is_revoked = true}]\n'
    )
    assert ensure(str(end))["changed"]
    assert not get_user_model().objects.filter(username__in=("mara", "epilog"), is_active=True).exists()
    assert not Token.objects.filter(revoked_at=None).exists()
    assert not ensure(str(end))["changed"]


def test_the_first_administrator_gets_a_password_once() -> None:
    answer = ensure("--admin", "root")
    root = get_user_model().objects.get()
    assert root.check_password(answer["results"][0]["secret"])
    assert root.is_staff and root.is_superuser and role_names(root) == {"admin"}
    assert ensure("--admin", "root") == {
        "changed": False,
        "results": [{"kind": "person", "name": "root", "state": "unchanged", "changes": []}],
    }


def test_people_read_what_was_done() -> None:
    out = StringIO()
    call_command("ensure", "--admin", "root", stdout=out)
    first, second = out.getvalue().splitlines()
    assert first == "created   person root" and "password, shown only now: " in second


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("people = [{username = 'ada', role = 'admin'}]", r"people\[0\]: Object contains unknown field `role`"),
        ("people = [{username = 'ada', roles = ['boss']}]", r"people\[0\]\.roles\[0\]"),
        ("people = [{username = 'ada', password = 'short'}]", "person ada: This password is too short"),
        ("people = [{username = 'ada', teams = ['red']}]", "there is no team red: add it to teams"),
        ("people = [{username = 'ada', password_file = '/nowhere'}]", "/nowhere cannot be read"),
        ("people = [{username = 'ada', password_env = 'NOT_SET'}]", "names NOT_SET, which is not set"),
        ("tokens = [{user = 'eve', name = 'x', scopes = ['read']}]", "there is no user eve"),
        ("tokens = [{user = 'max', name = 'x', scopes = ['read'], secret = 'hunter2'}]", r"tokens\[0\]\.secret"),
        ("routes = [{owner = 'max', name = 'x', kind = 'slack'}]", "the owner's role has no routes"),
        ("people = 3", "people"),
        ("people = [", "is no TOML file"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_nothing_is_made(text: str, said: str, tmp_path: Path) -> None:
    make_user("max", "engineer")
    (tmp_path / "setup.toml").write_text(f"clusters = [{{slug = 'new'}}]\n{text}")
    with pytest.raises(CommandError, match=said) as caught:
        ensure(str(tmp_path / "setup.toml"))
    assert "hunter2" not in str(caught.value)
    assert not Cluster.objects.filter(slug="new").exists()


def test_a_service_account_is_no_person() -> None:
    accounts.account_create(by=None, name="epilog", role="viewer")
    with pytest.raises(CommandError, match="this is a service account"):
        ensure("--admin", "epilog")
    assert ServiceAccount.objects.get().user.has_usable_password() is False


def test_an_administrators_token_does_the_same_by_the_api() -> None:
    document = {
        "teams": [{"slug": "red"}],
        "people": [{"username": "ada", "roles": ["viewer"], "teams": ["red"]}],
        "tokens": [{"user": "ada", "name": "x", "scopes": ["read"]}],
    }
    admin = make_user("root", "admin")
    client = api_of(admin, "administer")
    first = client.put("/api/v1/setup/", document, format="json")
    assert first.status_code == 200 and first.json()["changed"]
    password, secret = (first.json()["results"][index]["secret"] for index in (1, 2))
    assert get_user_model().objects.get(username="ada").check_password(password)
    assert token_use(secret=secret) is not None
    second = client.put("/api/v1/setup/", document, format="json").json()
    assert not second["changed"] and {row["secret"] for row in second["results"]} == {""}
    assert Activity.objects.get(kind="set_up").actor == admin


def test_only_administrators_with_that_scope_set_up() -> None:
    for person, scope in (
        (make_user("m", "manager"), "administer"),
        (make_user("a", "admin"), "manage"),
    ):
        assert api_of(person, scope).put("/api/v1/setup/", {}, format="json").status_code == 403
    client = api_of(make_user("root", "admin", is_superuser=True), "administer")
    for wrong in ({"people": [{"username": "x", "password_file": "/etc/passwd"}]}, {"x": 1}, [], {"people": {}}):
        assert client.put("/api/v1/setup/", wrong, format="json").status_code in (400, 422), wrong
    own = client.put("/api/v1/setup/", {"people": [{"username": "root", "roles": ["viewer"]}]}, format="json")
    assert own.status_code == 422 and "this is you" in own.json()["detail"]


def test_the_words_of_a_setup_are_those_of_the_site() -> None:
    assert set(get_args(wanted_setup.Role)) == set(ABILITIES)
    assert set(get_args(wanted_setup.ServiceRole)) == set(accounts.ROLES)
    assert set(get_args(wanted_setup.Scope)) == set(Token.Scope.values)

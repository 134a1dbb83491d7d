"""Keys of people and of machines: made, ended, revoked, asked who they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from ingest import services
from ingest.models import ServiceAccount, Token
from ingest.refusals import Refused
from ingest.services.accounts import account_close, account_create
from tests.factories import make_cluster, make_job, make_team, make_user
from tests.pages import page_text

pytestmark = [pytest.mark.django_db]


def bearer(secret: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def admin(db: None) -> Any:
    return make_user("root", "admin")


def test_a_token_with_an_end_opens_nothing_after_it(engineer: Any) -> None:
    token, secret = services.token_create(user=engineer, name="t", scopes=["read"], days=7)
    assert bearer(secret).get("/api/v1/jobs/").status_code == 200
    Token.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert bearer(secret).get("/api/v1/jobs/").status_code == 401
    with pytest.raises(Refused, match="1 to"):
        services.token_create(user=engineer, name="t", scopes=["read"], days=0)


def test_a_token_may_ask_who_it_is_and_give_itself_up(engineer: Any) -> None:
    make_cluster("open")
    _, secret = services.token_create(user=engineer, name="epilog", scopes=["upload"])
    client = bearer(secret)
    said = client.get("/api/v1/me/").json()
    assert (said["username"], said["roles"], said["clusters"]) == ("engineer", ["engineer"], ["open"])
    assert (said["token"]["name"], said["token"]["scopes"]) == ("epilog", ["upload"])
    assert secret not in str(said)
    assert client.delete("/api/v1/me/token/").status_code == 204
    assert client.get("/api/v1/me/").status_code == 401


def test_a_browser_has_no_token_to_give_up(engineer: Any) -> None:
    client = APIClient()
    client.force_login(engineer)
    assert client.get("/api/v1/me/").json()["token"] is None
    assert client.delete("/api/v1/me/token/").status_code == 409


def test_a_service_account_sees_its_teams_clusters_and_outlives_who_made_it(admin: Any) -> None:
    team = make_team("red", clusters=[make_cluster("closed")])
    make_job("hidden", cluster=make_cluster("closed"))
    account = account_create(by=admin, name="Epilog-A", role="engineer", teams=[team], purpose="Slurm")
    _, secret = services.token_create(user=account.user, name="t", scopes=["read", "upload"])
    admin.delete()
    client = bearer(secret)
    assert client.get("/api/v1/jobs/hidden/").status_code == 200
    assert client.post("/api/v1/jobs/", {"name": "x", "cluster": "closed"}).status_code == 201
    assert not account.user.check_password("")
    assert not account.user.has_usable_password()
    account_close(account=ServiceAccount.objects.get())
    assert client.get("/api/v1/jobs/").status_code == 401


@pytest.mark.parametrize(
    ("change", "field"), [({"name": "a b"}, "name"), ({"name": "root"}, "name"), ({"role": "admin"}, "role")]
)
def test_a_service_account_that_cannot_be_is_refused(admin: Any, change: dict[str, str], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        account_create(by=admin, **{"name": "bot", "role": "viewer", **change})
    assert list(refusal.value.fields) == [field]


def test_administrators_make_key_and_close_machines_on_their_page(admin: Any, client: Any) -> None:
    client.force_login(admin)
    page = "/account/services/"
    assert client.post(page, {"act": "make", "name": "bot", "role": "engineer"}).status_code == 302
    account = ServiceAccount.objects.get()
    wanted = {"act": "token", "account": account.pk, "name": "night", "scopes": ["upload"], "days": "30"}
    made = page_text(client.post(page, wanted))
    token = Token.objects.get(user=account.user)
    assert made.count("fl_") >= 2, "its secret and its prefix"
    assert token.expires_at is not None
    assert client.post(page, {**wanted, "days": "soon"}).status_code == 422
    client.post(page, {"revoke": token.pk})
    token.refresh_from_db()
    assert token.revoked_at is not None
    client.post(page, {"act": "close", "account": account.pk})
    account.user.refresh_from_db()
    assert not account.user.is_active


def test_only_administrators_see_machines_and_nobody_there_revokes_a_persons_token(admin: Any, client: Any) -> None:
    engineer = make_user("ada", "engineer")
    token, _ = services.token_create(user=engineer, name="own", scopes=["read"])
    client.force_login(engineer)
    assert client.get("/account/services/").status_code == 403
    client.force_login(admin)
    assert client.post("/account/services/", {"revoke": token.pk}).status_code == 404
    assert client.post("/account/services/", {"revoke": "x"}).status_code == 404


def test_the_page_offers_only_scopes_that_would_open_something(client: Any) -> None:
    for role, offered in (("viewer", {"read"}), ("engineer", {"read", "upload", "review"})):
        client.force_login(make_user(role, role))
        page = page_text(client.get("/account/tokens/"))
        assert {s for s in Token.Scope.values if f'name="scopes" value="{s}"' in page} == offered

"""Service accounts: users that are machines, whose tokens do not end when a person leaves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from ingest.models import ServiceAccount, Team
from ingest.refusals import Refused
from ingest.services.tokens import tokens_revoke

#: what a machine may be: it never administers
ROLES = ("engineer", "viewer", "manager")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,60}")


@transaction.atomic
def account_create(*, by: Any, name: str, role: str, teams: Iterable[Team] = (), purpose: str = "") -> ServiceAccount:
    """A user that nobody can sign in as, with one role, seeing what its teams see."""
    name = name.strip().lower()
    if not _NAME.fullmatch(name):
        _refuse("name", "Name it with 2 to 61 of a–z, 0–9, dot, dash and underscore.")
    if role not in ROLES:
        _refuse("role", f"A service account is one of {', '.join(ROLES)}.")
    model = get_user_model()
    if model.objects.filter(username__iexact=name).exists():
        _refuse("name", f"There is a person or service called {name} already: take another name.")
    user = model(username=name)
    user.set_unusable_password()
    user.save()
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    for team in teams:
        team.members.add(user)
    return ServiceAccount.objects.create(user=user, made_by=by, purpose=purpose.strip()[:300])


@transaction.atomic
def account_close(*, account: ServiceAccount) -> None:
    """It may do nothing any more and its tokens are revoked. The user stays, because what it did names it."""
    user = account.user
    user.is_active = False
    user.save(update_fields=["is_active"])
    tokens_revoke(user=user)


def _refuse(field: str, sentence: str) -> None:
    raise Refused(sentence, code="invalid", fields={field: sentence})

"""Service accounts: users of programs. Their tokens stay valid when a person leaves."""

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

#: the roles that a service account may have; it never administers
ROLES = ("engineer", "viewer", "manager")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,60}")


@transaction.atomic
def account_create(*, by: Any, name: str, role: str, teams: Iterable[Team] = (), purpose: str = "") -> ServiceAccount:
    """A user without sign-in, with one role; it sees what its teams see."""
    name = name.strip().lower()
    if not _NAME.fullmatch(name):
        _refuse("name", "Name it with 2 to 61 of a–z, 0–9, dot, dash and underscore.")
    if role not in ROLES:
        _refuse("role", f"A service account is one of {', '.join(ROLES)}.")
    model = get_user_model()
    if model.objects.filter(username__iexact=name).exists():
        _refuse("name", f"There is a person or service called {name} already: choose another name.")
    user = model(username=name)
    user.set_unusable_password()
    user.save()
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    for team in teams:
        team.members.add(user)
    return ServiceAccount.objects.create(user=user, made_by=by, purpose=purpose.strip()[:300])


@transaction.atomic
def account_close(*, account: ServiceAccount) -> None:
    """Disable the account and revoke its tokens. The user row stays, because records of its actions name it."""
    user = account.user
    user.is_active = False
    user.save(update_fields=["is_active"])
    tokens_revoke(user=user)


def _refuse(field: str, sentence: str) -> None:
    raise Refused(sentence, code="invalid", fields={field: sentence})

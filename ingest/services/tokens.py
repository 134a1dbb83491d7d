"""API tokens: create, use, revoke."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import OperationalError
from django.db.models import Q
from django.utils import timezone

from ingest.models import Token
from ingest.refusals import Refused

_FIRST_LETTERS = "fl_"
_MAX_DAYS = 3650
#: of the secret, shown to recognise it
_PREFIX_CHARS = 12
_USE_NOTED_EVERY = timedelta(minutes=1)


def token_create(
    *, user: Any, name: str, scopes: Iterable[str], days: int | None = None, secret: str = ""
) -> tuple[Token, str]:
    """A new token and its secret. Only the digest is stored, so the secret is shown only now. Expires after ``days``,
    if given. A ``secret`` that is given is used; else one is made of 256 random bits.
    """
    sorted_scopes = sorted(set(scopes))
    if not sorted_scopes or not set(sorted_scopes) <= set(Token.Scope.values):
        raise Refused(f"A token needs scopes from {', '.join(Token.Scope.values)}.", code="invalid")
    if days is not None and not 1 <= days <= _MAX_DAYS:
        raise Refused(f"A token lasts from 1 to {_MAX_DAYS:,} days, or until somebody revokes it.", code="invalid")
    expires_at = timezone.now() + timedelta(days=days) if days is not None else None
    secret = secret or _FIRST_LETTERS + secrets.token_urlsafe(32)
    if Token.objects.filter(prefix=secret[:_PREFIX_CHARS]).exists():
        raise Refused("This secret, or one that begins like it, was used before: make a new one.", code="invalid")
    token = Token.objects.create(
        user=user,
        name=name.strip()[:120] or "token",
        prefix=secret[:_PREFIX_CHARS],
        digest=Token.digest_of(secret),
        scopes=sorted_scopes,
        expires_at=expires_at,
    )
    return token, secret


def token_revoke(*, token: Token) -> None:
    """Revoke a token. A second call keeps the first time."""
    Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())


def tokens_revoke(*, user: Any) -> int:
    """Revoke all tokens of a person; returns how many."""
    return Token.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())


def token_use(*, secret: str) -> Token | None:
    """The valid token with this secret, with its user. Records its use at most once a minute."""
    if not secret.startswith(_FIRST_LETTERS):
        return None
    token = Token.objects.select_related("user").filter(digest=Token.digest_of(secret), revoked_at=None).first()
    now = timezone.now()
    if token is None or not token.user.is_active or (token.expires_at is not None and token.expires_at <= now):
        return None
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - _USE_NOTED_EVERY:
        with suppress(OperationalError):  # a locked database delays no reading
            Token.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return token

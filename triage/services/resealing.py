"""Encrypts secrets that are readable, or encrypted with a former secret key, so that the former key can go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction

from ingest.locks import lock_rows
from triage.models import Route
from triage.models.route import SEALED
from triage.sealing import SealBroken, is_sealed_now, seal, unseal

#: what of an authenticator's data is secret
_KEYS = ("secret", "seed")


@transaction.atomic
def secrets_reseal() -> int:
    """Encrypt the keys of authenticator apps and the secrets of routes with the current secret key; returns how many
    rows changed. O(people with a second step and routes). What no known key opens stays, in case its key comes back.
    """
    changed = 0
    for row, stored in _rows(is_locked=True):
        fresh = {name: seal(unseal(value)) for name, value in stored.items() if _is_stale(value)}
        if not fresh:
            continue
        if isinstance(row, Authenticator):
            row.data = row.data | fresh
            row.save(update_fields=["data"])
        else:
            type(row).objects.filter(pk=row.pk).update(**fresh)
        changed += 1
    return changed


def unreadable_secrets() -> list[str]:
    """The rows with a secret that no known key opens, as a person names them: “route on call”. O(rows)."""
    return [_name(row) for row, stored in _rows() if not all(map(_is_readable, stored.values()))]


def _rows(*, is_locked: bool = False) -> Iterator[tuple[Any, dict[str, str]]]:
    """Each row with secrets, and those by their names."""
    people, routes = Authenticator.objects.select_related("user"), Route.objects.all()
    for row in lock_rows(people) if is_locked else people:
        yield row, {name: row.data[name] for name in _KEYS if name in row.data}
    for route in lock_rows(routes) if is_locked else routes:
        yield route, {name: getattr(route, name) for name in SEALED}


def _name(row: Any) -> str:
    return f"route {row.name}" if isinstance(row, Route) else f"second step of {row.user.get_username()}"


def _is_stale(stored: str) -> bool:
    return bool(stored) and _is_readable(stored) and not is_sealed_now(stored)


def _is_readable(stored: str) -> bool:
    try:
        unseal(stored)
    except SealBroken:
        return False
    return True

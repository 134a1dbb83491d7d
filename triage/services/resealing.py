"""Encrypts anew what was encrypted with a former secret key, so that the former key can go."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction

from ingest.locks import lock_rows
from triage.sealing import SealBroken, is_sealed_now, seal, unseal


@transaction.atomic
def secrets_reseal() -> int:
    """Encrypt the keys of authenticator apps with the current secret key; returns how many rows changed. O(people with
    a second step). What no known key opens stays, in case its key comes back.
    """
    changed = 0
    for row in lock_rows(Authenticator.objects):
        stale = {name: value for name, value in row.data.items() if name in ("secret", "seed") and _is_stale(value)}
        if stale:
            row.data = row.data | {name: seal(unseal(value)) for name, value in stale.items()}
            row.save(update_fields=["data"])
            changed += 1
    return changed


def _is_stale(stored: str) -> bool:
    try:
        unseal(stored)
    except SealBroken:
        return False
    return not is_sealed_now(stored)

"""A request that names a key is answered once; sent again it gets the same answer and makes nothing new."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from ingest.models import IdempotencyKey
from ingest.refusals import Refused

MAX_KEY = 128
#: an answer that never came (its process died) may be asked for again after this
_GIVEN_UP = timedelta(minutes=2)

type Answer = tuple[int, Any]


def answer_once(*, user: Any, key: str, request: bytes, answer: Callable[[], Answer]) -> tuple[Answer, bool]:
    """The answer, and whether it is a repeated one. Without a ``key`` it is simply made.

    Raises :class:`Refused`: 422 for a key used with another request, 409 while the first is still being answered.
    """
    if not key:
        return answer(), False
    if len(key) > MAX_KEY:
        raise Refused(
            f"The Idempotency-Key is longer than {MAX_KEY} characters: use a UUID.", code="bad_key", status=400
        )
    digest = hashlib.sha256(request).hexdigest()
    row, is_first = IdempotencyKey.objects.get_or_create(user=user, key=key, defaults={"request_digest": digest})
    if not is_first:
        if row.request_digest != digest:
            raise Refused("This Idempotency-Key was used with another request: use a new key.", code="key_reused")
        if row.status is not None:
            return (row.status, row.response), True
        if row.created_at > timezone.now() - _GIVEN_UP:
            raise Refused(
                "The first request with this Idempotency-Key is still being answered.", code="in_progress", status=409
            )
    try:
        status, response = answer()
    except BaseException:
        row.delete()
        raise
    IdempotencyKey.objects.filter(pk=row.pk).update(status=status, response=response)
    return (status, response), False

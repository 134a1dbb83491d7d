"""Answers a request with an idempotency key once. The same request again gets the same answer and changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from ingest.models import IdempotencyKey
from ingest.refusals import Refused

MAX_KEY_CHARS = 128
#: if no answer came (its process died), the request may be sent again after this time
_ABANDONED_AFTER = timedelta(minutes=2)

type Answer = tuple[int, Any]


def answer_once(*, user: Any, key: str, request: bytes, answer: Callable[[], Answer]) -> tuple[Answer, bool]:
    """The answer, and whether it is a stored one. Without a ``key`` nothing is stored.

    Raises :class:`Refused`: 422 for a key of another request, 409 while the first request is still being answered.
    """
    if not key:
        return answer(), False
    if len(key) > MAX_KEY_CHARS:
        raise Refused(
            f"The Idempotency-Key is longer than {MAX_KEY_CHARS} characters: use a UUID.", code="bad_key", status=400
        )
    digest = hashlib.sha256(request).hexdigest()
    row, is_first = IdempotencyKey.objects.get_or_create(user=user, key=key, defaults={"request_digest": digest})
    if not is_first:
        if row.request_digest != digest:
            raise Refused("This Idempotency-Key was used with another request: use a new key.", code="key_reused")
        if row.status is not None:
            return (row.status, row.response), True
        if row.created_at > timezone.now() - _ABANDONED_AFTER:
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

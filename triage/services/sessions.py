"""How long people stay signed in, and where: sessions end after a time without use, and at the latest some time after
the sign-in. allauth keeps a row for each session, with its browser and address.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from ingest.refusals import DATABASE_ERRORS

#: in a session: seconds since 1970 of its sign-in and of its last noted use
_SIGNED_IN_AT, _USED_AT = "signed_in_at", "used_at"
#: uses within this time, or a tenth of the time without use after which a session ends, are noted once
_NOTE_EVERY_S = 300.0
#: sessions of one person; a further sign-in ends the oldest
MAX_SESSIONS = 30
#: pages that refresh themselves send it: such a request is no use by a person
UNATTENDED = "Faultline-Unattended"


def session_begin(request: HttpRequest) -> None:
    """Note the sign-in in its session."""
    now = time.time()
    request.session[_SIGNED_IN_AT] = now
    _note_use(request, now)


def session_renew(request: HttpRequest) -> None:
    """Note that a person used the session, at most once in some minutes. Otherwise no query."""
    if UNATTENDED in request.headers or not request.user.is_authenticated:
        return
    now = time.time()
    idle_s = settings.SESSION_IDLE_S
    note_every_s = min(_NOTE_EVERY_S, idle_s / 10) if idle_s else _NOTE_EVERY_S
    if now - request.session.get(_USED_AT, 0) < note_every_s:
        return
    try:
        with transaction.atomic():
            UserSession.objects.create_from_request(request)
    except DATABASE_ERRORS:  # whoever only reads is answered, also while nothing can be written
        return
    except PermissionDenied:  # an address that no proxy of the site writes
        pass
    request.session.setdefault(_SIGNED_IN_AT, now)  # of a version that did not note it
    _note_use(request, now)


def _note_use(request: HttpRequest, now: float) -> None:
    session = request.session
    session[_USED_AT] = now
    end = session[_SIGNED_IN_AT] + settings.SESSION_MAX_S
    if settings.SESSION_IDLE_S:
        end = min(end, now + settings.SESSION_IDLE_S)
    session.set_expiry(datetime.fromtimestamp(end, UTC))


def oldest_sessions_end(*, person: Any) -> None:
    """Leave room for one more session of a person."""
    rows = UserSession.objects.filter(user_id=person.pk).order_by("-created_at", "-pk")
    for row in rows[MAX_SESSIONS - 1 :]:
        row.end()


def session_end(*, person: Any, pk: str) -> bool:
    """Sign a person out of one of the person's sessions; False if it has ended before."""
    row = UserSession.objects.filter(user_id=person.pk, pk=pk).first() if pk.isdecimal() and len(pk) < 19 else None
    if row is not None:
        row.end()
    return row is not None


def other_sessions_end(*, person: Any, kept_key: str | None) -> int:
    """Sign a person out everywhere but in the session ``kept_key``; returns how many sessions ended."""
    rows = list(UserSession.objects.filter(user_id=person.pk).exclude(session_key=kept_key))
    for row in rows:
        row.end()
    return len(rows)


def sessions_tidy() -> None:
    """Delete sessions that have ended, and what is known of them."""
    now = timezone.now()
    Session.objects.filter(expire_date__lt=now).delete()
    oldest = now - timedelta(seconds=settings.SESSION_MAX_S)
    UserSession.objects.filter(created_at__lt=oldest).delete()

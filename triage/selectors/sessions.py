"""Where a person is signed in."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from allauth.usersessions.models import UserSession

#: what a browser calls itself, the special ones first: most also say Chrome or Safari
_BROWSERS = ("Edg", "OPR", "Firefox", "Chrome", "Safari")
_TITLES = {"Edg": "Edge", "OPR": "Opera"}
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


class SignedIn(NamedTuple):
    """One session. ``where`` is browser and system as far as the browser tells them."""

    pk: int
    where: str
    said: str
    address: str
    signed_in_at: datetime
    used_at: datetime
    is_this: bool


def sessions_of(person: Any, *, this_key: str | None) -> list[SignedIn]:
    """A person's sessions that have not ended, the present one first, then the latest used. Two queries for each
    session, of which a person has few.
    """
    rows = UserSession.objects.purge_and_list(person)
    found = [
        SignedIn(
            row.pk,
            browser_name(row.user_agent),
            row.user_agent,
            row.ip,
            row.created_at,
            row.last_seen_at,
            row.session_key == this_key,
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: (one.is_this, one.used_at), reverse=True)


def browser_name(user_agent: str) -> str:
    """“Firefox on Linux”, or what can be told."""
    browser = next((name for name in _BROWSERS if re.search(rf"\b{name}[A-Za-z]*/", user_agent)), "")
    system = next((title for word, title in _SYSTEMS if word in user_agent), "")
    browser = _TITLES.get(browser, browser) or user_agent.partition("/")[0][:40] or "Unknown browser"
    return f"{browser} on {system}" if system else browser

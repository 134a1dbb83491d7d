"""Who has the page of an incident open. Kept in the cache alone: without it nobody is seen."""

from __future__ import annotations

from django.core.cache import cache

from triage.models import Incident

#: an open page asks at least every 30 s (`static/js/desk.js`); one that did not for so long is closed or hidden
SEEN_S = 45


def others_note(*, incident: Incident, name: str, now: float) -> list[str]:
    """Note that ``name`` has the page open; who else has, in order.

    :param now: seconds since 1970. Two notes at one moment may lose one of them until its page asks again.
    """
    key = f"looking-{incident.pk}"
    kept: dict[str, float] = cache.get(key) or {}
    fresh = {who: at for who, at in kept.items() if now - at < SEEN_S}
    cache.set(key, {**fresh, name: now}, SEEN_S)
    return sorted(who for who in fresh if who != name)

"""Template context of every page. Lazy: an error page that shows none of it makes no query."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from ingest.roles import ABILITIES, can
from triage.selectors.incidents import queue_count


def site(request: HttpRequest) -> dict[str, Any]:
    """``queue_count`` and ``may`` (the abilities of the signed-in person)."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {
            "may": {},
            "oidc_name": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
            "has_mail": settings.HAS_MAIL,
        }
    return {
        "queue_count": SimpleLazyObject(lambda: queue_count(user)),
        "may": {ability: can(user, ability) for ability in ABILITIES["admin"]},
        "q": request.GET.get("q", ""),
    }

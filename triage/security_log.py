"""One line of the log for each act that concerns security: who, from where, what. Logger ``triage.security_log``.

Names come from senders: they are shortened, and shown without hidden characters.
"""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.adapter import get_adapter
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from diagnosis.values.plain import text, visible

log = logging.getLogger(__name__)
_MAX_CHARS = 150


def note(act: str, *, request: HttpRequest | None, who: str = "", level: int = logging.INFO) -> None:
    """Write one line: ``sign-in failed: who=ada from=192.0.2.1``."""
    log.log(level, "%s: who=%s from=%s", act, _shown(who), _address(request))


def note_refusal(request: HttpRequest, status: int) -> None:
    """A request that the sender may not make (401, 403)."""
    user: Any = getattr(request, "user", None)
    who = user.get_username() if user is not None and user.is_authenticated else ""
    note(
        f"refused with {status}: {request.method} {_shown(request.path)}",
        request=request,
        who=who,
        level=logging.WARNING,
    )


def _shown(said: str) -> str:
    return " ".join(visible(text(said))[:_MAX_CHARS].split()) or "-"


def _address(request: HttpRequest | None) -> str:
    """The sender's address, behind as many proxies as the site has; “-” if there is no request or no address."""
    if request is None:
        return "-"
    try:
        return str(get_adapter(request).get_client_ip(request))
    except PermissionDenied:  # a header that no proxy of the site writes
        return "-"

"""Counts what each token or person asks for in a minute, over all protocols."""

from __future__ import annotations

import time
from typing import NamedTuple

from django.conf import settings
from django.core.cache import cache

_WINDOW_S = 60


class RateUse(NamedTuple):
    """Requests in this window, the limit, and seconds until the next window."""

    used: int
    limit: int
    reset_s: int

    @property
    def is_within(self) -> bool:
        return self.used <= self.limit


def rate_use(rate: str, who: str) -> RateUse:
    """Count a request of ``who`` in this fixed window. ``rate`` is the setting with the limit a minute.

    Without a cache nobody is limited: what people ask for matters more than limits.
    """
    window = int(time.time()) // _WINDOW_S
    key = f"rate:{rate}:{who}:{window}"
    try:
        count = _count_request(key)
    except Exception:  # any error of the cache's client
        count = 0
    return RateUse(int(count), getattr(settings, rate), (window + 1) * _WINDOW_S - int(time.time()))


def _count_request(key: str) -> int:
    """The count with this request. Only the first request of a window creates it: each step asks the cache's server."""
    try:
        return cache.incr(key)
    except ValueError:  # not there yet
        return 1 if cache.add(key, 1, _WINDOW_S + 5) else cache.incr(key)

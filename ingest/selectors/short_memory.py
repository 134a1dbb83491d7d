"""What many requests ask within seconds is read once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from django.core.cache import cache


def cached(key: str, read: Callable[[], Any], within_s: int) -> Any:
    """What was read within the last ``within_s`` seconds. Without a cache it is read again."""
    with contextlib.suppress(Exception):  # any error of the cache's client
        if (known := cache.get(key)) is not None:
            return known
    value = read()
    with contextlib.suppress(Exception):
        cache.set(key, value, within_s)
    return value

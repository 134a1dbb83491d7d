"""Answers that stay true until something happens: kept by the number of the last activity, not by the clock."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.core.cache import cache
from redis.exceptions import RedisError

from triage.models import Activity
from triage.selectors.access import visible_cluster_ids

log = logging.getLogger(__name__)

KEPT_S = 3600


def remembered[T](name: str, *, user: Any, parts: tuple[Any, ...], now: datetime, compute: Callable[[], T]) -> T:
    """What ``compute`` gives, taken from the cache where nothing was done since and the same hour still runs.

    Every act and every diagnosis writes an Activity row, so its highest number is the version of all that pages count.
    What a person may see is part of the key. No query where the session brought the version (``triage.auth``), else a
    small one; without a cache the answer is computed.
    """
    version = user.data_version if hasattr(user, "data_version") else _version()
    told = (name, version, now.strftime("%Y%m%d%H"), sorted(visible_cluster_ids(user)), user.pk, *map(str, parts))
    key = f"triage:{hashlib.sha256(repr(told).encode()).hexdigest()}"
    try:
        kept: T | None = cache.get(key)
        if kept is not None:
            return kept
        answer = compute()
        cache.set(key, answer, KEPT_S)
        return answer
    except RedisError as error:
        log.warning("the cache cannot be reached: %s", error)
        return compute()


def _version() -> int | None:
    return Activity.objects.order_by("-pk").values_list("pk", flat=True).first()

"""The cache. Nothing depends on it: an unreachable cache behaves like an empty one."""

from __future__ import annotations

import logging
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


class FaultTolerantCache(RedisCache):
    """Redis or Valkey; an empty cache while the server does not answer.

    Sign-in and rate limits use it, and an outage must lock nobody out. During an outage nothing is counted, so nothing
    is limited.
    """

    def add(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._try("add", True, *args, **kwargs))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._try("get", default, key, default, version)

    def set(self, *args: Any, **kwargs: Any) -> None:
        self._try("set", None, *args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._try("delete", False, *args, **kwargs))

    def incr(self, *args: Any, **kwargs: Any) -> int:
        return int(self._try("incr", 1, *args, **kwargs))

    def _try(self, name: str, otherwise: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(super(), name)(*args, **kwargs)
        except RedisError as error:
            log.warning("the cache cannot be reached: %s", error)
            return otherwise

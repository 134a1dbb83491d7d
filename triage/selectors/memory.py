"""Caches answers until the data changes: the key contains the data version, not a time."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db.models import CharField, Count, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat, Now
from redis.exceptions import RedisError

from triage.models import Activity, Incident
from triage.selectors.access import visible_cluster_ids

log = logging.getLogger(__name__)

CACHED_S = 3600
#: overlapping transactions may commit in another order than their activities' numbers. Two bulk acts write at most this
#: many rows, so that counting them detects a late one
OVERLAP_ROWS = 1000


def data_version(acts: QuerySet[Activity] | None = None) -> Concat:
    """The data version: a text that changes whenever the pages would change; an expression to annotate with.
    With ``acts`` it changes only with these.

    Every act and every diagnosis writes an Activity row in its own transaction. The first part is the highest number,
    the second the count of the latest rows, because a concurrent transaction may commit later. A snoozed incident wakes
    without an act: the third part is the last time at which one woke.
    """
    acts = Activity.objects.all() if acts is None else acts
    last = Subquery(acts.order_by("-pk").values("pk")[:1])
    newest = acts.order_by().filter(pk__gt=last - OVERLAP_ROWS)
    latest = newest.values(one=Value(1)).annotate(n=Count("pk")).values("n")
    woken = Incident.objects.filter(snoozed_until__lte=Now()).order_by("-snoozed_until").values("snoozed_until")[:1]
    parts = (last, Subquery(latest), Subquery(woken))
    texts = [Coalesce(Cast(part, CharField()), Value("-")) for part in parts]
    return Concat(texts[0], Value(" "), texts[1], Value(" "), texts[2], output_field=CharField())


def newest_acts(acts: QuerySet[Activity]) -> set[int]:
    """Ids of the latest of these acts, as far back as a late one may still commit. One query."""
    return set(acts.order_by("-pk").values_list("pk", flat=True)[:OVERLAP_ROWS])


def acts_since(
    acts: QuerySet[Activity], known: Collection[int], columns: tuple[str, ...]
) -> tuple[list[tuple[Any, ...]], set[int]]:
    """The ``columns`` of these acts that are not ``known`` (from a former call, or
    :func:`newest_acts`), and the ids to know at the next call.

    One query of ids, and one of columns if there are new acts.
    """
    since = acts.filter(pk__gt=max(known, default=0) - OVERLAP_ROWS).order_by()
    latest = set(since.values_list("pk", flat=True))
    fresh = latest.difference(known)
    if not fresh:
        return [], set(known)
    overlap = max(latest) - OVERLAP_ROWS
    # a range and not a list of ids: databases limit how many values a query has
    rows = since.filter(pk__gte=min(fresh)).values_list("pk", *columns)
    return [row for pk, *row in rows if pk in fresh], {pk for pk in latest if pk > overlap}


def cached_result[T](
    name: str,
    *,
    user: Any,
    parts: tuple[Any, ...],
    now: datetime,
    compute: Callable[[], T],
    is_personal: bool = False,
) -> T:
    """The result of ``compute``, from the cache if the data did not change and the hour is the same.

    The key contains what the person may see; and the person if the answer ``is_personal``. No query if the session has
    the version (``triage.auth``), else a small one. Without a cache it is computed.
    """

    renew = _if_missing(compute)
    parts = (_version(user), *parts)
    return updated_result(name, user=user, parts=parts, now=now, renew=renew, is_personal=is_personal)


def cached_evidence[T](
    name: str,
    *,
    user: Any,
    parts: tuple[Any, ...],
    now: datetime,
    compute: Callable[[], T],
    is_personal: bool = False,
) -> T:
    """As :func:`cached_result`, for what depends on jobs and attempts alone: what people decide
    about an incident leaves the result as it is. One small query.
    """
    of_evidence = Activity.objects.filter(Q(incident=None) | Q(kind="diagnosed"))
    person = get_user_model().objects.filter(pk=user.pk).order_by()
    versions = person.annotate(version=data_version(of_evidence)).values_list("version", flat=True)
    renew = _if_missing(compute)
    parts = (str(versions.first()), *parts)
    return updated_result(name, user=user, parts=parts, now=now, renew=renew, is_personal=is_personal)


def _if_missing[T](compute: Callable[[], T]) -> Callable[[T | None], T]:
    return lambda cached: compute() if cached is None else cached


def updated_result[T](
    name: str,
    *,
    user: Any,
    parts: tuple[Any, ...],
    now: datetime,
    renew: Callable[[T | None], T],
    is_personal: bool = False,
    cached_s: float = CACHED_S,
) -> T:
    """The result of ``renew``, which gets its own result of the same hour or None; stored for the next call.

    Keys are those of :func:`cached_result` without the version: ``renew`` itself finds what changed, and returns the
    same object if nothing has to be stored.
    """
    person = user.pk if is_personal else None
    key_parts = (name, now.strftime("%Y%m%d%H"), sorted(visible_cluster_ids(user)), person, *map(str, parts))
    key = f"triage:{hashlib.sha256(repr(key_parts).encode()).hexdigest()}"
    try:
        cached: T | None = cache.get(key)
    except RedisError as error:
        log.warning("the cache cannot be reached: %s", error)
        return renew(None)
    answer = renew(cached)
    if answer is not cached:
        try:
            cache.set(key, answer, cached_s)
        except RedisError as error:
            log.warning("the cache cannot be reached: %s", error)
    return answer


def _version(user: Any) -> str:
    """The version at the start of the request: what is computed later can only be newer."""
    if hasattr(user, "data_version"):
        return str(user.data_version)
    users = get_user_model().objects.filter(pk=user.pk).order_by()
    return str(users.annotate(version=data_version()).values_list("version", flat=True).first())

"""Answers that stay true until something happens: kept by the version of the data, not by the clock."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db.models import CharField, Count, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat, Now
from redis.exceptions import RedisError

from triage.models import Activity, Incident
from triage.selectors.access import visible_cluster_ids

log = logging.getLogger(__name__)

KEPT_S = 3600
#: transactions that overlap may commit in another order than that of their activities' numbers; two bulk acts do not
#: write more rows than these, so that a late one is noticed by how many there are
OVERLAP = 1000


def data_version() -> Concat:
    """What pages count, as one text that changes whenever they would change; an expression to annotate with.

    Every act and every diagnosis writes an Activity row in its own transaction: the highest number tells of them, and
    the number of the latest rows of those that a concurrent transaction overtook. A snoozed incident wakes without an
    act: the last time at which one woke is the third part.
    """
    acts = Activity.objects.order_by()
    last = Subquery(Activity.objects.order_by("-pk").values("pk")[:1])
    latest = acts.filter(pk__gt=last - OVERLAP).values(one=Value(1)).annotate(n=Count("pk")).values("n")
    woken = Incident.objects.filter(snoozed_until__lte=Now()).order_by("-snoozed_until").values("snoozed_until")[:1]
    parts = (last, Subquery(latest), Subquery(woken))
    told = [Coalesce(Cast(part, CharField()), Value("-")) for part in parts]
    return Concat(told[0], Value(" "), told[1], Value(" "), told[2], output_field=CharField())


def remembered[T](
    name: str,
    *,
    user: Any,
    parts: tuple[Any, ...],
    now: datetime,
    compute: Callable[[], T],
    is_personal: bool = False,
) -> T:
    """What ``compute`` gives, taken from the cache where nothing was done since and the same hour still runs.

    What a person may see is part of the key; so is the person where the answer ``is_personal``. No query where the
    session brought the version (``triage.auth``), else a small one; without a cache the answer is computed.
    """

    def fresh(kept: T | None) -> T:
        return compute() if kept is None else kept

    parts = (_version(user), *parts)
    return renewed(name, user=user, parts=parts, now=now, renew=fresh, is_personal=is_personal)


def renewed[T](
    name: str,
    *,
    user: Any,
    parts: tuple[Any, ...],
    now: datetime,
    renew: Callable[[T | None], T],
    is_personal: bool = False,
    kept_s: float = KEPT_S,
) -> T:
    """What ``renew`` makes of what it gave last time in the same hour, or of None; kept for the next time.

    Keys are those of :func:`remembered` but for the version: ``renew`` finds out itself what happened since, and gives
    the very same object back where nothing is to be kept anew.
    """
    person = user.pk if is_personal else None
    told = (name, now.strftime("%Y%m%d%H"), sorted(visible_cluster_ids(user)), person, *map(str, parts))
    key = f"triage:{hashlib.sha256(repr(told).encode()).hexdigest()}"
    try:
        kept: T | None = cache.get(key)
    except RedisError as error:
        log.warning("the cache cannot be reached: %s", error)
        return renew(None)
    answer = renew(kept)
    if answer is not kept:
        try:
            cache.set(key, answer, kept_s)
        except RedisError as error:
            log.warning("the cache cannot be reached: %s", error)
    return answer


def _version(user: Any) -> str:
    """The version as of the request's beginning: what is computed later can only be newer than it says."""
    if hasattr(user, "data_version"):
        return str(user.data_version)
    users = get_user_model().objects.filter(pk=user.pk).order_by()
    return str(users.annotate(version=data_version()).values_list("version", flat=True).first())

"""Sends messages: each route's in order, many routes at once; tries again with back-off, gives up, records.

One worker at a time holds a route. While its receiver fails, the route waits, not its single messages; another route
never waits for it, because each route has a thread of its own. The database is used by the calling thread alone, which
records all results that came while it recorded the ones before.
"""

from __future__ import annotations

import logging
import queue
import time as clock
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from ingest import processes
from ingest.refusals import DATABASE_ERRORS
from triage.destinations import ALL
from triage.models import Delivery, Reference, Route
from triage.models.route import About
from triage.selectors.routes import may_receive
from triage.services.exchanging import Hold, Result, hold_send
from triage.services.outbox import PING, routes_wake
from triage.services.recording import results_keep

log = logging.getLogger(__name__)

#: a sender renews its claims while it waits; one that was silent for this long has died
_LEASE = timedelta(seconds=10)
_RENEW_S = 2.0
#: of a follower, a message that waited for longer is replaced by a later one on the same incident
_STALE_AFTER = timedelta(minutes=1)
_KEPT_FOR = timedelta(days=30)
#: routes that one worker serves at once, not counting those that wait for a slow receiver; and in all
MAX_FAST_HOLDS, MAX_HOLDS = 16, 64
#: for how many seconds it takes new messages before others get a turn; while it waits for a slow receiver, for longer
SLICE_S, LIMIT_S = 3.0, 30.0
#: a route with many messages is held for so long, or for so many messages, before others get a turn
HOLD_S, MAX_BATCH = 1.0, 50
#: a route that was never served comes first on every database
_LONGEST_UNSERVED = F("claimed_until").asc(nulls_first=True)
#: a receiver that takes longer is slow
_SLOW_S = 1.0
#: how often it looks for due routes while it waits for answers; less often while there are none
_POLL_S, _POLL_MAX_S = 0.1, 0.5
#: how often it looks for routes whose holder was killed
_FREE_CLAIMS_EVERY_S = 1.0


def routes_send() -> None:
    """Send what is due, for ``SLICE_S`` seconds. Safe to call from many workers at once.

    Ends when nothing is due and every result is recorded. While it waits for a slow receiver it continues to send on
    other routes, up to ``LIMIT_S``. If its time is over first, another worker is woken.
    """
    results: queue.SimpleQueue[Result] = queue.SimpleQueue()
    try:
        with ThreadPoolExecutor(MAX_HOLDS, thread_name_prefix="route") as pool:
            _holds_serve(pool, results)
    except BaseException:
        if last_results := _collect_results(results):  # what was sent must not be sent again
            results_keep(last_results)
        raise


def _holds_serve(pool: ThreadPoolExecutor, results: queue.SimpleQueue[Result]) -> None:
    service = _Service(pool, results)
    while True:
        is_open = service.is_open()
        if is_open and service.is_time_to_look():
            service.take_routes()
        if not is_open:
            service.wake_another()  # before it waits for the last answers
        if not service.holds:
            return
        service.record_results()
        service.renew_claims()


@dataclass(slots=True)
class _Service:
    """One worker's turn: the routes that it holds, by claim, and when it last did what it does from time to time (s of
    the process's clock).
    """

    pool: ThreadPoolExecutor
    results: queue.SimpleQueue[Result]
    holds: dict[str, Hold] = field(default_factory=dict)
    began: float = field(default_factory=clock.monotonic)
    renewed_at: float = field(default_factory=clock.monotonic)
    look_at: float = 0.0
    free_claims_at: float = 0.0
    pause_s: float = _POLL_S
    is_woken: bool = False

    def is_open(self) -> bool:
        """Whether it still takes new messages: for longer while it waits for a slow receiver."""
        limit_s = LIMIT_S if self._slow_count() else SLICE_S
        return clock.monotonic() - self.began < limit_s

    def _slow_count(self) -> int:
        slow_before = clock.monotonic() - _SLOW_S
        return sum(hold.began < slow_before for hold in self.holds.values())

    def is_time_to_look(self) -> bool:
        return not self.holds or clock.monotonic() >= self.look_at

    def take_routes(self) -> None:
        """Claim due routes and send on them; look again soon if there were any, else later and later."""
        self.pause_s = min(2 * self.pause_s, _POLL_MAX_S)
        with _outage_survived(self.holds):
            self._free_claims()
            most = min(MAX_FAST_HOLDS + self._slow_count(), MAX_HOLDS)
            for hold in _claim_routes(most - len(self.holds), held=self.holds.values()):
                self.holds[hold.claim] = hold
                self.pool.submit(hold_send, hold, self.results.put)
                self.pause_s = _POLL_S
        self.look_at = clock.monotonic() + self.pause_s

    def _free_claims(self) -> None:
        now = clock.monotonic()
        if now >= self.free_claims_at:
            claims_free()
            self.free_claims_at = now + _FREE_CLAIMS_EVERY_S

    def wake_another(self) -> None:
        """Wake another worker once, if messages are left."""
        if self.is_woken:
            return
        self.is_woken = True
        with _outage_survived(self.holds):
            if is_due():
                routes_wake()

    def record_results(self) -> None:
        """Record the results that came; a route whose messages are all sent is not held any more."""
        new_results = _collect_results(self.results)
        if not new_results:
            return
        results_keep(new_results)
        for result in new_results:
            if result.delivery is None:
                del self.holds[result.hold.claim]
                self.look_at = 0.0

    def renew_claims(self) -> None:
        """Hold the routes for longer, from time to time."""
        if clock.monotonic() - self.renewed_at <= _RENEW_S:
            return
        with _outage_survived(self.holds):
            _renew(self.holds)
        self.renewed_at = clock.monotonic()


@contextmanager
def _outage_survived(holds: Collection[str]) -> Iterator[None]:
    """While messages are under way, an error of the database ends nothing: their results are still to be recorded."""
    try:
        yield
    except DATABASE_ERRORS as error:
        if not holds:
            raise
        log.warning("the database refuses while %d routes are served: %s", len(holds), str(error).strip())
        connection.close_if_unusable_or_obsolete()


def is_due() -> bool:
    """Whether a message waits for a worker: the sweep wakes one."""
    return _due_routes(timezone.now()).exists()


def claims_free() -> None:
    """End the claims of processes of this machine that have ended: nobody waits until these would end by themselves.
    Their ``holder`` stays, which shows that they were not released.
    """
    holders = Route.objects.filter(claimed_until__gt=timezone.now()).exclude(holder="").values_list("holder", flat=True)
    for claim in holders:
        if processes.has_ended(claim.rpartition("/")[0]):
            Route.objects.filter(holder=claim).update(claimed_until=timezone.now())


def deliveries_tidy() -> None:
    """Delete finished messages that are older than a month."""
    old = Delivery.objects.filter(created_at__lt=timezone.now() - _KEPT_FOR).exclude(state=Delivery.State.WAITING)
    old.delete()


def quiet_end(route: Route, now: datetime) -> datetime | None:
    """When the quiet hours end that the route is in now; None outside of them."""
    if route.quiet_from is None or route.quiet_until is None or route.quiet_from == route.quiet_until:
        return None
    zone = ZoneInfo(route.zone)
    local_now = now.astimezone(zone)
    local_time, begin, end = local_now.time(), route.quiet_from, route.quiet_until
    if not (begin <= local_time < end if begin < end else (local_time >= begin or local_time < end)):
        return None
    day = local_now.date() if local_time < end else local_now.date() + timedelta(days=1)
    return datetime.combine(day, time(end.hour, end.minute, end.second), tzinfo=zone)


def _collect_results(results: queue.SimpleQueue[Result]) -> list[Result]:
    """All results that there are, after a short wait for the first."""
    collected: list[Result] = []
    try:
        collected.append(results.get(timeout=_POLL_S))
        while True:
            collected.append(results.get_nowait())
    except queue.Empty:
        return collected


def _due_routes(now: datetime) -> QuerySet[Route]:
    """Routes that nobody holds and that have something to send now."""
    waiting = Delivery.objects.filter(route=OuterRef("pk"), state=Delivery.State.WAITING)
    in_order = Exists(waiting.filter(is_in_order=True))
    other = Exists(waiting.filter(is_in_order=False, due_at__lte=now))
    is_free = Q(claimed_until=None) | Q(claimed_until__lte=now)
    is_open = Q(resume_at=None) | Q(resume_at__lte=now)
    return Route.objects.filter(is_free).filter((is_open & Q(in_order)) | Q(other))


def _claim_routes(max_routes: int, *, held: Iterable[Hold]) -> Iterator[Hold]:
    """Claim up to ``max_routes`` routes with due messages, and load their next messages. Leaves out routes ``held``
    here, even if their claims have ended."""
    if max_routes <= 0:
        return
    now = timezone.now()
    due = _due_routes(now).exclude(pk__in=[hold.route.pk for hold in held]).order_by(_LONGEST_UNSERVED, "pk")
    for route in due.select_related("owner", "team")[:max_routes]:
        is_same = Q(claimed_until=route.claimed_until) if route.claimed_until else Q(claimed_until=None)
        claim = f"{processes.process_name()}/{uuid.uuid4().hex}"
        with transaction.atomic():
            if not Route.objects.filter(is_same, pk=route.pk).update(claimed_until=now + _LEASE, holder=claim):
                continue
            deliveries = _next_deliveries(route, now)
            if deliveries and route.holder:  # of a claim that was not released: it may have sent the first of them
                Delivery.objects.filter(pk=deliveries[0].pk).update(is_repeated=True)
            if not deliveries:
                Route.objects.filter(pk=route.pk).update(claimed_until=now, holder="")
        if deliveries:
            until = clock.monotonic() + HOLD_S
            yield Hold(
                route, claim, deliveries, _stop_reasons(route, deliveries), _stored_references(route, deliveries), until
            )


def _renew(claims: Collection[str]) -> None:
    """Hold these routes for longer, except those that another worker has claimed."""
    Route.objects.filter(holder__in=claims).update(claimed_until=timezone.now() + _LEASE)


def _next_deliveries(route: Route, now: datetime) -> list[Delivery]:
    """The messages that the holder of the route sends now: the oldest first, those out of order before them.

    Of a follower, stale ones that a later message on their incident makes superfluous are replaced.
    """
    waiting = Delivery.objects.filter(route=route, state=Delivery.State.WAITING)
    due = Q(is_in_order=False, due_at__lte=now)
    if route.resume_at is None or route.resume_at <= now:
        if end := quiet_end(route, now):
            Route.objects.filter(pk=route.pk).update(resume_at=end)
        else:
            due |= Q(is_in_order=True)
    while deliveries := list(waiting.filter(due).order_by("is_in_order", "created_at", "id")[:MAX_BATCH]):
        replaced = _superseded(waiting, deliveries, now) if ALL[route.kind].is_following else set()
        if replaced:
            Delivery.objects.filter(pk__in=replaced).update(state=Delivery.State.REPLACED, due_at=None)
        if remaining := [delivery for delivery in deliveries if delivery.pk not in replaced]:
            return remaining
    return []


def _superseded(waiting: QuerySet[Delivery], deliveries: Sequence[Delivery], now: datetime) -> set[Any]:
    """Those that waited for long, and after which a later message on the same incident waits."""
    stale = [row for row in deliveries if row.incident_id and row.is_in_order and row.created_at < now - _STALE_AFTER]
    if not stale:
        return set()
    of_these = waiting.filter(is_in_order=True, incident__in={row.incident_id for row in stale})
    last: dict[Any, Any] = dict(of_these.order_by("created_at", "id").values_list("incident", "pk"))
    return {row.pk for row in stale if last.get(row.incident_id) != row.pk}


def _stored_references(route: Route, deliveries: Sequence[Delivery]) -> dict[About, dict[str, Any]]:
    """What the destination made of the incidents and nodes; nothing is made of them by a program's receiver."""
    ids: dict[str, set[int]] = {}
    for row in deliveries:
        if row.about is not None:
            ids.setdefault(row.about[0], set()).add(row.about[1])
    if ALL[route.kind].is_program:
        return {}
    stored: dict[About, dict[str, Any]] = {}
    for name, pks in ids.items():
        rows = Reference.objects.filter(route=route, **{f"{name}__in": pks})
        stored |= {row.about: row.data for row in rows if row.about is not None}
    return stored


def _stop_reasons(route: Route, deliveries: Sequence[Delivery]) -> dict[Any, str]:
    """By message, why it must not be sent any more."""
    without_pings = [row for row in deliveries if row.event != PING]
    if not route.is_active:
        return dict.fromkeys((row.pk for row in without_pings), "The route was switched off before this could be sent.")
    clusters = {row.cluster_id for row in without_pings}
    allowed = {cluster: may_receive(route, cluster) for cluster in clusters}
    why = "The route's keeper has no access to this any more: it was not sent."
    return {row.pk: why for row in without_pings if not allowed[row.cluster_id]}

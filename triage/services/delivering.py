"""Sends messages: each route's in order, many routes at once; tries again with back-off, gives up, records.

One worker at a time holds a route. While its receiver fails, the route waits, not its single messages; another route
never waits for it, because requests run in threads of their own. The database is used by the calling thread alone.
"""

from __future__ import annotations

import logging
import random
import time as clock
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from triage.destinations import ALL, Destination, Mail, Reading, Request
from triage.domain.route_message import message_of
from triage.models import Delivery, Reference, Route
from triage.selectors.routes import may_receive
from triage.services import outbound
from triage.services.routes import PING, address_of, routes_wake

log = logging.getLogger(__name__)

#: delay after the first, second … failed try; a day and a half in total
BACKOFF_S = (5, 30, 120, 600, 3600, 4 * 3600, 10 * 3600, 20 * 3600)
#: a sender renews its claims while it waits; one that was silent for this long has died
_LEASE = timedelta(seconds=10)
_RENEW_S = 2.0
#: this many failed messages in a row switch a route off
GIVEN_UP_MAX = 20
#: tries that a message which the receiver refuses holds up later ones
_REFUSED_TRIES = 3
#: of a follower, a message that waited for longer is replaced by a later one on the same incident
_STALE = timedelta(minutes=1)
_KEPT_ANSWER = 500
_KEPT_ATTEMPTS = 30
_KEPT = timedelta(days=30)
_GONE = 410
#: routes that one worker serves at once, and for how many seconds it takes new messages before others get a turn
LANES = 16
SLICE_S, LIMIT_S = 3.0, 30.0
#: a route with many messages is held for so long before others get a turn
HOLD_S = 1.0
#: a route that was never served comes first on every database
_LONGEST_UNSERVED = F("claimed_until").asc(nulls_first=True)
#: a receiver that takes longer is slow
_SLOW_S = 1.0
_POLL_S = 0.1


class _Job(NamedTuple):
    """One message in work: what to send, or why it must not be sent."""

    route: Route
    delivery: Delivery
    kind: Destination
    requests: Sequence[Request | Mail]
    reason: str
    began: float
    #: since when this worker has held the route
    held_since: float


class _Outcome(NamedTuple):
    answer: outbound.Answer
    reading: Reading


def routes_send() -> None:
    """Send what is due, for ``SLICE_S`` seconds. Safe to call from many workers at once.

    Ends when nothing is due and every answer is recorded. While it waits for a slow receiver it goes on sending on
    other routes, up to ``LIMIT_S``. If its time is over first, another worker is woken. A route is held for up to
    ``HOLD_S`` seconds: its next message is taken in the transaction that records the one before.
    """
    began, is_open, look_at = clock.monotonic(), True, 0.0
    renewed = began
    running: dict[Future[_Outcome], _Job] = {}
    with ThreadPoolExecutor(LANES, thread_name_prefix="route") as pool:
        while True:
            now = clock.monotonic()
            is_waiting = any(now - job.began > _SLOW_S for job in running.values())
            is_open = now - began < (LIMIT_S if is_waiting else SLICE_S)
            if is_open and (now >= look_at or not running):
                while len(running) < LANES and (job := _next_job(held={j.route.pk for j in running.values()})):
                    running[pool.submit(_exchange, job)] = job
                look_at = clock.monotonic() + _POLL_S
            if not running:
                break
            done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                job = running.pop(future)
                is_more = is_open and clock.monotonic() - job.held_since < HOLD_S
                if (following := _record(job, future.result(), is_more=is_more)) is not None:
                    running[pool.submit(_exchange, following)] = following
            if clock.monotonic() - renewed > _RENEW_S:
                _renew(running.values())
                renewed = clock.monotonic()
    if not is_open and _due_routes(timezone.now()).exists():
        routes_wake()


def is_due() -> bool:
    """Whether a message waits for a worker: the sweep wakes one."""
    return _due_routes(timezone.now()).exists()


def deliveries_tidy() -> None:
    """Delete finished messages that are older than a month."""
    old = Delivery.objects.filter(created_at__lt=timezone.now() - _KEPT).exclude(state=Delivery.State.WAITING)
    old.delete()


def quiet_end(route: Route, now: datetime) -> datetime | None:
    """When the quiet hours end that the route is in now; None outside of them."""
    if route.quiet_from is None or route.quiet_until is None or route.quiet_from == route.quiet_until:
        return None
    zone = ZoneInfo(route.zone)
    here = now.astimezone(zone)
    at, begin, end = here.time(), route.quiet_from, route.quiet_until
    if not (begin <= at < end if begin < end else (at >= begin or at < end)):
        return None
    day = here.date() if at < end else here.date() + timedelta(days=1)
    return datetime.combine(day, time(end.hour, end.minute, end.second), tzinfo=zone)


def _due_routes(now: datetime) -> QuerySet[Route]:
    """Routes that nobody holds and that have something to send now."""
    waiting = Delivery.objects.filter(route=OuterRef("pk"), state=Delivery.State.WAITING)
    in_order = Exists(waiting.filter(is_in_order=True))
    other = Exists(waiting.filter(is_in_order=False, due_at__lte=now))
    is_free = Q(claimed_until=None) | Q(claimed_until__lte=now)
    is_open = Q(resume_at=None) | Q(resume_at__lte=now)
    return Route.objects.filter(is_free).filter((is_open & Q(in_order)) | Q(other))


def _next_job(*, held: set[int]) -> _Job | None:
    """Claim a route with a due message, and the message. None if nothing is due."""
    now = timezone.now()
    due = _due_routes(now).exclude(pk__in=held).order_by(_LONGEST_UNSERVED, "pk")
    for route in due.select_related("owner", "team"):
        is_same = Q(claimed_until=route.claimed_until) if route.claimed_until else Q(claimed_until=None)
        with transaction.atomic():
            if not Route.objects.filter(is_same, pk=route.pk).update(claimed_until=now + _LEASE):
                continue
            delivery = _next_delivery(route, now)
            if delivery is None:
                Route.objects.filter(pk=route.pk).update(claimed_until=now)
        if delivery is not None:
            return _prepared(route, delivery, now, clock.monotonic())
    return None


def _renew(jobs: Collection[_Job]) -> None:
    """Hold the routes of these messages for longer, except where another worker has taken the message."""
    for job in jobs:
        mine = Delivery.objects.filter(pk=job.delivery.pk, tries=job.delivery.tries, state=Delivery.State.WAITING)
        held = Route.objects.filter(Exists(mine), pk=job.route.pk)
        held.update(claimed_until=timezone.now() + _LEASE)


def _next_delivery(route: Route, now: datetime) -> Delivery | None:
    """The message that the holder of the route sends now. Its try is counted before it is sent."""
    waiting = Delivery.objects.filter(route=route, state=Delivery.State.WAITING)
    due = Q(is_in_order=False, due_at__lte=now)
    if route.resume_at is None or route.resume_at <= now:
        if end := quiet_end(route, now):
            Route.objects.filter(pk=route.pk).update(resume_at=end)
        else:
            due |= Q(is_in_order=True)
    delivery = _first(route, waiting, due, now)
    if delivery is None or not waiting.filter(pk=delivery.pk, tries=delivery.tries).update(tries=F("tries") + 1):
        return None
    delivery.tries += 1
    return delivery


def _first(route: Route, waiting: QuerySet[Delivery], due: Q, now: datetime) -> Delivery | None:
    """The oldest message, those out of order first. Of a follower, stale ones that a later message on their incident
    makes superfluous are replaced."""
    while (delivery := waiting.filter(due).order_by("is_in_order", "created_at", "id").first()) is not None:
        is_stale = delivery.incident_id is not None and delivery.created_at < now - _STALE
        if not (ALL[route.kind].is_following and is_stale and delivery.is_in_order):
            return delivery
        if not waiting.filter(is_in_order=True, incident=delivery.incident_id).exclude(pk=delivery.pk).exists():
            return delivery
        Delivery.objects.filter(pk=delivery.pk).update(state=Delivery.State.REPLACED, due_at=None)
    return None


def _prepared(route: Route, delivery: Delivery, now: datetime, held_since: float) -> _Job:
    kind = ALL[route.kind]
    reason = _stop_reason(delivery, route)
    requests: Sequence[Request | Mail] = ()
    if not reason:
        known = None  # nothing is made of an incident there by a program's receiver
        if delivery.incident_id is not None and not kind.is_program:
            known = Reference.objects.filter(route=route, incident=delivery.incident_id).first()
        try:
            message = message_of(delivery.body, key=f"msg_{delivery.pk.hex}")
            requests = kind.render(message, address_of(route, now=now), known.data if known else {}, now)
        except Exception as error:  # what is in an event may surprise a kind: one message is lost, not the route
            log.exception("message %s could not be written", delivery.pk)
            reason = f"The message could not be written ({type(error).__name__})."
    return _Job(route, delivery, kind, requests, reason, clock.monotonic(), held_since)


def _stop_reason(delivery: Delivery, route: Route) -> str:
    """Why this message must not be sent any more; empty if it may."""
    if delivery.event == PING:
        return ""
    if not route.is_active:
        return "The route was switched off before this could be sent."
    if not may_receive(route, delivery.cluster_id):
        return "The route's keeper has no access to this any more: it was not sent."
    return ""


def _exchange(job: _Job) -> _Outcome:
    """Send the requests of one message in order, up to the first that fails. Runs in a thread; uses no database."""
    answers = []
    for request in job.requests:
        answer = outbound.send(request)
        if not 200 <= answer.status < 300:
            return _Outcome(answer, Reading())
        answers.append(answer)
    if not answers:
        return _Outcome(outbound.Answer(0, "", job.reason or "There was nothing to send.", 0), Reading())
    return _Outcome(answers[-1], job.kind.read([answer.text for answer in answers]))


def _record(job: _Job, outcome: _Outcome, *, is_more: bool) -> _Job | None:
    """Record the result of a try; with ``is_more`` take the route's next message, else let go of the route."""
    with transaction.atomic():
        if not _result_keep(job, outcome):
            return None  # another worker took the message meanwhile
        now = timezone.now()
        route = Route.objects.select_related("owner", "team").filter(pk=job.route.pk).first() if is_more else None
        delivery = _next_delivery(route, now) if route else None
        until = now + _LEASE if delivery else now  # the longest unserved is next
        Route.objects.filter(pk=job.route.pk).update(claimed_until=until)
    return _prepared(route, delivery, now, job.held_since) if route and delivery else None


def _result_keep(job: _Job, outcome: _Outcome) -> bool:
    """Store what a try resulted in. Only the holder of the latest claim may do that: False for any other."""
    route, delivery, answer = job.route, job.delivery, outcome.answer
    error = answer.error or outcome.reading.error
    is_there = 200 <= answer.status < 300 and not error
    if not error and 300 <= answer.status < 400:
        error = "It redirects, which is not followed: give the route the address that it redirects to."
    is_over = not is_there and (bool(job.reason) or answer.status == _GONE or delivery.tries > len(BACKOFF_S))
    state = Delivery.State.DELIVERED if is_there else Delivery.State.GIVEN_UP if is_over else Delivery.State.WAITING
    now = timezone.now()
    due_at = now + _retry_delay(delivery.tries, answer) if state == Delivery.State.WAITING else None
    is_refused = answer.status not in (408, 425, 429) and (400 <= answer.status < 500 or answer.status == 200)
    is_in_order = delivery.is_in_order and not (is_refused and due_at and delivery.tries >= _REFUSED_TRIES)
    row = {
        "at": now.isoformat(),
        "status": answer.status or None,
        "said": answer.text[:_KEPT_ANSWER],
        "error": error,
        "ms": answer.duration_ms,
    }
    held = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING, tries=delivery.tries)
    kept = held.update(
        state=state,
        attempts=[*delivery.attempts, row][-_KEPT_ATTEMPTS:],
        delivered_at=now if is_there else None,
        due_at=due_at,
        is_in_order=is_in_order,
    )
    if not kept:
        return False
    resume_at = due_at if is_in_order else None
    if delivery.is_in_order and resume_at != route.resume_at:
        Route.objects.filter(pk=route.pk).update(resume_at=resume_at)
    if is_there and delivery.incident_id is not None and outcome.reading.reference is not None:
        _refer(route, delivery.incident_id, outcome.reading)
    if not job.reason and delivery.event != PING:
        _count(route, state, answer, error)
    return True


def _refer(route: Route, incident_id: int, reading: Reading) -> None:
    """Keep what the destination made of the incident, for later messages."""
    values = {"data": reading.reference, "url": reading.url, "title": reading.title, "state": reading.state}
    Reference.objects.update_or_create(route=route, incident_id=incident_id, defaults=values)


def _count(route: Route, state: str, answer: outbound.Answer, error: str) -> None:
    """Switch a route off whose receiver is gone for good."""
    rows = Route.objects.filter(pk=route.pk)
    if state == Delivery.State.DELIVERED:
        if route.given_up:
            rows.update(given_up=0)
    elif answer.status == _GONE:
        _switch_off(route, "The receiver answered 410 Gone.")
    elif state == Delivery.State.GIVEN_UP:
        rows.update(given_up=F("given_up") + 1)
        if rows.filter(given_up__gte=GIVEN_UP_MAX).exists():
            said = error or answer.status
            _switch_off(route, f"{GIVEN_UP_MAX} messages in a row did not arrive, the last one: {said}")


def _retry_delay(tries: int, answer: outbound.Answer) -> timedelta:
    """The delay after so many tries: back-off with 10 % jitter, longer if the receiver asks for it."""
    wait_s = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1] * random.uniform(0.9, 1.1)  # noqa: S311  # spreads load
    if answer.status in (429, 503) and answer.retry_after_s is not None:
        wait_s = max(wait_s, min(answer.retry_after_s, BACKOFF_S[-1]))
    return timedelta(seconds=wait_s)


def _switch_off(route: Route, why: str) -> None:
    log.warning("route %s is switched off: %s", route.pk, why)
    Route.objects.filter(pk=route.pk).update(is_active=False, problem=why[:300])

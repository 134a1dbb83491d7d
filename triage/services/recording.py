"""Records what became of messages: many results in one transaction, and only those of a worker that holds the route.

What was sent cannot be taken back, so a recording that fails is repeated, never the sending.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.refusals import DATABASE_ERRORS
from triage.models import Delivery, Incident, Reference, Route
from triage.models.route import About
from triage.services import outbound
from triage.services.exchanging import Hold, Result
from triage.services.outbox import PING

log = logging.getLogger(__name__)

#: delay after the first, second … failed try; a day and a half in total
BACKOFF_S = (5, 30, 120, 600, 3600, 4 * 3600, 10 * 3600, 20 * 3600)
#: this many failed messages in a row switch a route off
MAX_GIVEN_UP = 20
#: tries that a message which the receiver refuses holds up later ones
_MAX_REFUSED_TRIES = 3
_MAX_ANSWER_CHARS = 500
_MAX_ATTEMPTS = 30
_HTTP_GONE = 410
#: seconds between attempts to record while the database refuses; then the worker gives up. Short at first: after an
#: outage it must come before another worker that takes the route over and sends again
_RECORD_AGAIN_S = (0.05, 0.1, 0.2, *(0.5,) * 600)


def results_keep(results: Sequence[Result]) -> None:
    """:func:`results_record`, repeated while the database does not take it: after a deadlock, a restart, a lock that
    is held for long, or if an incident was deleted meanwhile. Gives up after five minutes.
    """
    for pause_s in _RECORD_AGAIN_S:
        try:
            results_record(results)
        except (*DATABASE_ERRORS, IntegrityError) as error:
            log.warning("%d results of messages are recorded again: %s", len(results), str(error).strip())
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
            time.sleep(pause_s)
        else:
            return
    results_record(results)


@transaction.atomic
def results_record(results: Sequence[Result]) -> None:
    """Store the results of tries, and release the routes whose holds have ended.

    Results of a hold whose route was claimed by another worker in between are dropped: that worker sends again, and
    the messages are marked. Four queries for any number of messages that arrived, about four more for each that did
    not. Changes no argument before the end of the transaction, so that it may be repeated.
    """
    claims = {result.hold.claim for result in results}
    held_claims = set(lock_rows(Route.objects.filter(holder__in=claims)).values_list("holder", flat=True))
    own_results = [result for result in results if result.hold.claim in held_claims]
    _mark_repeated([result for result in results if result.hold.claim not in held_claims])
    deliveries = [result for result in own_results if result.delivery is not None]
    now = timezone.now()
    _record_delivered([result for result in deliveries if result.is_delivered], now)
    for result in deliveries:
        if not result.is_delivered:
            _record_failure(result, now)
    if ended := [result.hold.claim for result in own_results if result.delivery is None]:
        # the longest unserved is next
        Route.objects.filter(holder__in=ended).update(claimed_until=now, holder="")


def _mark_repeated(lost_results: Collection[Result]) -> None:
    """Mark the messages that arrived though their route belonged to another worker by then, which sends them again."""
    arrived = [result.delivery.pk for result in lost_results if result.delivery is not None and result.is_delivered]
    if arrived:
        log.warning("%d messages are sent again: their route was taken over meanwhile", len(arrived))
        Delivery.objects.filter(pk__in=arrived).update(is_repeated=True)


def _record_delivered(results: Collection[Result], now: datetime) -> None:
    if not results:
        return
    rows = [
        Delivery(pk=result.delivery.pk, attempts=_attempts(result, result.delivery, now))
        for result in results
        if result.delivery is not None
    ]
    waiting = Delivery.objects.filter(pk__in=[row.pk for row in rows], state=Delivery.State.WAITING)
    waiting.update(state=Delivery.State.DELIVERED, delivered_at=now, due_at=None, tries=F("tries") + 1)
    Delivery.objects.bulk_update(rows, ["attempts"])
    _store_references(results, now)
    for hold in {id(result.hold): result.hold for result in results}.values():
        _reset_failures(hold, [result for result in results if result.hold is hold])


def _reset_failures(hold: Hold, results: Collection[Result]) -> None:
    """The receiver works: nothing holds the route up, and failures before do not count."""
    changes: dict[str, Any] = {}
    if hold.route.resume_at and any(result.delivery and result.delivery.is_in_order for result in results):
        changes["resume_at"] = None
    if hold.route.given_up and any(result.delivery and result.delivery.event != PING for result in results):
        changes["given_up"] = 0
    if changes:
        _route_change(hold.route, **changes)


def _route_change(route: Route, **values: Any) -> None:
    """Set columns of the route's row, and of the hold's copy when they are stored."""
    Route.objects.filter(pk=route.pk).update(**values)
    transaction.on_commit(lambda: _attributes_set(route, values))


def _attributes_set(route: Route, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(route, name, value)


def _store_references(results: Collection[Result], now: datetime) -> None:
    """Keep what destinations made of incidents and nodes, for later messages. The latest of each counts. What was made
    of an incident that is deleted by now is left out.
    """
    rows: dict[tuple[int, About], Reference] = {}
    for result in results:
        delivery, reading = result.delivery, result.reading
        if delivery is not None and delivery.about is not None and reading.reference is not None:
            fields = {"data": reading.reference, "url": reading.url, "title": reading.title, "state": reading.state}
            key = {"route_id": delivery.route_id, "incident_id": delivery.incident_id, "node_id": delivery.node_id}
            rows[delivery.route_id, delivery.about] = Reference(**key, **fields, updated_at=now)
    incidents = [about[1] for _, about in rows if about[0] == "incident"]
    existing = set(Incident.objects.filter(pk__in=incidents).values_list("pk", flat=True)) if incidents else set()
    groups = defaultdict(list)
    for (_, about), row in rows.items():
        if about[0] != "incident" or about[1] in existing:
            groups[about[0], bool(row.url)].append(row)
    for (name, is_shown), some in groups.items():
        # an answer without an address says nothing of what people see there
        names = ["data", "url", "title", "state"] if is_shown else ["data"]
        Reference.objects.bulk_create(
            some, update_conflicts=True, unique_fields=["route", name], update_fields=[*names, "updated_at"]
        )


def _record_failure(result: Result, now: datetime) -> None:
    """It is tried again later, or given up."""
    delivery, hold, answer = result.delivery, result.hold, result.answer
    if delivery is None:
        return
    tries = delivery.tries + 1
    is_over = bool(result.reason) or answer.status == _HTTP_GONE or tries > len(BACKOFF_S)
    due_at = None if is_over else now + _retry_delay(tries, answer)
    is_refused = answer.status not in (408, 425, 429) and (400 <= answer.status < 500 or answer.status == 200)
    is_in_order = delivery.is_in_order and not (is_refused and due_at and tries >= _MAX_REFUSED_TRIES)
    updated = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING).update(
        state=Delivery.State.GIVEN_UP if is_over else Delivery.State.WAITING,
        attempts=_attempts(result, delivery, now),
        tries=tries,
        due_at=due_at,
        is_in_order=is_in_order,
    )
    if not updated:
        return
    resume_at = due_at if is_in_order else None
    if delivery.is_in_order and resume_at != hold.route.resume_at:
        _route_change(hold.route, resume_at=resume_at)
    if is_over and not result.reason and delivery.event != PING:
        _count_given_up(hold.route, answer, result.error)


def _attempts(result: Result, delivery: Delivery, now: datetime) -> list[dict[str, Any]]:
    answer = result.answer
    row = {
        "at": now.isoformat(),
        "status": answer.status or None,
        "said": answer.text[:_MAX_ANSWER_CHARS],
        "error": result.error,
        "ms": answer.duration_ms,
    }
    return [*delivery.attempts, row][-_MAX_ATTEMPTS:]


def _count_given_up(route: Route, answer: outbound.Answer, error: str) -> None:
    """Switch a route off whose receiver is gone for good."""
    rows = Route.objects.filter(pk=route.pk)
    if answer.status == _HTTP_GONE:
        _switch_off(route, "The receiver answered 410 Gone.")
        return
    rows.update(given_up=F("given_up") + 1)
    if rows.filter(given_up__gte=MAX_GIVEN_UP).exists():
        reason = error or answer.status
        _switch_off(route, f"{MAX_GIVEN_UP} messages in a row did not arrive, the last one: {reason}")


def _retry_delay(tries: int, answer: outbound.Answer) -> timedelta:
    """The delay after so many tries: back-off with 10 % jitter, longer if the receiver asks for it."""
    wait_s = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1] * random.uniform(0.9, 1.1)  # noqa: S311  # spreads load
    if answer.status in (429, 503) and answer.retry_after_s is not None:
        wait_s = max(wait_s, min(answer.retry_after_s, BACKOFF_S[-1]))
    return timedelta(seconds=wait_s)


def _switch_off(route: Route, why: str) -> None:
    log.warning("route %s is switched off: %s", route.pk, why)
    Route.objects.filter(pk=route.pk).update(is_active=False, problem=why[:300])

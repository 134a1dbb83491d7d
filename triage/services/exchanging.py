"""Sends the messages of one route in order, in a thread, without the database.

A hold is a route that this worker has claimed, with the messages to send on it. The thread writes
each message only after the answer to the one before, because what a destination made of an incident
is in that answer.
"""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.utils import timezone

from triage.destinations import ALL, Address, Destination, Mail, Reading, Request
from triage.domain.route_message import message_of
from triage.models import Delivery, Route
from triage.models.route import About
from triage.sealing import SealBroken
from triage.services import outbound

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Hold:
    """A route that this worker holds. ``claim`` proves it; ``reasons`` says of messages why they
    must not be sent any more; ``references`` has what the destination made of each incident and
    node.
    """

    route: Route
    claim: str
    deliveries: Sequence[Delivery]
    reasons: Mapping[Any, str]
    references: dict[About, dict[str, Any]]
    #: no further message is begun after this time (of ``time.monotonic``)
    until: float
    #: when the sending of the present message began
    began: float = field(default_factory=clock.monotonic)

    @property
    def kind(self) -> Destination:
        return ALL[self.route.kind]


class Result(NamedTuple):
    """The outcome of one try; ``delivery`` None: the hold has sent its last message."""

    hold: Hold
    delivery: Delivery | None
    answer: outbound.Answer = outbound.Answer(0, "", "", 0)
    reading: Reading = Reading()
    #: why it was not sent at all
    reason: str = ""

    @property
    def error(self) -> str:
        """Why it did not arrive, if the status does not say it."""
        problem = self.answer.error or self.reading.error
        if not problem and 300 <= self.answer.status < 400:
            return "It redirects, which is not followed: give the route the address that it redirects to."
        return problem

    @property
    def is_delivered(self) -> bool:
        return 200 <= self.answer.status < 300 and not self.error


def hold_send(hold: Hold, on_result: Callable[[Result], None]) -> None:
    """Send the hold's messages over one connection, up to the first that fails or the end of its time. Runs in a
    thread. ``on_result`` gets each result at once, and the end."""
    try:
        with outbound.Sender() as sender:
            for delivery in hold.deliveries:
                hold.began = clock.monotonic()
                result = _try(hold, delivery, sender)
                on_result(result)
                if not result.is_delivered and not result.reason:
                    break
                if clock.monotonic() >= hold.until:
                    break
    finally:
        on_result(Result(hold, None))


def _try(hold: Hold, delivery: Delivery, sender: outbound.Sender) -> Result:
    reason = hold.reasons.get(delivery.pk, "")
    requests: Sequence[Request | Mail] = ()
    if not reason:
        try:
            requests = _requests(hold, delivery, timezone.now())
        except SealBroken as error:  # the former key may come back: the message waits
            return Result(hold, delivery, outbound.Answer(0, "", f"The route's secret cannot be read. {error}", 0))
        except Exception as error:  # an event may have unexpected content: one message is lost, not the route
            log.exception("message %s could not be written", delivery.pk)
            reason = f"The message could not be written ({type(error).__name__})."
    if not requests:
        reason = reason or "There was nothing to send."
        return Result(hold, delivery, outbound.Answer(0, "", reason, 0), reason=reason)
    answers = []
    for request in requests:
        answer = sender.send(request)
        if not 200 <= answer.status < 300:
            return Result(hold, delivery, answer)
        answers.append(answer)
    try:
        reading = hold.kind.read([answer.text for answer in answers])
    except Exception as error:  # an answer may, too
        log.exception("the answer to message %s could not be read", delivery.pk)
        reading = Reading(error=f"The answer could not be read ({type(error).__name__}).")
    if delivery.about is not None and reading.reference is not None and not reading.error:
        hold.references[delivery.about] = reading.reference
    return Result(hold, delivery, answers[-1], reading)


def _requests(hold: Hold, delivery: Delivery, now: datetime) -> Sequence[Request | Mail]:
    message = message_of(delivery.body, key=f"msg_{delivery.pk.hex}")
    reference = hold.references.get(delivery.about, {}) if delivery.about is not None else {}
    return hold.kind.render(message, _address(hold.route, now=now), reference, now)


def _address(route: Route, *, now: Any) -> Address:
    """Where the route's messages go, with the secrets that sign now."""
    names = ["secret"]
    if route.former_until and route.former_until > now:
        names.append("former_secret")
    secrets_now = [route.opened(name) for name in names]
    return Address(route.opened("url"), tuple(filter(None, secrets_now)), route.options)

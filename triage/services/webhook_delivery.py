"""Delivers webhook messages: sign, send, retry with back-off, give up, record.

Signing follows Standard Webhooks: HMAC-SHA256 over ``id.timestamp.body``, in base64, under version ``v1``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import random
import uuid
from datetime import datetime, timedelta

from django.db.models import F
from django.utils import timezone

from triage.models import Delivery, Webhook
from triage.services import outbound
from triage.services.webhooks import PING, may_receive

log = logging.getLogger(__name__)

#: delay after the first, second … failed try; a day and a half in total
BACKOFF_S = (5, 30, 120, 600, 3600, 4 * 3600, 10 * 3600, 20 * 3600)
#: a sender that claimed a message and was silent for this long has died
_LEASE = timedelta(seconds=60)
#: this many failed messages in a row switch a webhook off
GIVEN_UP_MAX = 20
_KEPT_ANSWER = 500
_KEPT_ATTEMPTS = 30
_KEPT = timedelta(days=30)
_AT_ONCE = 200
_GONE = 410


def delivery_send(delivery_id: uuid.UUID) -> None:
    """Send one message if it is due and no other worker sends it. Safe to call from many workers at once."""
    now = timezone.now()
    found = Delivery.objects.select_related("webhook__owner").filter(
        pk=delivery_id, state=Delivery.State.WAITING, due_at__lte=now
    )
    delivery = found.first()
    if delivery is None:
        return
    claim = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING, tries=delivery.tries)
    if not claim.update(tries=F("tries") + 1, due_at=now + _LEASE):
        return
    delivery.tries += 1
    hook = delivery.webhook
    why = _stop_reason(delivery, hook)
    answer = outbound.Answer(0, "", why, 0) if why else _post(delivery, hook, now)
    _record(delivery, hook, answer, now, is_final=bool(why))


def signatures(*, secrets: list[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one signature per secret, separated by spaces."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)


def deliveries_due() -> list[uuid.UUID]:
    """Messages that are due: the sweep wakes a worker for each."""
    due = Delivery.objects.filter(state=Delivery.State.WAITING, due_at__lte=timezone.now())
    return list(due.order_by("due_at").values_list("pk", flat=True)[:_AT_ONCE])


def deliveries_tidy() -> None:
    """Delete finished messages that are older than a month."""
    old = Delivery.objects.filter(created_at__lt=timezone.now() - _KEPT).exclude(state=Delivery.State.WAITING)
    old.delete()


def _stop_reason(delivery: Delivery, hook: Webhook) -> str:
    """Why this message must not be sent any more; empty if it may."""
    if delivery.event == PING:
        return ""
    if not hook.is_active:
        return "The webhook was switched off before this could be sent."
    if not may_receive(hook, delivery.cluster_id):
        return "The webhook's owner has no access to this any more: it was not sent."
    return ""


def _post(delivery: Delivery, hook: Webhook, now: datetime) -> outbound.Answer:
    body, stamp = delivery.body.encode(), int(now.timestamp())
    secrets = [hook.secret]
    if hook.former_secret and hook.former_until and hook.former_until > now:
        secrets.append(hook.former_secret)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Faultline-Webhooks/1",
        "webhook-id": f"msg_{delivery.pk.hex}",
        "webhook-timestamp": str(stamp),
        "webhook-signature": signatures(
            secrets=secrets, message_id=f"msg_{delivery.pk.hex}", timestamp=stamp, body=body
        ),
    }
    return outbound.post(hook.url, body, headers)


def _record(delivery: Delivery, hook: Webhook, answer: outbound.Answer, at: datetime, *, is_final: bool) -> None:
    """Record the result of a try. Only the holder of the latest claim may do that."""
    is_there = 200 <= answer.status < 300
    error = answer.error
    if not error and 300 <= answer.status < 400:
        error = "It redirects, which is not followed: give the webhook the address that it redirects to."
    is_over = is_final or answer.status == _GONE or delivery.tries > len(BACKOFF_S)
    row = {
        "at": at.isoformat(),
        "status": answer.status or None,
        "said": answer.text[:_KEPT_ANSWER],
        "error": error,
        "ms": answer.duration_ms,
    }
    state = Delivery.State.DELIVERED if is_there else Delivery.State.GIVEN_UP if is_over else Delivery.State.WAITING
    held = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING, tries=delivery.tries)
    kept = held.update(
        state=state,
        attempts=[*delivery.attempts, row][-_KEPT_ATTEMPTS:],
        delivered_at=timezone.now() if is_there else None,
        due_at=timezone.now() + _retry_delay(delivery.tries, answer) if state == Delivery.State.WAITING else None,
    )
    if not kept or is_final or delivery.event == PING:
        return
    if is_there:
        Webhook.objects.filter(pk=hook.pk).exclude(given_up=0).update(given_up=0)
    elif answer.status == _GONE:
        _switch_off(hook, "The receiver answered 410 Gone.")
    elif state == Delivery.State.GIVEN_UP:
        Webhook.objects.filter(pk=hook.pk).update(given_up=F("given_up") + 1)
        if Webhook.objects.filter(pk=hook.pk, given_up__gte=GIVEN_UP_MAX).exists():
            _switch_off(
                hook, f"{GIVEN_UP_MAX} messages in a row did not arrive, the last one: {error or answer.status}"
            )


def _retry_delay(tries: int, answer: outbound.Answer) -> timedelta:
    """The delay after so many tries: back-off with 10 % jitter, longer if the receiver asks for it."""
    wait = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1] * random.uniform(0.9, 1.1)  # noqa: S311  # spreads load, no secret
    if answer.status in (429, 503) and answer.retry_after_s is not None:
        wait = max(wait, min(answer.retry_after_s, BACKOFF_S[-1]))
    return timedelta(seconds=wait)


def _switch_off(hook: Webhook, why: str) -> None:
    log.warning("webhook %s is switched off: %s", hook.pk, why)
    Webhook.objects.filter(pk=hook.pk).update(is_active=False, problem=why[:300])

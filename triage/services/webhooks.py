"""Webhooks: created and changed by people. Messages are rows, written in the transaction of their event."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ingest import broker
from ingest.models import Cluster, Job
from ingest.refusals import Refused
from ingest.roles import can
from triage.models import Activity, Delivery, Webhook
from triage.selectors.access import visible_cluster_ids
from triage.services import outbound

EVENTS = {
    "incident.opened": "a diagnosis found a failure that was not known",
    "incident.regressed": "the new failure looks like one that was resolved before",
    "incident.decided": "somebody confirmed, corrected or rejected a claim",
    "incident.undone": "somebody undid a decision",
    "incident.moved": "an action was recorded, or it was resolved, reopened, snoozed or woken",
    "incident.assigned": "it was assigned to somebody, or to nobody",
    "incident.withdrawn": "a later diagnosis found no failure",
    "job.diagnosed": "a diagnosis of an attempt was stored, with or without a failure",
    "job.failed_to_parse": "evidence could not be read; the sentences say why",
    "job.failed_to_diagnose": "a diagnosis failed",
}
PING = "ping"
#: how long the former secret still signs
FORMER_KEPT = timedelta(hours=24)
MAX_WEBHOOKS = 100
#: the sweep sends it again while it is due: old messages need not fill a busy queue
_WAKE_EXPIRES_S = 60


def webhook_save(
    *,
    by: Any,
    name: str,
    url: str,
    events: Iterable[str],
    cluster: Cluster | None = None,
    is_active: bool = True,
    existing: Webhook | None = None,
) -> Webhook:
    """Create or change a webhook. Raises :class:`Refused` with the field's sentence."""
    wanted = sorted(set(events))
    if not name.strip():
        _refuse("name", "Give it a name that says who receives the messages.")
    unknown = [event for event in wanted if event not in EVENTS]
    if unknown or not wanted:
        said = f"There is no event “{unknown[0]}”" if unknown else "Choose at least one event"
        _refuse("events", f"{said}; there are: {', '.join(EVENTS)}.")
    try:
        outbound.target_of(url)
    except outbound.Forbidden as error:
        _refuse("url", str(error))
    owner = existing.owner if existing else by
    if cluster is not None and not {cluster.pk} <= set(visible_cluster_ids(owner)):
        _refuse("cluster", f"{owner.get_username()} does not see the cluster {cluster.slug}: remove it.")
    if existing is None and Webhook.objects.filter(owner=by).count() >= MAX_WEBHOOKS:
        _refuse("name", f"You have {MAX_WEBHOOKS} webhooks: delete one first.")
    hook = existing or Webhook(owner=by, secret=_secret())
    before = _told(hook) if existing else None
    hook.name, hook.url, hook.events, hook.cluster = name.strip()[:120], url, wanted, cluster
    if is_active and not hook.is_active:
        hook.problem, hook.given_up = "", 0
    hook.is_active = is_active
    with transaction.atomic():
        hook.save()
        _log("webhook_saved", hook, by, before=before, after=_told(hook))
    return hook


@transaction.atomic
def webhook_delete(*, hook: Webhook, by: Any) -> None:
    """Delete a webhook and its messages; the activity log keeps a record."""
    _log("webhook_deleted", hook, by, before=_told(hook))
    hook.delete()


@transaction.atomic
def secret_rotate(*, hook: Webhook, by: Any) -> str:
    """Create a new secret, which is shown only now. For a day, messages also have the old one's signature."""
    hook.former_secret, hook.former_until = hook.secret, timezone.now() + FORMER_KEPT
    hook.secret = _secret()
    hook.save(update_fields=["secret", "former_secret", "former_until"])
    _log("webhook_rotated", hook, by)
    return hook.secret


def ping(*, hook: Webhook) -> Delivery:
    """A test message, also if the webhook is switched off."""
    (delivery,) = _keep([(hook, None)], PING, uuid.uuid4().hex, {"webhook": hook.pk, "name": hook.name})
    return delivery


@transaction.atomic
def redeliver(*, delivery: Delivery) -> Delivery:
    """Send a message again, under its own id: a receiver that has it recognises it."""
    Delivery.objects.filter(pk=delivery.pk).update(
        state=Delivery.State.WAITING, tries=0, due_at=timezone.now(), delivered_at=None
    )
    delivery.refresh_from_db()
    _send([delivery])
    return delivery


def announce(*, event: str, subject: str, cluster_id: int, data: dict[str, Any]) -> list[Delivery]:
    """Write the message for every webhook with this event. Call it in the transaction of the event.

    The same ``event`` and ``subject`` again is the same message. One query if no webhook listens.
    """
    hooks = [
        hook
        for hook in Webhook.objects.filter(is_active=True).select_related("owner")
        if event in hook.events and may_receive(hook, cluster_id)
    ]
    return _keep([(hook, cluster_id) for hook in hooks], event, subject, data) if hooks else []


def may_receive(hook: Webhook, cluster_id: int | None) -> bool:
    """Whether the owner may still have webhooks and sees that cluster, and the webhook includes it."""
    if not hook.owner.is_active or not can(hook.owner, "webhooks"):
        return False
    if cluster_id is None:
        return True
    return hook.cluster_id in (None, cluster_id) and cluster_id in visible_cluster_ids(hook.owner)


def job_payload(job: Job) -> dict[str, Any]:
    """The job in a message."""
    return {"slug": job.slug, "name": job.name, "cluster": job.cluster.slug, "url": link(f"/jobs/{job.slug}/")}


def link(path: str) -> str:
    return settings.SITE_URL.rstrip("/") + path


def _keep(told: list[tuple[Webhook, int | None]], event: str, subject: str, data: dict[str, Any]) -> list[Delivery]:
    now = timezone.now()
    body = json.dumps(
        {"type": event, "timestamp": now.isoformat(), "data": data}, ensure_ascii=False, separators=(",", ":")
    )
    rows = [
        Delivery(
            webhook=hook, event=event, subject=f"{event} {subject}"[:120], cluster_id=cluster, body=body, due_at=now
        )
        for hook, cluster in told
    ]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    _send(rows)
    return rows


def _send(rows: list[Delivery]) -> None:
    for row in rows:
        transaction.on_commit(partial(delivery_wake, row.pk))


def delivery_wake(delivery_id: uuid.UUID) -> None:
    """Send a webhook's message soon. Without a broker it stays due, and a later sweep sends it."""
    broker.send("triage.tasks.notify_webhook", str(delivery_id), expires=_WAKE_EXPIRES_S)


def _secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _told(hook: Webhook) -> dict[str, Any]:
    cluster = hook.cluster.slug if hook.cluster else None
    return {"name": hook.name, "url": hook.url, "events": hook.events, "cluster": cluster, "is_active": hook.is_active}


def _log(kind: str, hook: Webhook, by: Any, **data: Any) -> None:
    kept = {key: value for key, value in data.items() if value is not None}
    Activity.objects.create(kind=kind, actor=by, data={"subject": hook.name, "webhook": hook.pk, **kept})


def _refuse(field: str, sentence: str) -> None:
    raise Refused(sentence, code="invalid", fields={field: sentence})

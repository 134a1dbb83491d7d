"""The webhooks that a person manages, and their messages."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from ingest.roles import can
from triage.models import Delivery, Webhook


def webhooks_of(user: Any) -> QuerySet[Webhook]:
    """A manager's own; for an administrator all. With the numbers of waiting and failed messages."""
    if not can(user, "webhooks"):
        return Webhook.objects.none()
    rows = Webhook.objects.select_related("owner", "cluster")
    return rows if can(user, "administer") else rows.filter(owner=user)


def with_counts(rows: QuerySet[Webhook]) -> QuerySet[Webhook]:
    """Each with the numbers of its waiting and failed messages, and the time of the last delivery."""
    return rows.annotate(
        waiting=Count("deliveries", Q(deliveries__state=Delivery.State.WAITING)),
        lost=Count("deliveries", Q(deliveries__state=Delivery.State.GIVEN_UP)),
        last_at=Max("deliveries__delivered_at"),
    )


def deliveries_of(hook: Webhook, *, state: str = "") -> QuerySet[Delivery]:
    """Its messages, newest first."""
    rows = hook.deliveries.all()
    return rows.filter(state=state) if state in Delivery.State.values else rows

"""Which webhooks a person may look after, and what was sent to them."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from ingest.roles import can
from triage.models import Delivery, Webhook


def webhooks_of(user: Any) -> QuerySet[Webhook]:
    """A manager's own; an administrator's and everybody's. With counts of messages that wait or were given up."""
    if not can(user, "webhooks"):
        return Webhook.objects.none()
    rows = Webhook.objects.select_related("owner", "cluster")
    return rows if can(user, "administer") else rows.filter(owner=user)


def with_counts(rows: QuerySet[Webhook]) -> QuerySet[Webhook]:
    """Each with how many of its messages wait or were given up, and when the last one arrived."""
    return rows.annotate(
        waiting=Count("deliveries", Q(deliveries__state=Delivery.State.WAITING)),
        lost=Count("deliveries", Q(deliveries__state=Delivery.State.GIVEN_UP)),
        last_at=Max("deliveries__delivered_at"),
    )


def deliveries_of(hook: Webhook, *, state: str = "") -> QuerySet[Delivery]:
    """Its messages, newest first."""
    rows = hook.deliveries.all()
    return rows.filter(state=state) if state in Delivery.State.values else rows

"""Notes of people on machines."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest.models import Node
from triage.models import Activity


@transaction.atomic
def node_note(*, node: Node, user: Any, note: str, is_drained: bool) -> Node:
    """Store a note on a node and whether it is drained; the activity log gets the values before and after.

    Faultline drains nothing itself: this records what people did with their scheduler.
    """
    before = {"note": node.note, "is_drained": node.drained_at is not None}
    node.note = note.strip()[:2000]
    if is_drained != before["is_drained"]:
        node.drained_at = timezone.now() if is_drained else None
    node.save(update_fields=["note", "drained_at"])
    after = {"note": node.note, "is_drained": is_drained}
    if after != before:
        data = {"subject": node.name, "cluster": node.cluster.slug, "before": before, "after": after}
        Activity.objects.create(kind="node_noted", actor=user, data=data)
    return node

"""Taking back what one act did, by further acts: nothing is deleted, and whoever came after is not overruled."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db import transaction

from triage.models import Activity, Decision, Group, GroupRule, Incident
from triage.services.reviewing import decision_undo, incident_assign, log_act
from triage.services.tried import tried_undo

_STATES = {"actioned", "resolved", "reopened"}
_SLEEP = {"snoozed", "woken"}


@transaction.atomic
def act_undo(*, request_id: uuid.UUID, by: Any) -> int:
    """Undo everything of one (bulk) act made by this person; returns on how many incidents.

    What somebody changed since stays as it is. An act that was taken back before is not taken back again.
    """
    rows = list(Activity.objects.filter(request_id=request_id, actor=by).select_related("incident").order_by("pk"))
    undo_id, count = uuid.uuid4(), 0
    for row in rows:
        if row.incident is not None:
            count += _row_undo(row, row.incident.pk, by, undo_id)
    if count:
        _rules_restore({row.data["rule"] for row in rows if row.data.get("rule")}, by)
    return count


def _row_undo(row: Activity, number: int, by: Any, undo_id: uuid.UUID) -> bool:
    incident = Incident.objects.select_for_update(of=("self",)).select_related("assignee").get(pk=number)
    before, after = row.data.get("before"), row.data.get("after")
    if row.kind == "decided" and row.data.get("decision"):
        decision = Decision.objects.select_related("incident").get(pk=row.data["decision"])
        if decision.undone_at is None:
            decision_undo(decision=decision, by=by, request_id=undo_id)
            return True
        return False
    if row.kind == "assigned":
        if (incident.assignee.get_username() if incident.assignee else "") != (after or ""):
            return False
        users = type(by)._default_manager
        former = users.filter(**{users.model.USERNAME_FIELD: before or ""}).first()
        incident_assign(incident=incident, assignee=former, by=by, request_id=undo_id)
        return True
    if row.kind == "tried":
        return tried_undo(row=row, by=by, request_id=undo_id)
    if row.kind in _STATES and incident.state == after != before:
        incident.state = before or Incident.State.AWAITING_REVIEW
        incident.set_resolved(_time(row.data.get("resolved_at")))
        incident.save(update_fields=["state", "resolved_at", "repaired_s"])
    elif row.kind in _SLEEP and incident.snoozed_until == _time(after):
        incident.snoozed_until = _time(before)
        incident.save(update_fields=["snoozed_until"])
    elif row.kind in ("merged", "split") and incident.group_id == after:
        incident.group = Group.objects.filter(pk=before).first() if before else None
        incident.save(update_fields=["group"])
    else:
        return False
    log_act(incident, "undone", by, request_id=undo_id, word=row.kind, before=after, after=before)
    return True


def _rules_restore(rules: set[int], by: Any) -> None:
    """Where new incidents of a fingerprint belong is again what it was before the act, by a further rule."""
    for made in GroupRule.objects.filter(pk__in=rules):
        earlier = GroupRule.objects.filter(fingerprint=made.fingerprint, pk__lt=made.pk).order_by("pk").last()
        GroupRule.objects.create(fingerprint=made.fingerprint, group=earlier.group if earlier else None, made_by=by)


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

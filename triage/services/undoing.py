"""Undoes one act by further acts: nothing is deleted, and later changes by others stay."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from triage.domain import standing
from triage.models import Activity, Decision, Group, GroupRule, Incident, Suspect
from triage.services.reviewing import STANDING_FIELDS, act_row, acts_log, lock_incidents, set_standing
from triage.services.tried import tried_undo

_STATE_KINDS = {"actioned", "resolved", "reopened"}
_SNOOZE_KINDS = {"snoozed", "woken"}


@transaction.atomic
def act_undo(*, request_id: uuid.UUID, by: Any) -> int:
    """Undo everything of one (bulk) act of this person; returns on how many incidents.

    Later changes by others stay. An act that was undone before is not undone again. About two dozen queries for any
    number of incidents, and a few for each route message.
    """
    acts = Activity.objects.filter(request_id=request_id, actor=by, incident__isnull=False)
    rows = list(acts.select_related("incident").order_by("pk"))
    undo_id = uuid.uuid4()
    tried = [row for row in rows if row.kind == "tried"]
    reverted = {row.incident_id for row in tried if tried_undo(row=row, by=by, request_id=undo_id)}
    undoing = _Undo([row for row in rows if row.kind != "tried"], by, undo_id, of=request_id)
    if undone := undoing.apply():
        _rules_restore({row.data["rule"] for row in rows if row.data.get("rule")}, by)
    return len(reverted | undone)


#: the undo key reaches back this far: nobody wants to undo an act of last week with it
MAX_UNDO_AGE = timedelta(days=1)
_UNDOABLE_KINDS = ("decided", "assigned", "merged", "split", "tried", *_STATE_KINDS, *_SNOOZE_KINDS)


@transaction.atomic
def last_act_undo(*, by: Any, now: datetime, incident: Incident | None = None) -> list[Activity]:
    """Undo the latest act of this person within a day that is not undone; returns its rows, or an empty list.

    With ``incident``, only acts on it count. Undo acts do not count, and undone acts are skipped, so that another call
    undoes the act before.
    """
    acts = Activity.objects.filter(actor=by, at__gte=now - MAX_UNDO_AGE, incident__isnull=False)
    undone = set(acts.filter(data__undoes__isnull=False).values_list("data__undoes", flat=True))
    acts_of_person = acts.filter(kind__in=_UNDOABLE_KINDS, data__undoes__isnull=True).order_by("-pk")
    if incident is not None:
        acts_of_person = acts_of_person.filter(incident=incident)
    tried_ids: set[uuid.UUID] = set()
    for request_id in acts_of_person.values_list("request_id", flat=True):
        if request_id in tried_ids or str(request_id) in undone:
            continue
        tried_ids.add(request_id)
        if act_undo(request_id=request_id, by=by):
            return rows_of_act(request_id=request_id, by=by)
    return []


def rows_of_act(*, request_id: uuid.UUID, by: Any) -> list[Activity]:
    """What the activity says of one act of this person, in order. One query."""
    return list(Activity.objects.filter(request_id=request_id, actor=by).order_by("pk"))


class _Undo:
    """The rows of one act and what is needed to undo them, read and written in bulk."""

    def __init__(self, rows: Sequence[Activity], by: Any, undo_id: uuid.UUID, *, of: uuid.UUID) -> None:
        self.rows, self.by, self.undo_id, self.of = rows, by, undo_id, of
        incidents = lock_incidents([row.incident for row in rows if row.incident]).select_related("assignee")
        self.incidents = {incident.pk: incident for incident in incidents.prefetch_related("decisions")}
        users = get_user_model()
        names = {row.data["before"] for row in rows if row.kind == "assigned" and row.data.get("before")}
        self.people = {person.get_username(): person for person in users.objects.filter(username__in=names)}
        groups = {row.data["before"] for row in rows if row.kind in ("merged", "split") and row.data.get("before")}
        self.groups = Group.objects.in_bulk(groups)
        self.decisions: list[Decision] = []
        #: the decision on each suspect, by (incident, name)
        self.words: dict[tuple[int, str], str] = {}
        self.fields: set[str] = set()
        self.changed: dict[int, Incident] = {}
        self.now = timezone.now()

    def apply(self) -> set[int | None]:
        """Undo the rows; returns on which incidents."""
        acts = [act for row in self.rows if (act := self._revert(row)) is not None]
        if self.decisions:
            Decision.objects.bulk_update(self.decisions, ["undone_at", "undone_by"])
        for (incident, subject), word in self.words.items():
            Suspect.objects.filter(incident=incident, entity=subject).update(word=word)
        if self.fields:
            Incident.objects.bulk_update(self.changed.values(), sorted(self.fields))
        acts_log(acts)
        return {act.incident_id for act in acts}

    def _revert(self, row: Activity) -> Activity | None:
        """The act that undoes this row, applied but not saved; None if there is nothing to undo."""
        incident = self.incidents[row.incident_id or 0]
        before, after = row.data.get("before"), row.data.get("after")
        if row.kind == "decided":
            return self._undo_decision(incident, row.data.get("decision"))
        if row.kind == "assigned" and (incident.assignee.get_username() if incident.assignee else "") == (after or ""):
            incident.assignee = self.people.get(before or "")
            self._change(incident, "assignee")
            return self._undo_row(incident, "assigned", {"before": after, "after": before})
        if row.kind in _STATE_KINDS and incident.state == after != before:
            incident.state = before or Incident.State.AWAITING_REVIEW
            incident.set_resolved(_time(row.data.get("resolved_at")))
            self._change(incident, "state", "resolved_at", "repaired_s")
        elif row.kind in _SNOOZE_KINDS and incident.snoozed_until == _time(after):
            incident.snoozed_until = _time(before)
            self._change(incident, "snoozed_until")
        elif row.kind in ("merged", "split") and incident.group_id == after:
            incident.group = self.groups.get(before or 0)
            self._change(incident, "group")
        else:
            return None
        return self._undo_row(incident, "undone", {"word": row.kind, "before": after, "after": before})

    def _undo_row(self, incident: Incident, kind: str, data: dict[str, Any]) -> Activity:
        """The activity row that records the undo and its act."""
        return act_row(incident, kind, self.by, self.undo_id, {**data, "undoes": str(self.of)})

    def _undo_decision(self, incident: Incident, pk: int | None) -> Activity | None:
        decisions = list(incident.decisions.all())  # prefetched, so that each knows the undone ones
        decision = next(
            (candidate for candidate in decisions if candidate.pk == pk and candidate.undone_at is None), None
        )
        if decision is None:
            return None
        decision.undone_at, decision.undone_by = self.now, self.by
        self.decisions.append(decision)
        data = {"claim": decision.claim, "subject": decision.subject, "word": decision.word, "before": decision.value}
        if decision.claim == Decision.Claim.SUSPECT:
            word = standing.suspect_words(decisions).get(decision.subject, "")
            self.words[incident.pk, decision.subject] = word
        if decision.claim == Decision.Claim.CATEGORY:
            set_standing(incident, decisions, self.now)
            self._change(incident, *STANDING_FIELDS)
            data["after"] = standing.category_of(incident.category, decisions)
        return self._undo_row(incident, "undone", {**data, "decision": decision.pk})

    def _change(self, incident: Incident, *fields: str) -> None:
        self.changed[incident.pk] = incident
        self.fields.update(fields)


def _rules_restore(rules: Collection[int], by: Any) -> None:
    """Restore the rules for fingerprints from before the act, by further rules, unless somebody changed them since."""
    act_rules = list(GroupRule.objects.filter(pk__in=rules).order_by("pk"))
    all_rules = GroupRule.objects.filter(fingerprint__in={rule.fingerprint for rule in act_rules}).order_by("pk")
    history: dict[tuple[int, str], list[GroupRule]] = {}
    for rule in all_rules:
        history.setdefault((rule.cluster_id, rule.fingerprint), []).append(rule)
    back = []
    for rule in act_rules:
        words = history[rule.cluster_id, rule.fingerprint]
        if words[-1].group_id == rule.group_id:
            before = next((earlier.group_id for earlier in reversed(words) if earlier.pk < rule.pk), None)
            kind = {"cluster_id": rule.cluster_id, "fingerprint": rule.fingerprint}
            back.append(GroupRule(**kind, group_id=before, made_by=by))
    GroupRule.objects.bulk_create(back)


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

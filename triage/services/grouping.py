"""Putting incidents together and taking them apart: a human's word on identity that re-diagnosis never touches."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from triage.models import Activity, Group, GroupRule, Incident
from triage.services.reviewing import ReviewError


@transaction.atomic
def incidents_merge(
    *, incidents: Sequence[Incident], by: Any, title: str = "", request_id: uuid.UUID | None = None
) -> Group:
    """Put any number of incidents into one group; groups that some of them were in become part of it.

    New incidents with the fingerprint of a member join it from now on. Raises ReviewError for fewer than two.
    """
    found = list(Incident.objects.select_for_update().filter(pk__in=[i.pk for i in incidents]).order_by("pk"))
    if len(found) < 2:
        raise ReviewError("Choose at least two incidents to merge.")
    former = {incident.group_id for incident in found if incident.group_id}
    group = Group.objects.create(title=title.strip()[:200] or found[0].headline[:200], made_by=by)
    members = {incident.pk for incident in found}
    members |= set(Incident.objects.filter(group__in=former).values_list("pk", flat=True))
    rows = list(Incident.objects.filter(pk__in=members))
    fingerprints = sorted({row.fingerprint for row in rows if row.fingerprint})
    rules = {name: GroupRule.objects.create(fingerprint=name, group=group, made_by=by).pk for name in fingerprints}
    request_id = request_id or uuid.uuid4()
    for row in rows:
        before, row.group = row.group_id, group
        _log(row, "merged", by, request_id, before=before, after=group.pk, rule=rules.get(row.fingerprint))
    Incident.objects.bulk_update(rows, ["group"])
    return group


@transaction.atomic
def incidents_split(*, incidents: Sequence[Incident], by: Any, request_id: uuid.UUID | None = None) -> int:
    """Take any number of incidents out of their groups; returns how many.

    A fingerprint whose last member leaves is kept apart from now on: new incidents with it stand alone.
    """
    found = list(Incident.objects.select_for_update().filter(pk__in=[i.pk for i in incidents], group__isnull=False))
    if not found:
        raise ReviewError("None of these incidents is in a group.")
    request_id = request_id or uuid.uuid4()
    for row in found:
        former_id, row.group = row.group_id or 0, None
        row.save(update_fields=["group"])
        stays = Incident.objects.filter(group_id=former_id, fingerprint=row.fingerprint).exists()
        is_last = bool(row.fingerprint) and not stays
        rule = GroupRule.objects.create(fingerprint=row.fingerprint, group=None, made_by=by).pk if is_last else None
        _log(row, "split", by, request_id, before=former_id, after=None, rule=rule)
    return len(found)


def _log(incident: Incident, kind: str, by: Any, request_id: uuid.UUID, **data: Any) -> None:
    Activity.objects.create(
        incident=incident, job_id=incident.job_id, kind=kind, actor=by, request_id=request_id, data=data
    )

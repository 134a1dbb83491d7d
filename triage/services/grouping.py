"""Merges and splits incidents: a person's decision that a new diagnosis never changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from ingest.locks import lock_rows
from triage.models import Group, GroupRule, Incident
from triage.selectors.incidents import incidents_visible_to
from triage.services.repeats import act_repeated
from triage.services.reviewing import ReviewError, act_row, acts_log


@transaction.atomic
def incidents_merge(
    *, incidents: Sequence[Incident], by: Any, title: str = "", request_id: uuid.UUID | None = None
) -> Group:
    """Put two or more incidents into one group. Groups that contain some of them are merged into it, as far as ``by``
    may see them.

    New incidents of the same cluster with the fingerprint of a member join it from now on. ``repeats`` of the answer is
    the id of the same act a moment ago; then nothing is written. Raises ReviewError for fewer than two.
    """
    chosen = {incident.pk for incident in incidents}
    former = Incident.objects.filter(pk__in=chosen, group__isnull=False).values("group")
    members = incidents_visible_to(by).filter(group__in=former).values_list("pk", flat=True)
    rows = list(lock_rows(Incident.objects.filter(pk__in=chosen | set(members))))
    first = [row for row in rows if row.pk in chosen]
    if len(first) < 2:
        raise ReviewError("Choose at least two incidents to merge.")
    title = title.strip()[:200]
    common = first[0].group
    if common and all(row.group_id == common.pk for row in rows) and title in ("", common.title):
        common.repeats = act_repeated(first[0], "merged", by)
        if common.repeats:
            return common
    group = Group.objects.create(title=title or first[0].headline[:200], made_by=by)
    kinds = sorted({(row.cluster_id, row.fingerprint) for row in rows if row.fingerprint})
    rules = _rules_make([(*kind, group) for kind in kinds], by)
    request_id, acts = request_id or uuid.uuid4(), []
    for row in rows:
        rule = rules.get((row.cluster_id, row.fingerprint, group.pk))
        data = {"before": row.group_id, "after": group.pk, "rule": rule}
        row.group = group
        acts.append(act_row(row, "merged", by, request_id, data))
    Incident.objects.bulk_update(rows, ["group"])
    acts_log(acts)
    return group


@transaction.atomic
def incidents_split(*, incidents: Sequence[Incident], by: Any, request_id: uuid.UUID | None = None) -> int:
    """Take incidents out of their groups; returns how many.

    A fingerprint whose last member of a cluster leaves is separate there from now on: new incidents with it join no
    group.
    """
    grouped = Incident.objects.filter(pk__in=[incident.pk for incident in incidents], group__isnull=False)
    leaving_incidents = list(lock_rows(grouped))
    if not leaving_incidents:
        raise ReviewError("None of these incidents is in a group.")
    remaining = Incident.objects.filter(group__in={row.group_id for row in leaving_incidents}).exclude(
        pk__in=[row.pk for row in leaving_incidents]
    )
    stays = set(remaining.order_by().values_list("group_id", "cluster_id", "fingerprint"))
    # the last member with this fingerprint
    leaving = {(row.group_id, row.cluster_id, row.fingerprint): row.pk for row in leaving_incidents if row.fingerprint}
    last = {pk for kind, pk in leaving.items() if kind not in stays}
    rules = _rules_make([(row.cluster_id, row.fingerprint, None) for row in leaving_incidents if row.pk in last], by)
    request_id, acts = request_id or uuid.uuid4(), []
    for row in leaving_incidents:
        rule = rules[row.cluster_id, row.fingerprint, None] if row.pk in last else None
        acts.append(act_row(row, "split", by, request_id, {"before": row.group_id, "rule": rule}))
        row.group = None
    Incident.objects.bulk_update(leaving_incidents, ["group"])
    acts_log(acts)
    return len(leaving_incidents)


def _rules_make(wanted: Iterable[tuple[int, str, Group | None]], by: Any) -> dict[tuple[int, str, int | None], int]:
    """Rules for fingerprints of clusters, each with its group (None: separate); returns ids by all three."""
    made = GroupRule.objects.bulk_create(
        GroupRule(cluster_id=cluster, fingerprint=name, group=group, made_by=by) for cluster, name, group in wanted
    )
    return {(rule.cluster_id, rule.fingerprint, rule.group_id): rule.pk for rule in made}

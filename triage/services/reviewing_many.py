"""One decision, or one assignment, of many incidents in one act, which is undone as one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from diagnosis import taxonomy
from triage.domain import standing
from triage.models import Decision, Incident
from triage.services.learning import learning_consider
from triage.services.repeats import act_repeated
from triage.services.reviewing import (
    MAX_REASON,
    STANDING_FIELDS,
    ReviewError,
    act_row,
    acts_log,
    checked_value,
    is_news,
    lock_incidents,
    require_access,
    set_standing,
)


@transaction.atomic
def incidents_decide(*, incidents: Iterable[Incident], word: str, by: Any, reason: str = "") -> tuple[uuid.UUID, int]:
    """One decision on the category of many incidents; all rows share one id, for the undo. Returns (id, how many):
    those that this person judged so before stay as they are.

    All or none. A dozen queries for any number, and a few for each route message.

    Raises:
        ReviewError: unknown word, or some of the incidents to confirm have no category.
    """
    request_id, claim, now = uuid.uuid4(), Decision.Claim.CATEGORY, timezone.now()
    locked = list(lock_incidents(incidents).prefetch_related("decisions"))
    unnamed = [f"#{row.pk}" for row in locked if row.category == taxonomy.UNKNOWN]
    if word == Decision.Word.CONFIRM and unnamed:
        some = ", ".join(unnamed[:5]) + (f" and {len(unnamed) - 5} more" if len(unnamed) > 5 else "")
        raise ReviewError(
            f"Nothing was confirmed: the machine named no category for {some}. "
            "Deselect those and correct them one by one, or judge them inconclusive."
        )
    earlier = {incident.pk: list(incident.decisions.all()) for incident in locked}
    wanted = [
        Decision(
            incident=incident,
            claim=claim,
            word=word,
            machine_value=incident.category,
            value=checked_value(claim=claim, word=word, value="", machine_value=incident.category),
            reason=reason.strip()[:MAX_REASON],
            diagnosis_id=incident.diagnosis_id,
            made_by=by,
        )
        for incident in locked
    ]
    befores = {row.pk: standing.latest_by_claim(earlier[row.pk]).get((claim, "")) for row in locked}
    decisions = Decision.objects.bulk_create(row for row in wanted if is_news(row, befores[row.incident_id]))
    acts = []
    for decision in decisions:
        incident = decision.incident
        before = befores[incident.pk]
        set_standing(incident, [*earlier[incident.pk], decision], now)
        data: dict[str, Any] = {"claim": claim, "word": word, "before": before.value if before else incident.category}
        data |= {"after": decision.value, "reason": decision.reason, "decision": decision.pk}
        acts.append(act_row(incident, "decided", by, request_id, data))
    Incident.objects.bulk_update([decision.incident for decision in decisions], STANDING_FIELDS)
    acts_log(acts)
    transaction.on_commit(learning_consider)
    return request_id, len(decisions)


@transaction.atomic
def incidents_assign(
    *, incidents: Iterable[Incident], assignee: AbstractBaseUser, by: Any
) -> tuple[uuid.UUID | None, int]:
    """Assign many incidents to one person; all rows share one id, for the undo. Returns (id, how many): those that the
    person has stay as they are. If all do, the id is that of the same act a moment ago, if there was one.

    Raises ReviewError if that person may not see one of them.
    """
    request_id, acts = uuid.uuid4(), []
    locked = list(lock_incidents(incidents).select_related("assignee"))
    require_access(assignee, locked)
    name = assignee.get_username()
    others = [incident for incident in locked if incident.assignee_id != assignee.pk]
    if not others:
        return (act_repeated(locked[0], "assigned", by, after=name) if locked else None), 0
    for incident in others:
        before = incident.assignee.get_username() if incident.assignee else ""
        incident.assignee = assignee  # type: ignore[assignment]
        acts.append(act_row(incident, "assigned", by, request_id, {"before": before, "after": name}))
    Incident.objects.bulk_update(others, ["assignee"])
    acts_log(acts)
    return request_id, len(others)

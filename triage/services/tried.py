"""Records what an engineer did about an incident; after failed actions the advice moves to the next one."""

from __future__ import annotations

import re
import uuid
from typing import Any

from django.db import transaction

from diagnosis.records.tried import ACTIONS, EXECUTABLE_ACTIONS
from ingest.locks import lock_rows
from triage.models import Activity, Incident
from triage.selectors.advice import OUTCOMES
from triage.services.reviewing import MAX_REASON, ReviewError, log_act

MAX_TARGETS = 512
_NAME = re.compile(r"[^\s,;]{1,200}")


@transaction.atomic
def tried_record(
    *,
    incident: Incident,
    action: str,
    outcome: str,
    by: Any,
    targets: str = "",
    reason: str = "",
    request_id: uuid.UUID | None = None,
) -> None:
    """Record that ``action`` was carried out on ``targets`` (names, separated by commas or blanks), its outcome and
    why.

    Raises:
        ReviewError: unknown action or outcome, or too many names.
    """
    if action not in EXECUTABLE_ACTIONS:
        doable = ", ".join(ACTIONS[name].lower() for name in EXECUTABLE_ACTIONS)
        raise ReviewError(f"There is no action {action!r} to record: choose one of {doable}.")
    if outcome not in OUTCOMES:
        raise ReviewError(f"There is no outcome {outcome!r}: use {', '.join(OUTCOMES)}.")
    names = list(dict.fromkeys(_NAME.findall(targets)))
    if len(names) > MAX_TARGETS:
        raise ReviewError(f"{len(names):,} machines are named; at most {MAX_TARGETS} are kept. Record them in parts.")
    lock_rows(Incident.objects).get(pk=incident.pk)
    record = {"action": action, "outcome": outcome, "targets": names or None, "reason": reason.strip()[:MAX_REASON]}
    log_act(incident, "tried", by, request_id=request_id, **record)


@transaction.atomic
def tried_undo(*, row: Activity, by: Any, request_id: uuid.UUID | None = None) -> bool:
    """Undo a record by a further act; False if it was undone before.

    Raises:
        ReviewError: the row records no action.
    """
    if row.kind != "tried" or row.incident_id is None:
        raise ReviewError("This row records no action.")
    incident = lock_rows(Incident.objects).get(pk=row.incident_id)
    if incident.activities.filter(kind="untried", data__of=row.pk).exists():
        return False
    record = {key: row.data.get(key) for key in ("action", "targets")}
    log_act(incident, "untried", by, request_id=request_id, of=row.pk, **record)
    return True

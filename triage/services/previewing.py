"""What a route would have sent over the last week, so that nobody turns on noise."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from ingest.refusals import Refused
from triage import search
from triage.destinations import Destination
from triage.domain.route_message import Message, message_of
from triage.models import Activity, Incident
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.payloads import incident_payload, job_payload
from triage.services.announcing import EVENT_OF

DAYS = 7
#: messages shown in words, and rows read of the activity log
MAX_SHOWN = 5
_MAX_ACTIVITIES = 2000


@dataclass(frozen=True, slots=True)
class Preview:
    """``count`` messages about ``incidents`` incidents in ``DAYS`` days; ``newest`` are the last of them in words.

    ``is_more``: the log of the week is longer than what was counted.
    """

    count: int
    incidents: int
    newest: tuple[tuple[datetime, Message], ...]
    is_more: bool = False
    days: int = DAYS


def preview_of(*, user: Any, kind: Destination, query: str, events: Iterable[str]) -> Preview:
    """Replay the last week's activity through the settings of a route, by what its incidents say now.

    New diagnoses of a known incident count as updates, though some would have changed nothing that people read.

    Raises:
        Refused: the search cannot be read.
    """
    try:
        parsed = search.parse(query)
    except search.SearchError as error:
        raise Refused(str(error), fields={"query": str(error)}) from error
    visible = incidents_visible_to(user).filter(parsed.condition(user=user))
    since = timezone.now() - timedelta(days=DAYS)
    rows = Activity.objects.filter(at__gte=since, kind__in=[*EVENT_OF, "diagnosed", "regressed"])
    rows = rows.filter(incident__in=visible.order_by().values("pk")).select_related("actor").order_by("at", "id")
    activities = list(rows[: _MAX_ACTIVITIES + 1])
    messages = list(_message_events(activities[:_MAX_ACTIVITIES], kind, set(events)))
    last = messages[-MAX_SHOWN:][::-1]
    incidents = Incident.objects.select_related("job__cluster").in_bulk({row.incident_id for row, _ in last})
    newest = tuple((row.at, _message(row, event, incidents[row.incident_id])) for row, event in last)
    return Preview(
        len(messages), len({row.incident_id for row, _ in messages}), newest, len(activities) > _MAX_ACTIVITIES
    )


def _message_events(rows: Iterable[Activity], kind: Destination, events: set[str]) -> Iterable[tuple[Activity, str]]:
    """The rows that would have become messages, with their events: the rules of ``outbox.announce``."""
    diagnosed: set[int | None] = set()
    announced: set[int | None] = set()
    for row in rows:
        event = EVENT_OF.get(row.kind, "incident.regressed")
        if row.kind == "diagnosed":
            event = "incident.updated" if row.incident_id in diagnosed else "incident.opened"
            diagnosed.add(row.incident_id)
        is_known = row.incident_id in announced and not kind.is_program
        is_wanted = event in events or (is_known and kind.is_following)
        if is_wanted and not (is_known and event == "incident.opened"):
            announced.add(row.incident_id)
            yield row, event


def _message(row: Activity, event: str, incident: Incident) -> Message:
    data: dict[str, Any] = {"incident": incident_payload(incident), "job": job_payload(incident.job)}
    if row.kind in EVENT_OF:
        data["act"] = {"kind": row.kind, "by": row.actor.get_username() if row.actor else None, **row.data}
    elif row.kind == "regressed":
        data["regressed_from"] = row.data.get("before")
    body = {"type": event, "timestamp": row.at.isoformat(), "data": data}
    return message_of(json.dumps(body), key="preview")

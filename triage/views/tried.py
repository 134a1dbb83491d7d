"""Records an action on an incident, and undoes such a record."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from diagnosis.records.tried import ACTIONS
from triage.models import Activity
from triage.services.reviewing import ReviewError
from triage.services.tried import tried_record, tried_undo
from triage.views.common import ability_required, back, complain, incident_or_404, say


@require_POST
@ability_required("review")
def record(request: HttpRequest, number: int) -> HttpResponse:
    """Record an action: which, on which machines, its outcome."""
    found, request_id = incident_or_404(request, number), uuid.uuid4()
    values = {name: request.POST.get(name, "") for name in ("action", "outcome", "targets", "reason")}
    try:
        tried_record(incident=found, by=request.user, request_id=request_id, **values)
    except ReviewError as error:
        complain(request, str(error))
    else:
        say(request, f"Recorded on #{number}: {ACTIONS[values['action']].lower()}.", undo=request_id)
    return back(request, reverse("incident", args=[number]) + "#advice-title")


@require_POST
@ability_required("review")
def undo(request: HttpRequest, number: int, act: int) -> HttpResponse:
    """Undo one record of any person; the activity keeps both."""
    found = incident_or_404(request, number)
    row = get_object_or_404(Activity, pk=act, incident=found, kind="tried")
    if tried_undo(row=row, by=request.user):
        say(request, "Undone: the advice no longer uses it.")
    else:
        complain(request, "This record was already undone.")
    return back(request, reverse("incident", args=[number]) + "#advice-title")

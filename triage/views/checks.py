"""The output of a check, pasted on an incident."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from triage.services.checking import check_output_keep
from triage.services.reviewing import ReviewError
from triage.views.common import ability_required, back, complain, incident_or_404, say


@require_POST
@ability_required("upload")
def output(request: HttpRequest, number: int) -> HttpResponse:
    """Store the output as evidence; the job is diagnosed again at once."""
    found = incident_or_404(request, number)
    text, target = request.POST.get("output", ""), request.POST.get("target", "")[:200]
    try:
        meaning = check_output_keep(incident=found, text=text, target=target, by=request.user)
    except ReviewError as error:
        complain(request, str(error))
    else:
        say(request, f"Stored as evidence ({meaning}). The job is diagnosed again: reload in a few seconds.")
    return back(request, reverse("incident", args=[number]) + "#checks")

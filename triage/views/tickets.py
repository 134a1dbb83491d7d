"""Tickets of an incident in other systems: which there are, and making one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from ingest.parameters import whole
from ingest.refusals import Refused
from triage.selectors.routes import tickets_of
from triage.services.announcing import ticket_ask
from triage.views.common import ability_required, incident_or_404


@require_http_methods(["GET", "HEAD"])
def listing(request: HttpRequest, number: int) -> HttpResponse:
    """The incident's tickets, and the routes that can make one. A part of its page, or a page of its own."""
    found = incident_or_404(request, number)
    context = {"incident": found, "tickets": tickets_of(found), "nav": "incidents"}
    name = "_tickets" if request.headers.get("HX-Request") else "tickets"
    return render(request, f"triage/incident/{name}.html", context)


@require_http_methods(["POST"])
@ability_required("review")
def make(request: HttpRequest, number: int) -> HttpResponse:
    """Make a ticket by the route in the form."""
    found = incident_or_404(request, number)
    try:
        asked = ticket_ask(route_id=whole(request.POST.get("route", ""), 0), incident=found, by=request.user)
        messages.success(request, f"A ticket is made by {asked.route.name}. It is linked here in a moment.")
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect("incident-tickets", number)

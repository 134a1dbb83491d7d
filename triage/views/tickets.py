"""Tickets of an incident in other systems: which there are, and making one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from ingest.parameters import whole
from ingest.refusals import Refused
from triage.models import Route
from triage.selectors.routes import tickets_of
from triage.services.announcing import incident_payload
from triage.services.routes import job_payload, ticket_request
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
    asked = request.POST.get("route", "")
    route = Route.objects.filter(pk=whole(asked, 0)).first()
    data = {"incident": incident_payload(found), "job": job_payload(found.job)}
    data["act"] = {"kind": "ticketed", "by": request.user.get_username()}
    try:
        if route is None:
            raise Refused("Choose where to make the ticket.", code="invalid")
        ticket_request(route=route, incident=found, by=request.user, data=data)
        messages.success(request, f"A ticket is made by {route.name}. It is linked here in a moment.")
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect("incident-tickets", number)

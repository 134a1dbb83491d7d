"""Tickets of an incident or a node in other systems: which there are, and making one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from ingest.models import Node
from ingest.parameters import whole
from ingest.refusals import Refused
from triage.models import Incident
from triage.selectors.tickets import tickets_of
from triage.services.tickets import ticket_ask
from triage.views.common import Part, ability_required, incident_or_404, node_or_404, render_part


@require_http_methods(["GET", "HEAD"])
def of_incident(request: HttpRequest, number: int) -> HttpResponse:
    """The incident's tickets, and the routes that can make one. A part of its page, or a page of its own."""
    return _render_tickets(request, incident_or_404(request, number))


@require_http_methods(["GET", "HEAD"])
def of_node(request: HttpRequest, name: str) -> HttpResponse:
    """The same of a node."""
    return _render_tickets(request, node_or_404(request, name))


@require_http_methods(["POST"])
@ability_required("review")
def make_for_incident(request: HttpRequest, number: int) -> HttpResponse:
    """Make a ticket by the route in the form."""
    return _make(request, incident_or_404(request, number))


@require_http_methods(["POST"])
@ability_required("review")
def make_for_node(request: HttpRequest, name: str) -> HttpResponse:
    """The same for a node."""
    return _make(request, node_or_404(request, name))


def _make(request: HttpRequest, about: Incident | Node) -> HttpResponse:
    problem = ""
    try:
        delivery = ticket_ask(route_id=whole(request.POST.get("route", ""), 0), about=about, by=request.user)
    except Refused as refusal:
        problem = str(refusal)
    if request.headers.get("HX-Request"):
        return _render_tickets(request, about, problem)
    if problem:
        messages.error(request, problem)
    else:
        messages.success(request, f"A ticket is made by {delivery.route.name}. It is linked here in a moment.")
    return redirect(_url(about, "tickets"))


def _render_tickets(request: HttpRequest, about: Incident | Node, problem: str = "") -> HttpResponse:
    context = {"tickets": tickets_of(about), "problem": problem, "nav": "incidents"}
    context |= {"list_url": _url(about, "tickets"), "make_url": _url(about, "ticket")}
    if isinstance(about, Node):
        part = Part(about.name, _url(about), f"Node of cluster {about.cluster}", f"Tickets of {about.name}")
        context["nav"] = "nodes"
    else:
        part = Part(f"#{about.pk}", _url(about), about.headline, f"Tickets of #{about.pk}")
    return render_part(request, "triage/tickets/_panel.html", part, context)


def _url(about: Incident | Node, page: str = "") -> str:
    """The address of the incident's or node's page, or of one below it."""
    kind, key = ("node", about.name) if isinstance(about, Node) else ("incident", about.pk)
    path = reverse(f"{kind}-{page}" if page else kind, args=[key])
    return f"{path}?cluster={about.cluster.slug}" if isinstance(about, Node) else path

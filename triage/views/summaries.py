"""The summary of an incident by a language model: asked for by a person, shown as the model's words."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from triage.domain.model_summary import UnusableAnswer
from triage.models import Incident
from triage.services import summarising
from triage.views.common import Part, ability_required, incident_or_404, render_part


@require_http_methods(["GET", "HEAD"])
def summary(request: HttpRequest, number: int) -> HttpResponse:
    """What was made before, or a button. A part of the incident's page, or a page of its own."""
    found = incident_or_404(request, number)
    _must_be_on()
    return _render_summary(request, found, summary=summarising.cached_summary(found))


@require_http_methods(["POST"])
@ability_required("review")
def make(request: HttpRequest, number: int) -> HttpResponse:
    """Ask the model now."""
    found = incident_or_404(request, number)
    _must_be_on()
    try:
        return _render_summary(request, found, summary=summarising.summary_make(found))
    except UnusableAnswer as error:
        return _render_summary(request, found, problem=str(error))


def _must_be_on() -> None:
    if not summarising.is_on():
        raise Http404("Summaries by a language model are off on this site.")


def _render_summary(request: HttpRequest, found: Incident, **context: Any) -> HttpResponse:
    part = Part(f"#{found.pk}", reverse("incident", args=[found.pk]), found.headline, f"Summary of #{found.pk}")
    context |= {"incident": found, "nav": "incidents"}
    return render_part(request, "triage/incident/_summary.html", part, context)

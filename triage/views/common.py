"""What the views share: permissions, redirects back, messages with an undo."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme

from ingest.models import Node
from ingest.roles import can
from triage.models import Incident
from triage.selectors.deletion import deleted_incident_words
from triage.selectors.demonstration import Notice
from triage.selectors.incidents import incident_for
from triage.selectors.nodes import nodes_by_name

View = Callable[..., HttpResponseBase]

_NEEDS = {
    "review": "Reviewing needs the role engineer or manager.",
    "upload": "Uploading needs the role engineer.",
    "statistics": "Statistics need the role engineer or manager.",
    "export": "Exporting needs the role manager.",
    "demonstration": "Removing the demonstration needs the role manager.",
    "move": "Moving jobs to other clusters needs the role manager.",
    "organise": "People, teams and clusters need the role manager.",
    "routes": "Routes need the role manager.",
}


def ability_required(ability: str) -> Callable[[View], View]:
    """Refuse with a sentence that names the required role."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not can(request.user, ability):
                raise PermissionDenied(f"{_NEEDS[ability]} Ask an administrator to put you into that group.")
            return view(request, *args, **kwargs)

        return checked

    return decorate


def incident_or_404(request: HttpRequest, number: int) -> Incident:
    """The incident, or 404, also if it exists but the person has no access."""
    incident = incident_for(request.user, number)
    if incident is None:
        deletion = deleted_incident_words(request.user, number)
        raise Http404(
            deletion or f"There is no incident #{number}, or it belongs to a cluster that your teams do not see."
        )
    return incident


def node_or_404(request: HttpRequest, name: str) -> Node:
    """The node of this name, in the cluster that the address names or the first that has it."""
    found = nodes_by_name(request.user, name, cluster=request.GET.get("cluster", ""))
    if not found:
        raise Http404(f"No node “{name}” is known in a cluster that you may see.")
    return found[0]


class Part(NamedTuple):
    """What stands above a part of a page that is a page of its own: a link to the whole page, and its headline."""

    link: str
    url: str
    headline: str
    title: str


def render_part(request: HttpRequest, template: str, part: Part, context: dict[str, Any]) -> HttpResponse:
    """A part of a page: for htmx alone, else as a page of its own."""
    if request.headers.get("HX-Request"):
        return render(request, template, context)
    return render(request, "triage/part.html", {**context, "part": part, "template": template})


def demonstration(request: HttpRequest, notice: Notice | None, *, name: str = "q") -> dict[str, Any]:
    """The context of the notice on the demonstration: its text, and links to this page with or without it."""

    def link(value: str) -> str:
        params = request.GET.copy()
        params.pop("page", None)
        params[name] = value
        return f"?{params.urlencode()}"

    if notice is None:
        return {}
    links = {which: link(value) for which in ("alone", "without", "both") if (value := getattr(notice, which))}
    about = {"words": notice.words, "is_counted": notice.is_counted, "counted": notice.counted}
    return {"demonstration": {**about, **links}}


def back(request: HttpRequest, fallback: str) -> HttpResponseRedirect:
    """Redirect to the page in the form, if it is on this site, else to ``fallback``."""
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        return redirect(fallback)
    return HttpResponseRedirect(target)


def say(request: HttpRequest, words: str, *, undo: UUID | None = None) -> None:
    """A toast; with ``undo`` it offers to undo the act with that id."""
    messages.success(request, words, extra_tags=f"undo:{undo}" if undo else "")


def complain(request: HttpRequest, words: str) -> None:
    messages.error(request, words)

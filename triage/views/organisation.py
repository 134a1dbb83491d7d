"""People, teams and clusters: managers read who may do what, administrators change it. Changes go
the way of ``manage.py ensure`` and of the API: :func:`setup_ensure`.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from ingest.models import Team, Token
from ingest.parameters import seconds, whole
from ingest.refusals import Refused
from ingest.roles import ABILITIES, can
from triage.domain.wanted_setup import setup_of
from triage.selectors import organisation
from triage.services.ensuring import Ensured, setup_ensure
from triage.views.common import ability_required

GB = 10**9


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("organise")
def people(request: HttpRequest) -> HttpResponse:
    made, error = None, ""
    if _is_change(request):
        wanted = {"username": request.POST.get("username", "").strip(), **_person_fields(request)}
        exists = organisation.person_of(wanted["username"]) is not None
        if exists:
            error = f"There is already a person {wanted['username']}: change them on their page."
        else:
            made, error = _ensure(request, {"people": [wanted]})
    find = request.GET.get("find", "").strip()[:100]
    number = max(1, whole(request.GET.get("page"), 1))
    found = organisation.people_page(find=find, page=number)
    context = {
        **_shared("people"),
        "found": found,
        "find": find,
        "page_number": number,
        "has_next": number * organisation.PAGE_SIZE < found.total,
        "params": request.GET,
        "made": made,
        "error": error,
        "form": request.POST if error else {},
    }
    return render(request, "triage/organisation/people.html", context, status=422 if error else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("organise")
def person(request: HttpRequest, username: str) -> HttpResponse:
    shown = organisation.person_of(username)
    if shown is None:
        raise Http404(f"There is no person “{username}”.")
    error = ""
    if _is_change(request):
        is_about_token = "revoke" in request.POST
        wanted = _revoked(shown, request) if is_about_token else _changed(username, request)
        done, error = _ensure(request, wanted)
        if done is not None:
            messages.success(request, f"{done.kind.capitalize()} {done.name}: {done.state}.")
            return redirect("person", username)
    tokens = organisation.tokens_of(shown.person)
    context = {**_shared("people"), "shown": shown, "tokens": tokens, "error": error}
    return render(request, "triage/organisation/person.html", context, status=422 if error else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("organise")
def teams(request: HttpRequest) -> HttpResponse:
    error = ""
    if _is_change(request):
        given = request.POST
        names = {name: given.get(name, "").strip() for name in ("slug", "title")}
        wanted: dict[str, Any] = {**names, "clusters": given.getlist("clusters")}
        if "quota_gb" in given:
            wanted["max_bytes"] = _quota_bytes(given["quota_gb"].strip())
        error = _done_or_error(request, {"teams": [wanted]})
        if not error:
            return redirect("teams")
    context = {**_shared("teams"), "rows": organisation.teams_with_people(), "error": error}
    return render(request, "triage/organisation/teams.html", context, status=422 if error else 200)


def _quota_bytes(gigabytes: str) -> int | None:
    """Without a number the quota of the installation; -1 for anything else, which is refused."""
    value = seconds(gigabytes)
    if not gigabytes:
        return None
    return -1 if value is None else round(value * GB)


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("organise")
def clusters(request: HttpRequest) -> HttpResponse:
    error = ""
    if _is_change(request):
        given = request.POST
        wanted = {
            "slug": given.get("slug", "").strip(),
            "title": given.get("title", "").strip(),
            "gpus_per_node": whole(given.get("gpus_per_node"), 0),
            "shares_history": "shares_history" in given,
        }
        error = _done_or_error(request, {"clusters": [wanted]})
        if not error:
            return redirect("clusters")
    context = {**_shared("clusters"), "error": error}
    return render(request, "triage/organisation/clusters.html", context, status=422 if error else 200)


def _is_change(request: HttpRequest) -> bool:
    """Whether the person wants to change something; refuses those who may only read."""
    if request.method == "POST" and not can(request.user, "administer"):
        raise PermissionDenied("Only administrators change people, teams and clusters: ask one.")
    return request.method == "POST"


def _shared(tab: str) -> dict[str, Any]:
    """What all these pages show: which it is, what there is to choose, what was changed last."""
    return {
        "tab": tab,
        "roles": list(ABILITIES),
        "teams": Team.objects.all(),
        "clusters": organisation.clusters_with_teams(),
        "acts": organisation.latest_acts(),
    }


def _person_fields(request: HttpRequest) -> dict[str, Any]:
    given = request.POST
    email = given.get("email", "").strip()
    fields = {"roles": given.getlist("roles"), "teams": given.getlist("teams")}
    return {**fields, "email": email} if email else fields


def _changed(username: str, request: HttpRequest) -> dict[str, Any]:
    is_active = "is_active" in request.POST
    return {"people": [{"username": username, "is_active": is_active, **_person_fields(request)}]}


def _revoked(shown: organisation.PersonRow, request: HttpRequest) -> dict[str, Any]:
    """The wish that no token of that name is valid; of several with this name none stays."""
    token = Token.objects.filter(user=shown.person, pk=whole(request.POST.get("revoke"))).first()
    if token is None:
        raise Http404("There is no such token: somebody may have revoked it.")
    about = {"user": shown.person.get_username(), "name": token.name, "scopes": token.scopes}
    return {"tokens": [{**about, "is_revoked": True}]}


def _ensure(request: HttpRequest, document: dict[str, Any]) -> tuple[Ensured | None, str]:
    """What became of the one entry of the document, or the sentence that refuses it."""
    try:
        (done,) = setup_ensure(setup=setup_of(document), by=request.user)
    except Refused as refusal:
        return None, refusal.detail
    return done, ""


def _done_or_error(request: HttpRequest, document: dict[str, Any]) -> str:
    done, error = _ensure(request, document)
    if done is not None:
        messages.success(request, f"{done.kind.capitalize()} {done.name}: {done.state}.")
    return error

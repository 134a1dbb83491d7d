"""Pages of routes: what goes where, what would have gone there, sent messages, and sending one again."""

from __future__ import annotations

import json
from datetime import time
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ingest.refusals import Refused
from ingest.selectors import teams_of
from triage.destinations import ALL, Destination
from triage.domain.route_message import message_of
from triage.models import Delivery, Route
from triage.selectors.payloads import link
from triage.selectors.routes import EVENTS, deliveries_of, routes_of, with_counts
from triage.services import outbox
from triage.services import routes as services
from triage.services.previewing import Preview, preview_of
from triage.views.common import ability_required

PAGE = 50


@require_safe
@ability_required("routes")
def listing(request: HttpRequest) -> HttpResponse:
    """Routes, and the kinds of destinations for a new one."""
    groups: dict[str, list[Destination]] = {}
    for kind in ALL.values():
        groups.setdefault(kind.group, []).append(kind)
    rows = list(with_counts(routes_of(request.user)))
    context = {"nav": "routes", "rows": [(row, ALL[row.kind], services.address_shown(row)) for row in rows]}
    return render(request, "triage/routes/list.html", {**context, "groups": groups, "now": timezone.now()})


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("routes")
def new(request: HttpRequest, kind: str) -> HttpResponse:
    """The form of a new route; ``act=preview`` shows what it would have sent, and stores nothing."""
    if kind not in ALL:
        raise Http404(f"There is no kind of destination “{kind}”.")
    form, errors, preview = _form(request, None, ALL[kind]), {}, None
    if request.method == "POST":
        try:
            if request.POST.get("act") == "preview":
                preview = _preview(request, form, ALL[kind])
            else:
                route = services.route_save(by=request.user, kind=kind, **_route_arguments(request, form))
                if ALL[kind].makes_secret:
                    context = {"route": route, "secret": route.opened("secret"), "is_new": True, "nav": "routes"}
                    return render(request, "triage/routes/secret.html", context)
                messages.success(request, "Created. Send a test message to see that it arrives.")
                return redirect("route", route.pk)
        except Refused as refusal:
            errors = refusal.fields
    if request.POST.get("act") == "preview" and request.headers.get("HX-Request"):
        return _render_preview(request, preview, errors)
    context = {"kind": ALL[kind], "nav": "routes", "preview": preview, **_choices(request, form, errors, None)}
    return render(request, "triage/routes/new.html", context, status=422 if errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("routes")
def route(request: HttpRequest, pk: int) -> HttpResponse:
    """One route: its health, its messages, its settings, and what these would have sent over the last week."""
    found = get_object_or_404(with_counts(routes_of(request.user)), pk=pk)
    kind, errors, preview = ALL[found.kind], {}, None
    form = _form(request, found, kind)
    if request.method == "POST":
        try:
            if request.POST.get("act") == "preview":
                preview = _preview(request, form, kind)
            else:
                services.route_save(by=request.user, kind=found.kind, existing=found, **_route_arguments(request, form))
                messages.success(request, "Saved.")
                return redirect("route", pk)
        except Refused as refusal:
            errors = refusal.fields
    if request.POST.get("act") == "preview" and request.headers.get("HX-Request"):
        return _render_preview(request, preview, errors)
    state = request.GET.get("state", "")
    page = Paginator(deliveries_of(found, state=state), PAGE).get_page(request.GET.get("page"))
    context = {"route": found, "kind": kind, "page": page, "state": state, "states": Delivery.State.choices}
    context |= {"nav": "routes", "preview": preview, "address": services.address_shown(found), "now": timezone.now()}
    context["seal_problem"] = services.seal_problem(found)
    if "inbound_secret" in kind.form:
        context |= {"hook": link(reverse("api-route-pagerduty", args=[pk])), "hears": found.inbound_secret}
    context |= _choices(request, form, errors, found)
    return render(request, "triage/routes/route.html", context, status=422 if errors else 200)


@require_POST
@ability_required("routes")
def act(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test message, create a new signing secret, or delete it."""
    found = get_object_or_404(routes_of(request.user), pk=pk)
    act_name = request.POST.get("act")
    if act_name == "ping":
        sent = outbox.ping(route=found)
        return redirect("delivery", pk, sent.pk)
    if act_name == "rotate":
        try:
            secret = services.secret_rotate(route=found, by=request.user)
        except Refused as refusal:
            messages.error(request, str(refusal))
            return redirect("route", pk)
        context = {"route": found, "secret": secret, "nav": "routes"}
        return render(request, "triage/routes/secret.html", context)
    if act_name == "delete":
        services.route_delete(route=found, by=request.user)
        messages.success(request, f"Deleted {found.name}. The activity log keeps a record.")
        return redirect("routes")
    messages.error(request, "Choose ping, rotate or delete.")
    return redirect("route", pk)


@require_safe
@ability_required("routes")
def delivery(request: HttpRequest, pk: int, delivery: UUID) -> HttpResponse:
    """One message: what it says, its event, and the receiver's answer to each try."""
    route = get_object_or_404(routes_of(request.user), pk=pk)
    found = get_object_or_404(route.deliveries, pk=delivery)
    body = json.dumps(json.loads(found.body), indent=2, ensure_ascii=False)
    message = message_of(found.body, key=f"msg_{found.pk.hex}")
    is_under_way = found.state == Delivery.State.WAITING and not found.attempts
    context = {"route": route, "kind": ALL[route.kind], "delivery": found, "body": body, "message": message}
    context |= {"is_test": found.event == outbox.PING, "is_under_way": is_under_way, "nav": "routes"}
    return render(request, "triage/routes/delivery.html", context)


@require_POST
@ability_required("routes")
def redeliver(request: HttpRequest, pk: int, delivery: UUID) -> HttpResponse:
    """Send the same message again, under its own id."""
    route = get_object_or_404(routes_of(request.user), pk=pk)
    outbox.redeliver(delivery=get_object_or_404(route.deliveries, pk=delivery))
    messages.success(request, "It is sent again.")
    return redirect("delivery", pk, delivery)


def _form(request: HttpRequest, route: Route | None, kind: Destination) -> dict[str, Any]:
    """The values of the form: the posted ones, else the route's, else the kind's. No secret is among them."""
    shown = {name: field for name, field in kind.form.items() if not field.is_secret}
    if request.method == "POST":
        posted = request.POST
        names = ("name", "query", "team", "quiet_from", "quiet_until", "zone")
        form: dict[str, Any] = {name: posted.get(name, "") for name in names}
        form["values"] = {name: posted.get(name, "") for name in shown}
        form["secrets"] = {name: posted.get(name, "") for name, field in kind.form.items() if field.is_secret}
        return {**form, "events": posted.getlist("events"), "is_active": route is None or "active" in posted}
    if route is None:
        values = {name: field.default for name, field in shown.items()}
        blank = {"name": "", "query": "", "team": "", "quiet_from": "", "quiet_until": "", "zone": "UTC"}
        return {**blank, "values": values, "events": list(kind.events), "is_active": True}
    stored = {"url": "" if services.seal_problem(route) else route.opened("url"), **route.options}
    values = {name: stored.get(name, "") for name in shown}
    return {
        "name": route.name,
        "query": route.query,
        "team": route.team.slug if route.team else "",
        "quiet_from": route.quiet_from.strftime("%H:%M") if route.quiet_from else "",
        "quiet_until": route.quiet_until.strftime("%H:%M") if route.quiet_until else "",
        "zone": route.zone,
        "values": values,
        "events": route.events,
        "is_active": route.is_active,
    }


def _route_arguments(request: HttpRequest, form: dict[str, Any]) -> dict[str, Any]:
    """The form as arguments of ``route_save``."""
    slug = form["team"]
    team = teams_of(request.user).filter(slug=slug).first() if slug else None
    if slug and team is None:
        sentence = "You are no member of this team: leave it out, or ask an administrator."
        raise Refused(sentence, fields={"team": sentence})
    fields = {**form["values"], **form.get("secrets", {})}
    return {
        "name": form["name"],
        "url": fields.pop("url", ""),
        "secret": fields.pop("secret", ""),
        "options": fields,
        "events": form["events"],
        "query": form["query"],
        "quiet_from": _time("quiet_from", form["quiet_from"]),
        "quiet_until": _time("quiet_until", form["quiet_until"]),
        "zone": form["zone"] or "UTC",
        "team": team,
        "is_active": form["is_active"],
    }


def _time(name: str, text: str) -> time | None:
    try:
        return time.fromisoformat(text) if text else None
    except ValueError:
        sentence = f"“{text[:20]}” is no time of day: write it like 22:00."
        raise Refused(sentence, fields={name: sentence}) from None


def _preview(request: HttpRequest, form: dict[str, Any], kind: Destination) -> Preview:
    return preview_of(user=request.user, kind=kind, query=form["query"], events=form["events"])


def _choices(request: HttpRequest, form: dict[str, Any], errors: dict[str, str], route: Route | None) -> dict[str, Any]:
    site = urlsplit(settings.SITE_URL)
    local = site.netloc if site.hostname in ("localhost", "127.0.0.1", "::1") else ""
    context = {"form": form, "errors": errors, "events": EVENTS, "teams": teams_of(request.user)}
    secrets = [name for name, field in ALL[route.kind].form.items() if field.is_secret] if route else []
    return {**context, "local_site": local, "stored": [name for name in secrets if getattr(route, name)]}


def _render_preview(request: HttpRequest, preview: Preview | None, errors: dict[str, str]) -> HttpResponse:
    """The preview alone, or why there is none: the form of the page stays with what was typed, secrets included."""
    return render(request, "triage/routes/_preview.html", {"preview": preview, "errors": errors})

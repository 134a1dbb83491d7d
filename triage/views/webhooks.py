"""Pages of webhooks: who receives which events, sent messages, and sending a message again."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ingest.refusals import Refused
from ingest.selectors import clusters_visible_to
from triage.models import Delivery, Webhook
from triage.selectors.webhooks import deliveries_of, webhooks_of, with_counts
from triage.services import webhooks as services
from triage.views.common import ability_required

PAGE = 50


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("webhooks")
def listing(request: HttpRequest) -> HttpResponse:
    """Webhooks, and the form for a new one. Only the answer that creates a webhook shows its secret."""
    context: dict[str, Any] = {"nav": "webhooks"}
    form, errors = _form(request, None), {}
    if request.method == "POST":
        try:
            hook = services.webhook_save(by=request.user, **_wanted(request, None))
            context |= {"secret": hook.secret, "made": hook}
            form = _blank()
        except Refused as refusal:
            errors = refusal.fields
    context |= {"webhooks": with_counts(webhooks_of(request.user)), **_choices(request, form, errors)}
    return render(request, "triage/webhooks/list.html", context, status=422 if errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("webhooks")
def webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """One webhook: its form and the log of its messages."""
    hook = get_object_or_404(webhooks_of(request.user), pk=pk)
    errors: dict[str, str] = {}
    if request.method == "POST":
        try:
            services.webhook_save(by=request.user, existing=hook, **_wanted(request, hook))
            messages.success(request, "Saved.")
            return redirect("webhook", pk)
        except Refused as refusal:
            errors = refusal.fields
    state = request.GET.get("state", "")
    page = Paginator(deliveries_of(hook, state=state), PAGE).get_page(request.GET.get("page"))
    context = {"webhook": hook, "page": page, "state": state, "states": Delivery.State.choices, "nav": "webhooks"}
    context |= _choices(request, _form(request, hook), errors)
    return render(request, "triage/webhooks/webhook.html", context, status=422 if errors else 200)


@require_POST
@ability_required("webhooks")
def act(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a ping, create a new secret, or delete it."""
    hook = get_object_or_404(webhooks_of(request.user), pk=pk)
    wanted = request.POST.get("act")
    if wanted == "ping":
        sent = services.ping(hook=hook)
        return redirect("delivery", pk, sent.pk)
    if wanted == "rotate":
        secret = services.secret_rotate(hook=hook, by=request.user)
        context = {"webhook": hook, "secret": secret, "nav": "webhooks"}
        return render(request, "triage/webhooks/secret.html", context)
    if wanted == "delete":
        services.webhook_delete(hook=hook, by=request.user)
        messages.success(request, f"Deleted {hook.name}. The activity log keeps a record.")
        return redirect("webhooks")
    messages.error(request, "Choose ping, rotate or delete.")
    return redirect("webhook", pk)


@require_safe
@ability_required("webhooks")
def delivery(request: HttpRequest, pk: int, delivery: UUID) -> HttpResponse:
    """One message: its body, and the receiver's answer to each try."""
    hook = get_object_or_404(webhooks_of(request.user), pk=pk)
    found = get_object_or_404(hook.deliveries, pk=delivery)
    body = json.dumps(json.loads(found.body), indent=2, ensure_ascii=False)
    context = {"webhook": hook, "delivery": found, "body": body, "nav": "webhooks"}
    return render(request, "triage/webhooks/delivery.html", context)


@require_POST
@ability_required("webhooks")
def redeliver(request: HttpRequest, pk: int, delivery: UUID) -> HttpResponse:
    """Send the same message again, under its own id."""
    hook = get_object_or_404(webhooks_of(request.user), pk=pk)
    services.redeliver(delivery=get_object_or_404(hook.deliveries, pk=delivery))
    messages.success(request, "It is sent again.")
    return redirect("delivery", pk, delivery)


def _blank() -> dict[str, Any]:
    return {
        "name": "",
        "url": "",
        "events": ["incident.opened", "incident.regressed"],
        "cluster": "",
        "is_active": True,
    }


def _form(request: HttpRequest, hook: Webhook | None) -> dict[str, Any]:
    """The values of the form: the posted ones, else the webhook's."""
    if request.method == "POST":
        form = {name: request.POST.get(name, "") for name in ("name", "url", "cluster")}
        return {**form, "events": request.POST.getlist("events"), "is_active": "active" in request.POST}
    if hook is None:
        return _blank()
    cluster = hook.cluster.slug if hook.cluster else ""
    return {
        "name": hook.name,
        "url": hook.url,
        "events": hook.events,
        "cluster": cluster,
        "is_active": hook.is_active,
    }


def _wanted(request: HttpRequest, hook: Webhook | None) -> dict[str, Any]:
    form = _form(request, hook)
    slug = form.pop("cluster")
    cluster = clusters_visible_to(request.user).filter(slug=slug).first() if slug else None
    if slug and cluster is None:
        sentence = "There is no such cluster, or you have no access to it: leave it out, or ask an administrator."
        raise Refused(sentence, fields={"cluster": sentence})
    if hook is None:
        form["is_active"] = True
    return {**form, "cluster": cluster}


def _choices(request: HttpRequest, form: dict[str, Any], errors: dict[str, str]) -> dict[str, Any]:
    return {"form": form, "errors": errors, "events": services.EVENTS, "clusters": clusters_visible_to(request.user)}

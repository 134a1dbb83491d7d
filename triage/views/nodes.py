"""Pages about machines: the fleet, and one node with its history and drain note."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from ingest.parameters import whole
from ingest.roles import can
from triage.selectors.demonstration import counted_clusters, notice_of_machines
from triage.selectors.memory import cached_result
from triage.selectors.node_parts import node_parts
from triage.selectors.nodes import SORTS, fleet_page, node_page
from triage.services.nodes import node_note
from triage.views.common import demonstration


@require_safe
def fleet(request: HttpRequest) -> HttpResponse:
    text, sort = request.GET.get("name", "").strip(), request.GET.get("sort", "recent")
    is_all = request.GET.get("all") == "1"
    now, page, named = timezone.now(), whole(request.GET.get("page"), 1), request.GET.get("cluster", "")
    clusters = counted_clusters(request.user, named)
    shown = cached_result(
        "fleet",
        user=request.user,
        parts=(text, sort, is_all, page, sorted(clusters)),
        now=now,
        compute=lambda: fleet_page(
            request.user, clusters=clusters, text=text, sort=sort, is_accused_only=not is_all, page=page, now=now
        ),
    )
    context = {
        "nav": "nodes",
        "fleet": shown,
        "name": text,
        "sort": sort if sort in SORTS else "recent",
        "sorts": SORTS,
        "is_all": is_all,
        "params": request.GET,
        "has_clusters": len({row.node.cluster_id for row in shown.rows}) > 1,
        "has_states": any(row.node.drained_at or row.node.note for row in shown.rows),
        **demonstration(request, notice_of_machines(request.user, clusters, named), name="cluster"),
    }
    return render(request, "triage/nodes/fleet.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def node(request: HttpRequest, name: str) -> HttpResponse:
    cluster = request.GET.get("cluster", "")
    shown = node_page(request.user, name, cluster=cluster, now=timezone.now())
    if shown is None:
        raise Http404(f"No node “{name}” is known in a cluster that you may see.")
    if request.method == "POST":
        if not can(request.user, "review"):
            raise PermissionDenied("Notes on nodes are for engineers and managers.")
        node_note(
            node=shown.row.node,
            user=request.user,
            note=request.POST.get("note", ""),
            is_drained=request.POST.get("drained") == "1",
        )
        messages.success(request, f"Noted on {shown.row.node.name}.")
        return redirect(f"{request.path}?{urlencode({'cluster': shown.row.node.cluster.slug})}")
    notice = notice_of_machines(request.user, [shown.row.node.cluster_id], shown.row.node.cluster.slug)
    parts = node_parts(shown.row.node, shown.accusations, now=timezone.now())
    context = {
        "nav": "nodes",
        "shown": shown,
        "parts": parts,
        **demonstration(request, notice, name="cluster"),
    }
    return render(request, "triage/nodes/node.html", context)

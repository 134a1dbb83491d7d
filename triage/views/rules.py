"""Pages of the site's own signatures."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from diagnosis.model import Role
from ingest.roles import can
from triage.domain import known_rules
from triage.domain.known_rules import Wanted
from triage.manual.searching import words_of
from triage.models import CustomRule
from triage.services.rules import TEMPLATE, RuleRefused, rule_check, rule_delete, rule_save, rule_try


@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    """The site's own rules, and the built-in ones: all areas, or the rules that fit words, category, area and role."""
    asked = {name: request.GET.get(name, "").strip() for name in ("find", "category", "area", "role")}
    words = tuple(words_of(asked["find"]))
    wanted = Wanted(words, asked["category"], asked["area"], asked["role"])
    found = known_rules.find(wanted) if wanted else []
    context = {
        "nav": "rules",
        "rules": CustomRule.objects.select_related("created_by"),
        **asked,
        "areas": known_rules.areas(),
        "categories": known_rules.categories(),
        "roles": list(Role),
        "is_search": bool(wanted),
        "found": found[: known_rules.MAX_ROWS],
        "found_count": len(found),
        "deciding": known_rules.deciding_rule(asked["find"]) if len(words) > 1 else None,
        "may_edit": can(request.user, "administer"),
    }
    return render(request, "triage/rules/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Write, try, save or delete one rule."""
    if not can(request.user, "administer"):
        raise PermissionDenied("Rules change what every diagnosis says: only administrators edit them.")
    rule = get_object_or_404(CustomRule, pk=pk) if pk else None
    body = request.POST.get("body", rule.body if rule else TEMPLATE).replace("\r\n", "\n")
    is_active = request.POST.get("active") == "1" if request.method == "POST" else rule is None or rule.is_active
    context: dict[str, Any] = {"nav": "rules", "rule": rule, "body": body, "is_active": is_active}
    if request.method == "POST":
        act = request.POST.get("act")
        if act == "delete" and rule:
            rule_delete(rule=rule, by=request.user)
            messages.success(request, f"Deleted {rule.rule_id}. Its text stays in the activity log.")
            return redirect("rules")
        try:
            if act == "try":
                context["tried"], context["artifacts"] = rule_try(rule=rule_check(body), user=request.user)
            else:
                saved = rule_save(body=body, by=request.user, is_active=is_active, existing=rule)
                messages.success(request, f"Kept {saved.rule_id}. The next diagnosis uses it.")
                return redirect("rules")
        except RuleRefused as refused:
            context["problems"] = refused.problems
    return render(request, "triage/rules/edit.html", context, status=422 if "problems" in context else 200)

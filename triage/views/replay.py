"""The dual-phase replay planner: two groupings of the machines, and the machine in which the failing groups meet."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

MAX_MACHINES = 20_000


@require_safe
def planner(request: HttpRequest) -> HttpResponse:
    """Everything is in the address, so a plan can be sent to a colleague."""
    from diagnosis.stacks import replay  # noqa: PLC0415  # the engine is not imported with the site

    given = request.GET
    context: dict[str, Any] = {"nav": "replay", "given": given, "k": given.get("k", "1"), "pp": given.get("pp", "1")}
    machines = re.split(r"[\s,]+", given.get("machines", "").strip())
    if machines != [""]:
        try:
            if len(machines) > MAX_MACHINES:
                raise ValueError(f"{len(machines):,} machines are listed, at most {MAX_MACHINES:,} can be planned for.")
            sizes = {name: _size(name, given.get(name, "")) for name in ("pp", "dp", "k")}
            plan = replay.plan(machines, pp=sizes["pp"] or 1, dp=sizes["dp"], k=sizes["k"] or 1)
            context["plan"] = plan
            failed = [_numbers(given.getlist(name)) for name in ("h", "v")]
            if failed[0] and failed[1]:
                context["named"], context["sentence"] = replay.verdict(plan, failed[0], failed[1])
            context["failed_h"], context["failed_v"] = failed
        except ValueError as error:
            context["problem"] = str(error)
    return render(request, "triage/replay.html", context)


def _size(name: str, raw: str) -> int | None:
    if not raw.strip():
        return None
    if not raw.strip().isascii() or not raw.strip().isdigit() or len(raw) > 7:
        raise ValueError(f"{name} is “{raw}”: give a whole number.")
    return int(raw)


def _numbers(raw: list[str]) -> list[int]:
    return [int(value) for value in raw if value.isascii() and value.isdigit() and len(value) < 7]

"""The dual-phase replay planner: two groupings of the machines; the failing groups meet in the faulty machine."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from triage.domain import replay

MAX_MACHINES = 20_000
#: commas within brackets belong to the name
_NAME = re.compile(r"(?:[^\s,\[\]]|\[[^\]]*\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@require_safe
def planner(request: HttpRequest) -> HttpResponse:
    """The address has the whole input, so that a plan can be sent to a colleague."""
    params = request.GET
    context: dict[str, Any] = {"nav": "replay", "given": params, "k": params.get("k", "1"), "pp": params.get("pp", "1")}
    if params.get("machines", "").strip():
        try:
            machines = _machines(params["machines"])
            sizes = {name: _size(name, params.get(name, "")) for name in ("pp", "dp", "k")}
            plan = replay.plan(machines, pp=sizes["pp"] or 1, dp=sizes["dp"], k=sizes["k"] or 1)
            context["plan"] = plan
            failed = [_numbers(params.getlist(name)) for name in ("h", "v")]
            if failed[0] and failed[1]:
                context["named"], context["sentence"] = replay.verdict(plan, failed[0], failed[1])
            context["failed_h"], context["failed_v"] = failed
        except ValueError as error:
            context["problem"] = str(error)
    return render(request, "triage/replay.html", context)


def _machines(text: str) -> list[str]:
    """Machines in the written order, expanded: ``n[08-10] x`` are n08, n09, n10 and x."""
    machines: list[str] = []
    if text.count("[") != text.count("]"):
        raise ValueError("A bracket is left open: write ranges as node-[0400-0423,0500].")
    for name in _NAME.findall(text):
        head, opened, rest = name.partition("[")
        inside, _, tail = rest.partition("]")
        for part in inside.split(",") if opened else ():
            match = _RANGE.fullmatch(part.strip())
            if not match or "[" in tail:
                raise ValueError(f"“{name[:80]}” is no range: write it as node-[0400-0423,0500].")
            numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
            machines += [f"{head}{number:0{len(match[1])}d}{tail}" for number in numbers[: MAX_MACHINES + 1]]
        machines += [] if opened else [name]
        if len(machines) > MAX_MACHINES:
            raise ValueError(f"More than {MAX_MACHINES:,} machines are listed: plan for fewer.")
    return machines


def _size(name: str, raw: str) -> int | None:
    if not raw.strip():
        return None
    if not raw.strip().isascii() or not raw.strip().isdigit() or len(raw) > 7:
        raise ValueError(f"{name} is “{raw}”: give a whole number.")
    return int(raw)


def _numbers(raw: list[str]) -> list[int]:
    return [int(value) for value in raw if value.isascii() and value.isdigit() and len(value) < 7]

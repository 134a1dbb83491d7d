"""The cheapest checks that settle a doubtful conclusion, as commands, with the meaning of each outcome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.conclusion.model import PROBLEM_CONDITIONS, Fault
from diagnosis.evidence import Place
from diagnosis.kinds.checks.check_outputs import Result
from diagnosis.kinds.checks.check_table import Check, Outcome, load
from diagnosis.kinds.checks.weigh import CHECKED_KINDS, posterior

THRESHOLDS: Final = thresholds.of("next_check")

#: Maximum number of checks in a conclusion.
MAX_CHECKS: Final = 3
#: Names come from evidence: nothing else enters a command line.
SAFE_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._\-]*[A-Za-z0-9])?")


def choose_checks(
    condition: str,
    categories: Sequence[tuple[str, float]],
    fault: Sequence[Fault],
    seen: Sequence[tuple[Place, str]],
    results: Sequence[Result],
    *,
    has_stacks: bool = False,
) -> tuple[dict[str, Any], ...]:
    """At most :data:`MAX_CHECKS` checks, cheapest first; none if nothing is in doubt.

    Each is ``{id, title, command, cost, cost_s, target: {kind, name, rank}, outcomes: [{id, says, p}]}``, ``p`` being
    the probability that the target is at fault after that outcome.
    """
    is_sure = bool(fault) and fault[0].p >= THRESHOLDS.sure and categories[0][1] >= THRESHOLDS.sure
    if condition not in PROBLEM_CONDITIONS or condition == "cancelled" or is_sure:
        return ()
    accused = [f for f in fault if f.place.kind in CHECKED_KINDS]
    shown = [place for place, _ in seen if place.kind == "node"]
    target = accused[0].place if accused else shown[0] if len(shown) == 1 else None
    before = accused[0].p if accused else thresholds.of("weigh").prior
    done = {(r.check.id, r.target) for r in results}
    names = [name for name, _ in categories]
    out = []
    for check in load():
        place = _place(check, target, fault, seen)
        if place is None or not SAFE_NAME.fullmatch(place.name) or (check.id, place.name) in done:
            continue
        if check.id == "pyspy" and has_stacks:
            continue
        if check.conditions and condition not in check.conditions:
            continue
        if not any(name == head or name.startswith(f"{head}.") for name in names for head in check.about):
            continue
        if check.needs == "other" and len(accused) < 2 and place.kind == "node":
            continue
        out.append(_row(check, place, before))
    return tuple(out[:MAX_CHECKS])


def _place(
    check: Check, target: Place | None, fault: Sequence[Fault], seen: Sequence[tuple[Place, str]]
) -> Place | None:
    if check.needs != "rank":
        is_about = target is not None and (target.kind == "node" or check.link_command)
        return target if is_about else None
    ranked = [f.place for f in fault if f.place.rank is not None]
    ranked += [place for place, _ in seen if place.kind == "rank"]
    return ranked[0] if ranked else None


def _row(check: Check, place: Place, before: float) -> dict[str, Any]:
    host = place.name if place.kind == "node" else f"<node of rank {place.rank}>"
    fields = {"node": place.name, "rank": "" if place.rank is None else place.rank, "host": host}
    is_link = place.kind in ("switch", "link")
    return {
        "id": check.id,
        "title": check.title,
        "command": (check.link_command if is_link else check.command).format(**fields),
        "cost": (check.link_cost if is_link else check.cost).format(**fields),
        "cost_s": check.cost_s,
        "target": {"kind": place.kind, "name": place.name, "rank": place.rank},
        "is_recognised": check.sign is not None or check.id == "pyspy",
        "outcomes": [_outcome(o, before) for o in check.outcomes],
    }


def _outcome(outcome: Outcome, before: float) -> dict[str, Any]:
    return {"id": outcome.id, "says": outcome.says, "p": round(posterior(before, outcome.ratio), 4)}

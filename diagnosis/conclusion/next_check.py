"""The cheapest checks that settle a doubtful conclusion, as commands, with the meaning of each outcome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.conclusion.model import PROBLEM_CONDITIONS, Fault
from diagnosis.conclusion.weigh import CHECKED_KINDS, posterior
from diagnosis.evidence import Check, Outcome, Place, Result

THRESHOLDS: Final = thresholds.of("next_check")

#: Maximum number of checks in a conclusion.
MAX_CHECKS: Final = 3
#: Names come from evidence: nothing else enters a command line.
SAFE_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._\-]*[A-Za-z0-9])?")


def choose_checks(
    table: Sequence[Check],
    condition: str,
    categories: Sequence[tuple[str, float]],
    fault: Sequence[Fault],
    seen: Sequence[tuple[Place, str]],
    results: Sequence[Result],
    *,
    has_stacks: bool = False,
) -> tuple[dict[str, Any], ...]:
    """At most :data:`MAX_CHECKS` checks of the ``table``, whose cheapest come first; none if nothing is in doubt.

    Each is ``{id, title, command, cost, cost_s, target: {kind, name, rank}, outcomes: [{id, says, p}]}``, ``p`` being
    the probability that the target is at fault after that outcome.
    """
    if not _is_doubtful(condition, categories, fault):
        return ()
    accused = [f for f in fault if f.place.kind in CHECKED_KINDS]
    target = _target(accused, seen)
    before = accused[0].p if accused else thresholds.of("weigh").prior
    names = [name for name, _ in categories]
    done = {(r.check.id, r.target) for r in results}
    can_swap = len(accused) > 1
    out = []
    for check in table:
        place = _place(check, target, fault, seen)
        if place is None or not SAFE_NAME.fullmatch(place.name) or (check.id, place.name) in done:
            continue
        if _is_possible(check, place, can_swap=can_swap, has_stacks=has_stacks) and _is_about(check, condition, names):
            out.append(_row(check, place, before))
    return tuple(out[:MAX_CHECKS])


def _is_possible(check: Check, place: Place, *, can_swap: bool, has_stacks: bool) -> bool:
    """Whether there is what a check needs, and not yet what it gives. ``can_swap``: a second suspect is there."""
    if check.id == "pyspy" and has_stacks:
        return False
    return check.needs != "other" or can_swap or place.kind != "node"


def _is_doubtful(condition: str, categories: Sequence[tuple[str, float]], fault: Sequence[Fault]) -> bool:
    """Whether the culprit or the category of a problem is in doubt."""
    is_sure = bool(fault) and fault[0].p >= THRESHOLDS.sure and categories[0][1] >= THRESHOLDS.sure
    return condition in PROBLEM_CONDITIONS and condition != "cancelled" and not is_sure


def _target(accused: Sequence[Fault], seen: Sequence[tuple[Place, str]]) -> Place | None:
    """Whom a check should be about: the first of the accused, else the only machine that was seen."""
    if accused:
        return accused[0].place
    shown = [place for place, _ in seen if place.kind == "node"]
    return shown[0] if len(shown) == 1 else None


def _is_about(check: Check, condition: str, categories: Sequence[str]) -> bool:
    """Whether a check decides on one of the categories of a job in this condition."""
    if check.conditions and condition not in check.conditions:
        return False
    heads = tuple(f"{head}." for head in check.about)
    return any(f"{name}.".startswith(heads) for name in categories)


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

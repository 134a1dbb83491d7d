"""The cheapest checks that settle a doubtful conclusion, as commands, with the meaning of each
outcome.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.conclusion.model import Fault, OfferedCheck, PossibleOutcome
from diagnosis.evidence import SETUP_CHECK, Check, Outcome, Place, Result
from diagnosis.joining.checked_suspects import CHECKED_KINDS, posterior

THRESHOLDS: Final = thresholds.of("next_check")

#: Maximum number of checks in a conclusion.
MAX_CHECKS: Final = 3
#: The check whose output, stack dumps, is a kind of evidence of its own.
STACK_DUMPS: Final = "pyspy"
#: Conditions of which the culprit or the category may be in doubt.
DOUBTFUL_CONDITIONS: Final = ("failed", "hung", "degraded")
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
) -> tuple[OfferedCheck, ...]:
    """At most :data:`MAX_CHECKS` of the ``table``, cheapest first; none if nothing is in doubt."""
    if not _is_doubtful(condition, categories, fault) or _is_of_setup(categories, results):
        return ()
    places = _Places(fault, seen)
    names = [name for name, _ in categories]
    about = [check for check in table if _is_about(check, condition, names)]
    targets = [(check, places.target_of(check)) for check in about]
    done = {(result.check.id, result.target) for result in results}
    if has_stacks:
        done |= {(STACK_DUMPS, place.name) for _, place in targets if place is not None}
    offered = [
        _offer(check, place, places.prior)
        for check, place in targets
        if place is not None and (check.id, place.name) not in done
    ]
    return tuple(offered[:MAX_CHECKS])


def _is_doubtful(condition: str, categories: Sequence[tuple[str, float]], fault: Sequence[Fault]) -> bool:
    """Whether the culprit or the category of a problem is in doubt."""
    if condition not in DOUBTFUL_CONDITIONS:
        return False
    least = min(categories[0][1], max((f.p for f in fault[:1]), default=0.0))
    return bool(least < THRESHOLDS.sure)


def _is_of_setup(categories: Sequence[tuple[str, float]], results: Sequence[Result]) -> bool:
    """Whether a difference between set-ups is the category. No test of one machine tells whether it
    matters.
    """
    differences = [result for result in results if result.check.id == SETUP_CHECK]
    return categories[0][0] in {result.outcome.adds for result in differences}


def _is_about(check: Check, condition: str, categories: Sequence[str]) -> bool:
    """Whether a check decides on one of the categories of a job in this condition."""
    if check.conditions and condition not in check.conditions:
        return False
    heads = tuple(f"{head}." for head in check.about)
    return any(f"{name}.".startswith(heads) for name in categories)


class _Places:
    """Whom a check may be about: the accused, and where the failure was seen."""

    def __init__(self, fault: Sequence[Fault], seen: Sequence[tuple[Place, str]]) -> None:
        accused = [f for f in fault if f.place.kind in CHECKED_KINDS]
        self._ranks = [f.place for f in fault if f.place.rank is not None]
        self._ranks += [place for place, _ in seen if place.kind == "rank"]
        #: the first of the accused, else the only machine that was seen
        self._first = [f.place for f in accused[:1]] or _only_node(seen)
        self._can_swap = len(accused) > 1
        #: how probable it is that the first one is at fault
        self.prior = accused[0].p if accused else thresholds.of("checked_suspects").prior

    def target_of(self, check: Check) -> Place | None:
        """The place for a check; None if there is none, or its name must not enter a command."""
        if check.needs == "rank":
            found = self._ranks[:1]
        else:
            found = [place for place in self._first if self._is_fit(place, check)]
        return next((place for place in found if SAFE_NAME.fullmatch(place.name)), None)

    def _is_fit(self, place: Place, check: Check) -> bool:
        """Whether a check is about such a place, and there is a second suspect where it needs one."""
        if place.kind != "node":
            return bool(check.link_command)
        return self._can_swap or check.needs != "other"


def _only_node(seen: Sequence[tuple[Place, str]]) -> list[Place]:
    """The machine that was seen, if it is the only one."""
    nodes = [place for place, _ in seen if place.kind == "node"]
    return nodes if len(nodes) == 1 else []


def _possible(outcome: Outcome, before: float) -> PossibleOutcome:
    """An outcome with the probability that the place is at fault after it."""
    return PossibleOutcome(outcome.id, outcome.says, round(posterior(before, outcome.ratio), 4))


def _offer(check: Check, place: Place, before: float) -> OfferedCheck:
    """A check with its command; ``before``: the probability that the place is at fault."""
    host = place.name if place.kind == "node" else f"<node of rank {place.rank}>"
    rank = "" if place.rank is None else place.rank
    names = {"node": place.name, "rank": rank, "host": host}
    is_link = place.kind in ("switch", "link")
    command, cost = (check.link_command, check.link_cost) if is_link else (check.command, check.cost)
    return OfferedCheck(
        id=check.id,
        title=check.title,
        command=command.format(**names),
        cost=cost.format(**names),
        cost_s=check.cost_s,
        target=place,
        is_recognised=check.id == STACK_DUMPS or check.sign is not None,
        outcomes=tuple(_possible(outcome, before) for outcome in check.outcomes),
    )

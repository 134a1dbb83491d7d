"""What a program that restarts jobs by itself is told about a failed attempt. Pure: no queries, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diagnosis.advising import ladder
from diagnosis.advising.advice import SAFE_NAME
from diagnosis.values.plain import percent

#: below, a job is not stopped: a wrong stop costs hours until a person looks, a needless restart costs minutes
STOP_CONFIDENCE = 0.8
_ACTIONS = {"continue": "CONTINUE", "restart": "RESTART", "stop": "STOP"}


@dataclass(frozen=True, slots=True)
class Recommendation:
    """``action`` is STOP, RESTART, CONTINUE or UNKNOWN; ``exclude_nodes`` must not take part in the restart."""

    action: str
    reason: str
    exclude_nodes: tuple[str, ...] = ()


def recommendation(
    advice: dict[str, Any], *, confidence: float, is_judged_otherwise: bool = False, is_repeated: bool = False
) -> Recommendation:
    """The advice of an incident as one word for a machine.

    :param advice: the current advice of the incident; empty where nothing failed.
    :param confidence: of the category, 0 to 1.
    :param is_judged_otherwise: a person rejected or corrected the machine's category, which the advice rests on.
    :param is_repeated: the attempt before failed in the same category.
    """
    if not advice:
        return Recommendation("CONTINUE", "The evidence of this attempt shows no failure.")
    if is_judged_otherwise:
        return Recommendation("UNKNOWN", "A person judged this failure otherwise: ask them.")
    rule = next((rule for rule in ladder.load().rules if rule.id == advice.get("rule")), None)
    word = rule.restart if rule else "unknown"
    reason = " ".join(map(str, advice.get("because") or ())) or "No rule of the advice applies."
    if word == "stop_if_repeated":
        word = "stop" if is_repeated else "restart"
        reason += " It failed the same way before." if is_repeated else " Once is tolerated."
    if word == "stop" and confidence < STOP_CONFIDENCE:
        return Recommendation("UNKNOWN", f"{reason} This is too uncertain to stop the job ({percent(confidence)}).")
    if word not in _ACTIONS:
        return Recommendation("UNKNOWN", f"{reason} A person must decide.")
    targets = advice.get("targets") or () if word == "restart" else ()
    nodes = tuple(str(name) for name in targets if SAFE_NAME.fullmatch(str(name)))  # a controller may run a shell
    return Recommendation(_ACTIONS[word], reason, nodes)

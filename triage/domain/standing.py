"""What stands after decisions of people: the state of an incident and its claims. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from diagnosis import taxonomy
from triage.models import Decision, Incident, Suspect

_STATE_OF = {
    Decision.Word.CONFIRM: Incident.State.CONFIRMED,
    Decision.Word.CORRECT: Incident.State.CORRECTED,
    Decision.Word.REJECT: Incident.State.REJECTED,
    Decision.Word.INCONCLUSIVE: Incident.State.INCONCLUSIVE,
}
#: states that a further act sets; they hold until the category is judged again
LATER_STATES = frozenset({Incident.State.ACTIONED, Incident.State.RESOLVED})


def latest_by_claim(decisions: Iterable[Decision]) -> dict[tuple[str, str], Decision]:
    """The last decision not undone of each claim, keyed (claim, subject)."""
    last: dict[tuple[str, str], Decision] = {}
    for decision in sorted(decisions, key=lambda d: (d.made_at, d.pk)):
        if decision.undone_at is None:
            last[decision.claim, decision.subject] = decision
    return last


def says_the_same(decision: Decision, before: Decision) -> bool:
    """Whether a decision repeats the one of its claim that stands: the same person, word and value, and no other
    reason."""
    is_same = (decision.made_by_id, decision.word, decision.value) == (before.made_by_id, before.word, before.value)
    return is_same and decision.reason in ("", before.reason)


def state_of(decisions: Iterable[Decision]) -> str:
    """The state follows the decision on the category."""
    word = latest_by_claim(decisions).get((Decision.Claim.CATEGORY, ""))
    return _STATE_OF[Decision.Word(word.word)] if word else Incident.State.AWAITING_REVIEW


def suspect_words(decisions: Iterable[Decision]) -> dict[str, str]:
    """The decision that stands on each judged suspect, by its name."""
    last = latest_by_claim(decisions)
    return {subject: word.word for (claim, subject), word in last.items() if claim == Decision.Claim.SUSPECT}


def accused_of(machine: Iterable[str], decisions: Iterable[Decision]) -> list[str]:
    """Who is at fault after review: of the machine's accused whom nobody cleared, and the named."""
    cleared: set[str] = set()
    named: list[str] = []
    for (claim, subject), one in latest_by_claim(decisions).items():
        if claim != Decision.Claim.SUSPECT:
            continue
        if one.word in Suspect.CLEARED:
            cleared.add(subject)
        if one.word in (Decision.Word.CONFIRM, Decision.Word.CORRECT):
            named.append(one.value or subject)
    accused = [name for name in machine if name not in cleared]
    return list(dict.fromkeys([*accused, *named]))


def category_of(machine: str, decisions: Iterable[Decision]) -> str:
    """The category that stands: a person's (also on an earlier version), else the machine's.

    A rejected category counts as unknown: something stopped the job, but not what the machine named.
    """
    word = latest_by_claim(decisions).get((Decision.Claim.CATEGORY, ""))
    if word and word.word == Decision.Word.REJECT:
        return taxonomy.UNKNOWN
    if word and word.word in (Decision.Word.CONFIRM, Decision.Word.CORRECT):
        return word.value
    return machine

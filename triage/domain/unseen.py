"""Nobody replaces a decision that they have not seen. Pure."""

from __future__ import annotations

from triage.models import Decision
from triage.wording import ago

_AGAIN = {
    Decision.Word.CONFIRM: "confirm",
    Decision.Word.CORRECT: "correct",
    Decision.Word.REJECT: "reject",
    Decision.Word.INCONCLUSIVE: "judge inconclusive",
}


def unseen_decision(before: Decision | None, decision: Decision, seen: int | None) -> str:
    """Why ``decision`` may not replace the standing ``before``, as a sentence; empty if it may.

    :param seen: id of the newest decision on the incident that the person's page showed, 0 if it showed none; None: the
        caller did not say, and replaces what stands.
    """
    if before is None or seen is None or before.pk <= seen or before.made_by_id == decision.made_by_id:
        return ""
    if (before.word, before.value) == (decision.word, decision.value):
        return ""
    what = f"suspect {before.subject}" if before.subject else f"the {before.claim}"
    told = f"{before.made_by} {before.get_word_display()} {what} {ago(before.made_at)}, after you opened this page."
    return f"{told} Nothing was changed. To {_AGAIN[Decision.Word(decision.word)]} it all the same, do it again."

"""How a job ended: as its uploader states it, as its evidence shows it, and which of the two stands."""

from __future__ import annotations

from typing import Final

from django.db import models


class Outcome(models.TextChoices):
    UNKNOWN = "unknown", "unknown"
    RUNNING = "running", "running"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


#: the job has ended
ENDS: Final = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED)
#: what the evidence must show to outweigh a statement. Nothing outweighs "failed" and "cancelled": a log may end before
#: the failure, and people cancel jobs that failed or hung.
OUTWEIGHED_BY: Final[dict[str, tuple[str, ...]]] = {
    Outcome.UNKNOWN: tuple(Outcome),
    Outcome.RUNNING: ENDS,
    Outcome.SUCCEEDED: (Outcome.FAILED, Outcome.CANCELLED),
    Outcome.FAILED: (),
    Outcome.CANCELLED: (),
}
_PAST: Final[dict[str, str]] = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "was cancelled",
    Outcome.RUNNING: "is running",
}


def standing_outcome(stated: str, found: str) -> str:
    """The outcome that stands: the ``stated`` one, unless the evidence (``found``) contradicts it."""
    return found if found in OUTWEIGHED_BY[stated] else stated


def is_contradicted(stated: str, found: str) -> bool:
    """Whether people state one outcome and the evidence shows another end."""
    return stated not in (Outcome.UNKNOWN, found) and found in ENDS


def outcome_note(stated: str, found: str, standing: str, *, has_evidence: bool) -> str:
    """One sentence or two on where the outcome comes from; empty if statement and evidence agree, or nobody stated
    one.
    """
    if standing == Outcome.UNKNOWN and Outcome.RUNNING in (stated, found):
        return "It was running when the last news of it came, long ago: nobody knows how it ended."
    if stated in (Outcome.UNKNOWN, found) or (stated == Outcome.RUNNING and found not in ENDS):
        return ""
    says = f"Its uploader says that it {_PAST[stated]}"
    if found not in ENDS:
        shows = "its evidence does not show how it ended" if has_evidence else "there is no evidence that shows it"
        return f"{says}; {shows}."
    if standing == found:
        return f"{says}, but its evidence shows that it {_PAST[found]}. The evidence stands."
    if found == Outcome.SUCCEEDED:
        end = "the failure" if stated == Outcome.FAILED else "this"
        return (
            f"{says}, but its evidence ends well: {end} came after the last uploaded line, or no uploaded file shows "
            "it. The statement stands."
        )
    return (
        f"{says}, and its evidence shows that it {_PAST[found]}. The statement stands: people cancel jobs that failed, "
        "and jobs fail while they are cancelled."
    )

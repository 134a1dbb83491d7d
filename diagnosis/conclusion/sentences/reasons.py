"""The conclusion's own reasons as sentences: what, what else it may be, and who. Those of logs,
flows and stacks alone could name another cause or another culprit than the conclusion does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis import taxonomy, thresholds
from diagnosis.conclusion.category import CONDITIONS_WITHOUT_PROBLEM
from diagnosis.conclusion.model import Conclusion, Fault
from diagnosis.conclusion.sentences.sentence import KIND_WORDS
from diagnosis.records.result import NO_LOGS, LogDiagnosis
from diagnosis.taxonomy import UNKNOWN
from diagnosis.values.plain import percent

THRESHOLDS: Final = thresholds.of("sentences")
_CONCLUSIVE: Final = thresholds.of("classify").conclusive
_MAX_SHOWN: Final = 3


def reasons(concluded: Conclusion, logs: LogDiagnosis | None) -> tuple[str, ...]:
    """Cause, alternative and culprits of a conclusion; of a job without a failure only alarms and
    checks can name culprits, and no cause is stated.
    """
    told: tuple[str, ...] = ()
    if concluded.condition not in CONDITIONS_WITHOUT_PROBLEM:
        told = _causes(concluded.alternatives)
    if concluded.fault:
        return (*told, f"Who: {_culprits_text(concluded.fault)}.")
    known = logs or NO_LOGS
    if known.is_failure and known.answer:
        return (*told, f"Who: {known.answer}.")
    return told


def _causes(alternatives: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """How sure the category is, and the next one if that is near."""
    first, *others = alternatives or [(UNKNOWN, 0.0)]
    said = _cause_text(*first)
    if not others or others[0][1] <= THRESHOLDS.alternative:
        return (said,)
    other, p = others[0]
    group = _group_text(first, others[0])
    return said, f"It may also be {taxonomy.load().get(other).title} ({percent(p)}){group}."


def _cause_text(leaf: str, p: float) -> str:
    named = f"{taxonomy.load().get(leaf).title} ({percent(p)} sure)."
    if p >= THRESHOLDS.sure:
        return f"Cause: {named}"
    if p >= _CONCLUSIVE:
        return f"Probable cause: {named}"
    if p:
        return f"Not conclusive; closest to {named}"
    return "No evidence names the cause."


def _group_text(one: tuple[str, float], other: tuple[str, float]) -> str:
    """The probability of both candidates' group: they exclude each other, so shares add up."""
    group = one[0].rpartition(".")[0]
    if group.count(".") < 1 or other[0].rpartition(".")[0] != group:
        return ""
    path = ", ".join(taxonomy.load().path(group))
    return f"; either way it belongs to {path} ({percent(min(1.0, one[1] + other[1]))})"


def _culprits_text(fault: Sequence[Fault]) -> str:
    shown = [f"{KIND_WORDS[f.place.kind]}{f.place.name} ({percent(f.p)})" for f in fault[:_MAX_SHOWN]]
    more = len(fault) - _MAX_SHOWN
    if more > 0:
        shown.append(f"one of {more} others")
    return ", or ".join(shown)

"""The conclusion's own reasons as sentences: what, what else it may be, and who. Those of logs, flows and stacks alone
could name another cause or another culprit than the conclusion does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis import taxonomy, thresholds
from diagnosis.conclusion.category import CONDITIONS_WITHOUT_PROBLEM
from diagnosis.conclusion.model import Conclusion, Fault
from diagnosis.conclusion.sentence import KIND_WORDS
from diagnosis.plain import percent
from diagnosis.result import LogDiagnosis
from diagnosis.taxonomy import UNKNOWN

THRESHOLDS: Final = thresholds.of("sentences")
_CONCLUSIVE: Final = thresholds.of("classify").conclusive
_MAX_SHOWN: Final = 3


def reasons(concluded: Conclusion, logs: LogDiagnosis | None) -> tuple[str, ...]:
    """Cause, alternative and culprits of a conclusion; of a job without a failure only alarms and checks can name
    culprits, and no cause is stated.
    """
    out = [] if concluded.condition in CONDITIONS_WITHOUT_PROBLEM else _causes(concluded.alternatives)
    if concluded.fault:
        return (*out, f"Who: {_culprits_text(concluded.fault)}.")
    if logs is not None and logs.is_failure and logs.answer:
        out.append(f"Who: {logs.answer}.")
    return tuple(out)


def _causes(alternatives: Sequence[tuple[str, float]]) -> list[str]:
    tree = taxonomy.load()
    (first, p), *others = alternatives or [(UNKNOWN, 0.0)]
    title = tree.get(first).title
    if p >= THRESHOLDS.sure:
        out = [f"Cause: {title} ({percent(p)} sure)."]
    elif p >= _CONCLUSIVE:
        out = [f"Probable cause: {title} ({percent(p)} sure)."]
    else:
        out = [f"Not conclusive; closest to {title} ({percent(p)} sure)."] if p else ["No evidence names the cause."]
    if others and others[0][1] > THRESHOLDS.alternative:
        other, other_p = others[0]
        group = _group_text((first, p), others[0])
        out.append(f"It may also be {tree.get(other).title} ({percent(other_p)}){group}.")
    return out


def _group_text(one: tuple[str, float], other: tuple[str, float]) -> str:
    """The probability of the group of both candidates: they exclude each other, so their shares add up."""
    group = one[0].rpartition(".")[0]
    if group.count(".") < 1 or other[0].rpartition(".")[0] != group:
        return ""
    path = ", ".join(taxonomy.load().path(group))
    return f"; either way it belongs to {path} ({percent(min(1.0, one[1] + other[1]))})"


def _culprits_text(fault: Sequence[Fault]) -> str:
    shown = [f"{KIND_WORDS[f.place.kind]}{f.place.name} ({percent(f.p)})" for f in fault[:_MAX_SHOWN]]
    return ", or ".join(shown) + (f", or one of {len(fault) - _MAX_SHOWN} others" if len(fault) > _MAX_SHOWN else "")

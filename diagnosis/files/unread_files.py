"""Files from which nothing was concluded, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis.kinds import documents
from diagnosis.model import LOG_KINDS, Parsed
from diagnosis.records.result import LogDiagnosis
from diagnosis.values.plain import counted

#: Files that a sentence each is said of; of others their number.
MAX_NAMED_FILES: Final = 8


def unread_files(parsed: Sequence[Parsed], logs: LogDiagnosis | None) -> list[Parsed]:
    """Documents, which report no event, and texts from which nothing was concluded: no line states a
    time, a level or a writer, no counter grows, and no message is known. They are not healthy: they
    are not read. Beside a log with progress a plain text may be of the same program and is compared
    with it; tables, JSON and the like are not.
    """
    described = [p for p in parsed if p.kind == documents.DOCUMENT]
    return described + _silent_logs(parsed, logs)


def quiet_texts(parsed: Sequence[Parsed], logs: LogDiagnosis | None) -> list[Parsed]:
    """Texts without progress and without a message of the verdict: mostly outputs of tools."""
    return _without_verdict(parsed, logs) if logs is not None else []


def unread_sentences(unread: Sequence[Parsed]) -> list[str]:
    """What is said of :func:`unread_files`."""
    out = [f"{p.path} {_was(p)}: {_form(p)}" for p in unread[:MAX_NAMED_FILES]]
    if len(unread) > MAX_NAMED_FILES:
        out.append(f"{len(unread) - MAX_NAMED_FILES} more files were not recognised.")
    return out


def unread_reason(p: Parsed, *, is_compared: bool = False) -> str:
    """Why nothing was concluded from a file. ``is_compared``: with those of other machines."""
    reason = f"{'No evidence' if p.kind == documents.DOCUMENT else 'Not recognised'}: {_form(p)}"
    compared = " Its lines were compared with those of other machines." if is_compared else ""
    return f"{reason}{compared}"


def _silent_logs(parsed: Sequence[Parsed], logs: LogDiagnosis | None) -> list[Parsed]:
    if logs is None:
        return []
    silent = [p for p in _without_verdict(parsed, logs) if not p.facts.get("has_headers", True)]
    if not logs.progress_files:
        return silent
    return [p for p in silent if p.facts.get("form", "text") != "text"]


def _without_verdict(parsed: Sequence[Parsed], logs: LogDiagnosis) -> list[Parsed]:
    told = {line.file for event in logs.events if event.signature for line in event.lines}
    told |= {line.file for line in logs.lines}  # which show the verdict
    known = told | logs.progress_files
    return [p for p in parsed if p.kind in LOG_KINDS and p.lines and p.path not in known]


def _was(p: Parsed) -> str:
    return "is no evidence" if p.kind == documents.DOCUMENT else "was not recognised"


def _form(p: Parsed) -> str:
    lines = counted(p.lines, "line", "lines")
    form = p.facts.get("form", "text")
    if p.kind == documents.DOCUMENT:
        return f"{form} of {lines}, which reports no event. Nothing was concluded from it."
    return f"{form} of {lines} without a time, a level, a writer or progress. Nothing was concluded from it."

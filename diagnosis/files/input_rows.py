"""What became of each file of a job: read, read as a report by its layout, or not read, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from diagnosis.files.unread_files import quiet_texts, unread_files, unread_reason
from diagnosis.kinds import states
from diagnosis.kinds.logs.columns import physical
from diagnosis.model import LOG_KINDS, Parsed, ReadRange
from diagnosis.records.report_records import InputRow
from diagnosis.records.result import LogDiagnosis


class QuietTexts(msgspec.Struct, frozen=True):
    """Of the texts in which the logs found nothing: all of them (``quiet``), those that are reports by their layout,
    and those that nothing reads, by path; ``are_all_logs``: no other text was taken for a log.
    """

    quiet: Sequence[Parsed]
    laid_out: Mapping[str, Parsed]
    unread: Mapping[str, Parsed]
    are_all_logs: bool


def read_quiet_texts(
    parsed: Sequence[Parsed],
    logs: LogDiagnosis | None,
    read: ReadRange,
    decided: Mapping[str, Parsed],
) -> QuietTexts:
    """What the logs left, read by its layout where it has one, beside the texts that were ``decided``
    to be reports before. O(bytes of these texts).
    """
    quiet = quiet_texts(parsed, logs)
    laid_out = {**decided, **states.read_layouts(quiet, read)}
    unread = {p.path: p for p in unread_files(parsed, logs) if p.path not in laid_out}
    are_all_logs = all(p.path in laid_out for p in parsed if p.kind in LOG_KINDS)
    return QuietTexts(quiet, laid_out, unread, are_all_logs)


def input_rows(
    every: Sequence[Parsed], texts: QuietTexts, seen: LogDiagnosis, compared: Collection[str]
) -> tuple[InputRow, ...]:
    """One row a file, by path, with why it was not read and how the logs read it."""
    rows = []
    for p in sorted(every, key=lambda p: p.path):
        unread = texts.unread.get(p.path)
        why = unread_reason(unread, is_compared=p.path in compared) if unread else None
        is_log = unread is None and p.path not in texts.laid_out
        note = seen.read_notes.get(p.path, "") if is_log else ""
        rows.append(_input(texts.laid_out.get(p.path, p), note, why))
    return tuple(rows)


def _input(p: Parsed, read_note: str, unread: str | None) -> InputRow:
    """A file as the report lists it. ``read_note``: what was read of it as a log, if anything was;
    ``unread``: why nothing was concluded from it.
    """
    return InputRow(
        path=p.path,
        kind=str(p.kind),
        sha256=p.sha256,
        lines=physical.lines(p),
        bytes=p.bytes,
        skipped=p.skipped,
        unread=unread,
        notes=[*filter(None, [read_note]), *p.notes],
    )

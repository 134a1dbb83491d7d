"""Reads one artifact: its kind, then its content by the reader of that kind."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from diagnosis.kinds import kind_table
from diagnosis.kinds.evidence_kind import HEAD_BYTES, EvidenceFile
from diagnosis.model import Kind, Parsed, ParseHints
from diagnosis.processing.checked_stream import CheckedStream


def parse(stream: BinaryIO, path: str, hints: ParseHints, work: Path) -> Parsed:
    """Reads one artifact (or, with ``hints.offset``, one byte range of a plain file cut at a line boundary) once,
    streaming.

    Writes ``columns.parquet`` and ``uniques.parquet`` below ``work``, which must be empty or absent. Never raises on
    content: ``skipped`` states in a sentence why an artifact was not used, ``notes`` lists problems of one that was
    used. Memory is bounded by the block size; time is linear in bytes.
    """
    work.mkdir(parents=True, exist_ok=True)
    probe = CheckedStream(b"", stream)
    head = b""
    while len(head) < HEAD_BYTES and (more := probe.read(HEAD_BYTES - len(head))):
        head += more
    tee = CheckedStream(head, stream)
    tee.broke = probe.broke
    if not head:
        empty = "The file is empty: nothing to read. If it should not be, upload it again."
        why = tee.broken_off() if tee.broke else empty
        return Parsed(path, hints.kind or Kind.LOG, tee.sha256, 0, 0, why)
    begin = hints.head or (b"" if hints.offset else head)  # the middle of a file does not show its kind
    kind = hints.kind or (kind_table.kind_of(begin, path) if begin else Kind.LOG)
    return kind_table.row_of(kind).parse(EvidenceFile(tee, begin, path, kind, hints, work))

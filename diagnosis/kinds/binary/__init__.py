"""Files that are no text: named, and left out with a sentence."""

from __future__ import annotations

from diagnosis.kinds.binary.binary_signs import binary_reason
from diagnosis.kinds.evidence_kind import HEAD_BYTES, EvidenceFile, EvidenceKind
from diagnosis.model import Kind, Parsed

__all__ = ["KIND", "binary_reason"]


def recognise(head: bytes, path: str) -> str | None:
    """``Kind.OTHER`` for bytes that are no text."""
    return Kind.OTHER if binary_reason(head[:HEAD_BYTES]) else None


def parse(file: EvidenceFile) -> Parsed:
    """Says what the file is."""
    file.stream.drain()
    what = binary_reason(file.head) or "no text"
    why = f"This is {what}, not a log: it was left out. Upload text logs, flow records or stack dumps."
    return Parsed(file.path, file.kind, file.stream.sha256, file.stream.passed, 0, why)


KIND = EvidenceKind((Kind.OTHER,), "no text", recognise, parse)

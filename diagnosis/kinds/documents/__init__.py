"""Documents: texts that describe and report nothing that happened (source code, help,
configurations, histories).

They are named, and nothing is concluded from them: the words of a README are no words of a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis.kinds.documents.document_signs import form_of_document, load
from diagnosis.kinds.evidence_kind import EvidenceFile, EvidenceKind, Format
from diagnosis.kinds.logs.text.encodings import begin_of
from diagnosis.model import Parsed

#: What :attr:`Parsed.kind` says of documents.
DOCUMENT: Final = "document"


def recognise(head: bytes, path: str) -> str | None:
    """:data:`DOCUMENT` for texts that describe."""
    return DOCUMENT if form_of_document(begin_of(head)) is not None else None


def parse(file: EvidenceFile) -> Parsed:
    """Counts the lines and says what the document is. Streams; memory is bounded."""
    stream, lines, end = file.stream, 0, b""
    while piece := stream.read(1 << 20):
        lines += piece.count(b"\n")
        end = piece[-1:]
    form = form_of_document(begin_of(file.head))
    title = form.title if form is not None else "a document"
    facts = {"form": title}
    is_cut = end != b"\n"
    return Parsed(file.path, file.kind, stream.sha256, stream.passed, lines + is_cut, facts=facts)


def list_formats() -> Sequence[Format]:
    """The forms of documents."""
    return [Format(form.title, "nothing: it reports no event", form.example) for form in load()]


KIND = EvidenceKind((DOCUMENT,), "document", recognise, parse, formats=list_formats)

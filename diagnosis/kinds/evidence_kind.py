"""What a kind of evidence is: how its files are recognised and read, and what they show. Each
package of this folder has one :class:`EvidenceKind`, and :mod:`kind_table` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import msgspec
from msgspec.structs import replace

from diagnosis.model import Parsed, ParseHints
from diagnosis.processing import faults
from diagnosis.processing.checked_stream import CheckedStream

if TYPE_CHECKING:
    from diagnosis.evidence import Fact, Measure, Result

#: Number of bytes at the beginning of a file by which its kind is recognised.
HEAD_BYTES: Final = 64 << 10


class EvidenceFile(msgspec.Struct, frozen=True):
    """A file that is read once. ``head``: its first bytes, empty in the middle of a file; ``work``:
    the folder for its tables.
    """

    stream: CheckedStream
    head: bytes
    path: str
    kind: str
    hints: ParseHints
    work: Path


class Format(msgspec.Struct, frozen=True):
    """A format for the documents: the tool or file, how one begins, and what is concluded from it."""

    title: str
    concludes: str
    example: str = ""


def _no_formats() -> Sequence[Format]:
    return ()


def _nothing(parsed: Sequence[Parsed]) -> list[Result]:
    return []


def _no_facts(parsed: Parsed) -> Sequence[Fact]:
    return ()


def _no_measures(parsed: Parsed) -> list[Measure]:
    return []


class EvidenceKind(msgspec.Struct, frozen=True):
    """One kind of evidence.

    ``ids``        what :attr:`Parsed.kind` says of its files.
    ``name``       the word for people.
    ``recognise``  the id of a file that begins with these bytes and has this path; None for files of other kinds.
    ``parse``      reads one file and never raises on content.
    ``analyse``    what the parsed files of a job show, like the output of a check. A change of it needs no new parse.
    ``formats``    its formats, for the documents.
    ``facts``      what one parsed file states of places.
    ``measures``   what a parsed file measures of places, step by step.
    """

    ids: tuple[str, ...]
    name: str
    recognise: Callable[[bytes, str], str | None]
    parse: Callable[[EvidenceFile], Parsed]
    analyse: Callable[[Sequence[Parsed]], list[Result]] = _nothing
    formats: Callable[[], Sequence[Format]] = _no_formats
    facts: Callable[[Parsed], Sequence[Fact]] = _no_facts
    measures: Callable[[Parsed], list[Measure]] = _no_measures


def read_whole(parse: Callable[[bytes, str], Parsed], max_bytes: int) -> Callable[[EvidenceFile], Parsed]:
    """A reader of files that are read whole; more than ``max_bytes`` is left out with a sentence."""

    def read(file: EvidenceFile) -> Parsed:
        data = file.stream.read_up_to(max_bytes)
        parsed = parse(data, file.path)
        file.stream.drain()
        notes = parsed.notes
        if file.stream.passed > len(data):
            notes += (f"Only the first {len(data):,} bytes were read: the file is too large for its kind.",)
        return _whole(file, replace(parsed, notes=notes))

    return guarded(read)


def read_stream(
    parse: Callable[[BinaryIO, str, ParseHints, Path], Parsed],
) -> Callable[[EvidenceFile], Parsed]:
    """A reader of files of any size."""

    def read(file: EvidenceFile) -> Parsed:
        parsed = parse(cast("BinaryIO", file.stream), file.path, file.hints, file.work)
        file.stream.drain()
        return _whole(file, parsed)

    return guarded(read)


def guarded(read: Callable[[EvidenceFile], Parsed]) -> Callable[[EvidenceFile], Parsed]:
    """``read``, but an unexpected form costs this file alone, with a sentence."""

    def read_guarded(file: EvidenceFile) -> Parsed:
        try:
            return read(file)
        except BaseException as error:
            if faults.is_of_machine(error) or not faults.is_fault(error):
                raise
            file.stream.drain()
            why = (
                f"The {file.kind} data could not be read ({faults.error_text(error)}): it was left out. Export it "
                "again."
            )
            return Parsed(file.path, file.kind, file.stream.sha256, file.stream.passed, 0, why)

    return read_guarded


def _whole(file: EvidenceFile, parsed: Parsed) -> Parsed:
    """``parsed`` with the digest and the size of the file, and whether it broke off."""
    stream = file.stream
    notes = (*parsed.notes, stream.broken_off()) if stream.broke else parsed.notes
    return replace(parsed, sha256=parsed.sha256 or stream.sha256, bytes=parsed.bytes or stream.passed, notes=notes)

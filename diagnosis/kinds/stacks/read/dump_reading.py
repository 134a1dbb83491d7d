"""Reads one stack artifact into one :class:`~diagnosis.model.Parsed`."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import re
from collections.abc import Buffer, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from diagnosis.kinds.stacks.read import bundles, prefixes, pyspy
from diagnosis.kinds.stacks.read.stack_frames import EMPTY, OK, TRUNCATED, Dump, Table
from diagnosis.kinds.stacks.recorded import flight_recorder, ras, recorder_analysis, unpickle
from diagnosis.kinds.stacks.recorded.flight_recorder import Recording
from diagnosis.kinds.stacks.recorded.ras_report import RasReport
from diagnosis.kinds.stacks.recorded.recorder_analysis import RecorderAnalysis
from diagnosis.model import Kind, Parsed, ParseHints
from diagnosis.values.plain import counted, plain

#: JSON dumps and Flight Recorder pickles are read as a whole; a full ring buffer of a large job is far below this.
MAX_WHOLE_BYTES = 256 * 1024 * 1024
_STACK_NAME = re.compile(
    r"(?:^|/)(?:[^/]*(?:stack|py-?spy|backtrace|flight|nccl_trace|fr_trace|_dump_)[^/]*)(?:/|$)", re.IGNORECASE
)
_RANK_NAME = re.compile(r"rank[-_]?\d+[^/]*$", re.IGNORECASE)
_PICKLE = re.compile(rb"^\x80[\x02-\x05]")
_WHOLE_JSON = re.compile(rb"^\xef?\xbb?\xbf?\s*\[\s*\{|^\xff\xfe|^\xfe\xff")
_HEAD_LINES = 8  # a few warnings of sudo or ptrace may precede the dump, but not a page of prose or of log


def _text(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return head.decode("utf-16", "replace")
    return head.decode("utf-8-sig", "replace")


def sniff(head: bytes, path: str) -> str | None:
    """The stack format that ``head`` (the first kilobytes of ``path``) begins, or None.

    A training log may *contain* a faulthandler dump; it is a stack artifact only if the dump begins the file.
    """
    if _PICKLE.match(head):
        return "flight_recorder"
    text = _text(head)
    start = text.lstrip()
    if not start:
        return "empty" if _STACK_NAME.search(path) and _RANK_NAME.search(path) else None
    if start[0] == "[" and '"thread_id"' in start and '"frames"' in start:
        return "py-spy json"
    if start[0] == "{":
        return _json_format(start)
    if _is_analysis(start[:_HEAD_CHARS]):
        return "flight_recorder analysis"
    if ras.TEXT.search(start[:_HEAD_CHARS]) and "Communicators" in text:
        return "ras"
    return _text_format(text, path)


def _is_analysis(start: str) -> bool:
    """Whether a text is the output of torchfrtrace, perhaps behind what it says of its files."""
    found = recorder_analysis.TEXT.search(start)
    return found is not None and not _looks_like_log(start[: found.start()].splitlines())


def _json_format(start: str) -> str | None:
    """The format of an object, by the names in it."""
    if '"communicators' in start and ('"nccl_version"' in start or '"ras"' in start):
        return "ras json"
    has_groups = any(name in start for name in _RECORDER_GROUPS)
    if has_groups and ('"version"' in start or '"entries"' in start):
        return "flight_recorder json"
    return None


def _text_format(text: str, path: str) -> str | None:
    """The format of the first line that begins a dump, if no log stands before it. Who died waits
    for nobody: what gdb says of a core file is a report.
    """
    if _CORE.search(text):
        return None
    lines = _head_lines(text)
    formats = [(at, bundles.format_of(line)) for at, line in enumerate(lines)]
    for at, name in formats:
        is_other_json = name == "py-spy json" and '"frames"' not in text
        if name is None or is_other_json or _looks_like_log(lines[:at]):
            continue
        # the last lines of a process that died, in its output: the log engine reads them
        is_death = lines[at].startswith("Fatal Python error") and not _STACK_NAME.search(path)
        return None if is_death else name
    return None


def _head_lines(text: str) -> list[str]:
    """The first lines with words, without the labels of a launcher."""
    # blanks before the first line may be part of its label (`srun --label` sets numbers to the right)
    written = (line for line in text.splitlines() if line.strip())
    lines = [bundles.clean(line) for line in islice(written, _HEAD_LINES)]
    labels = prefixes.label_pattern(lines)
    return [_without_label(line, labels) for line in lines] if labels else lines


#: Characters in which the head of a report of NCCL or torchfrtrace stands.
_HEAD_CHARS = 4000
_CORE = re.compile(
    r"(?m)^Program terminated with signal SIG"
    r"|^(?:Thread|Program)\b[^\n]{0,80} received signal (?:SIG(?:SEGV|ABRT|BUS|FPE|ILL)|CUDA_EXCEPTION_)"
)
_RECORDER_GROUPS = ('"pg_config"', '"pg_status"', '"collective_seq_id"')
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d|\b(?:INFO|WARN(?:ING)?|DEBUG|ERROR)\b|\biteration\b|\bloss\b", re.IGNORECASE)


def _without_label(line: str, labels: re.Pattern[str]) -> str:
    found = labels.match(line)
    return line if found is None else found[2] or ""


def _looks_like_log(lines: list[str]) -> bool:
    return sum(bool(_LOG_LINE.search(x)) for x in lines) >= 2


class _CountingReader(io.RawIOBase):
    """Counts and digests the bytes, so that the artifact is read once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self.digest.update(data)
        self.count += len(data)
        return len(data)


type _Buffered = io.BufferedReader[_CountingReader]


def _lines(stream: _Buffered, seen: list[int]) -> Iterator[str]:
    """Decoded lines, cut at ``MAX_LINE`` so that one endless line stays small. ``seen[0]`` counts physical lines."""
    first = stream.peek(2)[:2]
    wide = first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    source: Any = io.TextIOWrapper(stream, "utf-16", "replace", newline="\n") if wide else stream
    fresh = True
    try:
        while piece := source.readline(bundles.MAX_JSON_LINE):
            text = piece if isinstance(piece, str) else piece.decode("utf-8", "replace")
            if fresh:
                seen[0] += 1
                yield text.removeprefix("\ufeff") if seen[0] == 1 else text
            fresh = text.endswith("\n")
    finally:
        if wide:
            source.detach()  # a text wrapper closes its stream when it is deleted


_FORMAT_TEXT = {
    "flight_recorder": "a Flight Recorder dump",
    "flight_recorder json": "a Flight Recorder dump in JSON",
    "flight_recorder analysis": "the output of torchfrtrace",
    "ras json": "NCCL RAS in JSON",
    "ras": "an NCCL RAS report",
}


def _read_whole(kind: str, whole: bytes) -> Recording | RecorderAnalysis | RasReport:
    """What a file that is read as a whole states.

    :raises ValueError, TypeError, KeyError, OverflowError, RecursionError: the error, as the end of a sentence.
    """
    if len(whole) > MAX_WHOLE_BYTES:
        raise ValueError(f"it is larger than {MAX_WHOLE_BYTES >> 20} MB, which no ring buffer is")
    if kind == "flight_recorder":
        return flight_recorder.read_pickle(whole)
    text = _text(whole)
    if kind == "flight_recorder json":
        return flight_recorder.read_json(text)
    if kind == "flight_recorder analysis":
        return recorder_analysis.read_text(text)
    return ras.read_json(text) if kind == "ras json" else ras.read_text(text)


def _json_dumps(text: str) -> list[Dump]:
    """One process, or several that follow each other. :raises ValueError: neither."""
    try:
        return pyspy.from_json(text)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Extra data"):
            raise
        return bundles.read_text(iter(text.splitlines(keepends=True)))[0]


class _Content(msgspec.Struct):
    """What was read of one artifact. ``facts`` hold a recording or a RAS report; ``lines`` counts physical lines."""

    format: str
    dumps: list[Dump] = msgspec.field(default_factory=list)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    lines: int = 0
    skipped: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)


def parse_stack(stream: BinaryIO, path: str, hints: ParseHints, work: Path) -> Parsed:
    """Read one artifact of stack evidence in any format. Never raises on bad content.

    ``facts`` holds ``format``, the interned dumps of :meth:`~diagnosis.kinds.stacks.read.stack_frames.Table.facts`, or
    ``flight_recorder``/``ras``. Time and memory are linear in the *distinct* stacks plus one row a thread.
    """
    counting = _CountingReader(stream)
    buffered = io.BufferedReader(counting, 1 << 18)
    head = bytes(buffered.peek(1 << 16)[: 1 << 16])
    content = _read_content(buffered, head, sniff(head, path))
    while buffered.read(1 << 20):
        pass  # the digest covers all bytes, also those that were not needed
    facts: dict[str, Any] = {**content.facts, "format": content.format}
    if content.dumps:
        facts |= Table().facts(content.dumps)
    skipped = content.skipped or _why_skipped(content)
    read_note = () if skipped else (_what_was_read(content),)
    return Parsed(
        path=path,
        kind=Kind.STACK,
        sha256=counting.digest.hexdigest(),
        bytes=counting.count,
        lines=content.lines,
        skipped=skipped,
        notes=(*read_note, *content.notes, *_notes_on_unread(content.dumps)),
        facts=facts,
    )


def _what_was_read(content: _Content) -> str:
    """The kind of a file; of stacks, of how many processes."""
    processes = counted(len(content.dumps), "process", "processes")
    return f"Read as {_FORMAT_TEXT.get(content.format, f'stacks of {processes}')}."


def _read_content(buffered: _Buffered, head: bytes, kind: str | None) -> _Content:
    if kind in _FORMAT_TEXT:
        return _read_recorded(kind, buffered.read(MAX_WHOLE_BYTES + 1))
    if kind == "empty" or not head:
        return _Content("empty", [Dump(status=EMPTY, error="the file is empty")])
    if kind == "py-spy json" and _WHOLE_JSON.match(head):
        return _read_json(buffered.read(MAX_WHOLE_BYTES + 1))
    return _read_lines(buffered, kind)


def _read_recorded(kind: str, whole: bytes) -> _Content:
    """A Flight Recorder dump or a RAS report."""
    content = _Content(kind, lines=0 if kind == "flight_recorder" else whole.count(b"\n"))
    try:
        read = _read_whole(kind, whole)
        stored = plain(msgspec.to_builtins(read, builtin_types=(bytes, bytearray)))
    except unpickle.HostilePickle as error:
        content.facts["hostile"] = True
        content.skipped = (
            f"Refused: this pickle is hostile, {error}. A Flight Recorder dump holds plain data only; nothing "
            "was run. "
            "Find out where the file comes from."
        )
        return content
    except (ValueError, RecursionError, TypeError, KeyError, OverflowError) as error:
        content.skipped = f"Not readable as {_FORMAT_TEXT[kind]}: {error}. Collect it again from the rank."
        return content
    if isinstance(read, RasReport):
        content.facts["ras"] = stored
        if read.is_sound():
            content.notes.append("All ranks answer, and none is behind: this report shows no hang.")
        return content
    if isinstance(read, RecorderAnalysis):
        content.facts["recorder_analysis"] = stored
        return content
    content.facts["flight_recorder"] = stored
    if read.left_out:
        content.notes.append(f"Its {read.left_out:,} oldest entries were left out; the newest show where a rank is.")
    return content


def _read_json(whole: bytes) -> _Content:
    """py-spy's JSON."""
    content = _Content("py-spy json", lines=whole.count(b"\n"))
    try:
        if len(whole) > MAX_WHOLE_BYTES:
            raise ValueError(f"it is larger than {MAX_WHOLE_BYTES >> 20} MB")
        content.dumps = _json_dumps(_text(whole))
    except (ValueError, RecursionError, TypeError) as error:
        content.dumps = [Dump(status=TRUNCATED, error=f"not a complete py-spy JSON dump ({error})")]
        content.notes.append(f"The JSON could not be read: {error}. Dump the rank again with `py-spy dump --json`.")
    return content


def _read_lines(buffered: _Buffered, kind: str | None) -> _Content:
    """Dumps as text, in one or more formats."""
    lines = [0]
    dumps, formats, unknown_lines = bundles.read_text(_lines(buffered, lines))
    content = _Content(kind or next(iter(formats), "text"), dumps, lines=lines[0])
    if unknown_lines:
        content.notes.append(f"{unknown_lines} line(s) belong to no stack and were left out.")
    return content


def _why_skipped(content: _Content) -> str | None:
    """The sentence about a file in which nothing was found."""
    if content.dumps or content.facts:
        return None
    return (
        "No stack was found in this file. Expected the output of py-spy, faulthandler, pystack, gdb, "
        "Flight Recorder or NCCL RAS."
    )


def _notes_on_unread(dumps: list[Dump]) -> list[str]:
    """The sentence about a file whose every process could not be read."""
    if not dumps or any(dump.status == OK for dump in dumps):
        return []
    return [f"No process could be read: {dumps[0].error or dumps[0].status}."]

"""Separates many processes' dumps in one text, line by line: prefixes, headings, rules and several formats.

``pdsh`` and ``srun --label`` put ``host: `` or ``task: `` before every line and interleave hosts freely, so each
label has its own reader. Streaming: only the dumps are kept, not the text.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from diagnosis.kinds.stacks.read import faulthandler, gdb, prefixes, pyspy, pystack
from diagnosis.kinds.stacks.read.stack_frames import OK, TRUNCATED, Dump

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
MAX_LINE = 16_384
#: py-spy's JSON may be one line a process.
MAX_JSON_LINE = 8 << 20
_JSON_START = re.compile(r"^\[(?:\s*|\s*\{.*)$")
MAX_LABELS = 100_000
#: Lines in which labels are looked for.
_HEAD_LINES = 64


class Reader(Protocol):
    dumps: list[Dump]

    def feed(self, line: str, number: int) -> bool: ...

    def finish(self) -> list[Dump]: ...


#: name, first line of a process, reader. The order does not matter, because no line matches two.
FORMATS: tuple[tuple[str, tuple[re.Pattern[str], ...], type[Reader]], ...] = (
    (
        "py-spy",
        (
            pyspy.PROCESS,
            pyspy.THREAD,
            re.compile(r"^Error: (?:Failed to|No python|Couldn't|Permission|No such|.*[Pp]rocess)"),
        ),
        pyspy.TextReader,
    ),
    ("faulthandler", (faulthandler.THREAD, faulthandler.HEAD), faulthandler.TextReader),
    ("pystack", (pystack.THREAD,), pystack.TextReader),
    ("gdb", (gdb.THREAD, gdb.ATTACH), gdb.TextReader),
    ("py-spy json", (_JSON_START,), pyspy.JsonReader),
)


def format_of(line: str) -> str | None:
    """The format that begins a process or a thread with this line."""
    return next((name for name, starts, _ in FORMATS if _begins(line, starts)), None)


def _begins(line: str, starts: tuple[re.Pattern[str], ...]) -> bool:
    return any(start.match(line) for start in starts)


def clean(line: str) -> str:
    """Without colours, carriage returns and NULs; never longer than :data:`MAX_LINE` but for JSON."""
    if len(line) > MAX_LINE and "[{" not in line[:400]:
        line = line[:MAX_LINE]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    return line.rstrip("\r\n").replace("\x00", "")


class _Section:
    """The lines of one label: readers follow each other as formats and headings change."""

    def __init__(self, label: str | None) -> None:
        self.label = label
        self.formats: dict[str, int] = {}
        self.header: dict[str, str] = {}
        self.strange = 0
        self._reader: Reader | None = None
        self._format = ""
        self._dumps: list[Dump] = []
        self._stamped = 0
        self._ruled = False

    def feed(self, line: str, number: int) -> None:
        name = format_of(line)
        if name and name != self._format:
            self._flush()
            self._reader, self._format = next(r for n, _, r in FORMATS if n == name)(), name
            self.formats[name] = self.formats.get(name, 0) + 1
        ruled, self._ruled = self._ruled, bool(prefixes.RULE_LINE.match(line))
        if self._ruled or self._heading(line, after_rule=ruled):
            return
        if self._reader is not None:
            understood = self._reader.feed(line, number)
            self.strange += not understood
            for dump in self._reader.dumps[self._stamped :]:
                dump.header = dict(self.header)
            self._stamped = len(self._reader.dumps)
        elif line.strip():
            self.strange += 1

    def _heading(self, line: str, *, after_rule: bool) -> bool:
        """A line between processes that names a file, a rank or a host begins another process."""
        if not line or line[0] == " " or format_of(line):
            return False
        found = prefixes.heading(line, after_rule=after_rule)
        if not found:
            return False
        self._flush()
        # A host heading applies to all ranks below it; a rank heading only to its process.
        self.header = found if "path" in found else {k: v for k, v in self.header.items() if k == "node"} | found
        return True

    def _flush(self) -> None:
        if self._reader is not None:
            for dump in self._reader.finish():
                dump.label = self.label
                self._dumps.append(dump)
        self._reader, self._format, self._stamped = None, "", 0

    def finish(self) -> list[Dump]:
        self._flush()
        return self._dumps


def read_text(lines: Iterator[str]) -> tuple[list[Dump], dict[str, int], int]:
    """Dumps, how often each format began, and how many lines were not understood.

    A last line without an end, or a last process without frames, marks its dump ``truncated``. Linear; memory O(dumps).
    """
    head = list(itertools.islice(lines, _HEAD_LINES))
    bundle = _Bundle(prefixes.label_pattern(map(clean, head)))
    for number, line in enumerate(itertools.chain(head, lines), 1):
        bundle.feed(line, number)
    return bundle.finish()


class _Bundle:
    """The sections of a text, by the label before each line; without labels one."""

    def __init__(self, labels: re.Pattern[str] | None) -> None:
        self._labels = labels
        self._sections: dict[str | None, _Section] = {}
        self._last: _Section | None = None
        self._is_whole = True

    def feed(self, raw: str, number: int) -> None:
        self._is_whole = raw.endswith("\n")
        line = clean(raw)
        labelled = None if self._labels is None else self._labels.match(line)
        label = None if labelled is None else labelled[1]
        if label not in self._sections and len(self._sections) < MAX_LABELS:
            self._sections[label] = _Section(label)
        self._last = self._sections.get(label)
        if self._last is not None:
            self._last.feed(line if labelled is None else labelled[2] or "", number)

    def finish(self) -> tuple[list[Dump], dict[str, int], int]:
        dumps: list[Dump] = []
        formats: Counter[str] = Counter()
        strange = 0
        for section in self._sections.values():
            own = section.finish()
            formats.update(section.formats)
            strange += section.strange
            is_broken_off = section is self._last and not self._is_whole
            if own and own[-1].status == OK:
                _mark_cut(own[-1], cut=is_broken_off and bool(section.strange))
            dumps += own
        return dumps, dict(formats), strange


def _mark_cut(dump: Dump, *, cut: bool) -> None:
    """Marks a last process whose main thread was being written and does not reach the beginning of the program."""
    main = dump.main()
    unfinished = main is not None and main is dump.threads[-1] and not main.begins
    if cut or unfinished or main is None or not main.frames:
        dump.status = TRUNCATED
        dump.error = dump.error or "the dump ends in the middle of a stack"

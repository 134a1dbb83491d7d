"""Reports that no format describes, read by their layout: ``key: value``, tables with a header,
counters behind their numbers, JSON and XML.

Nothing is known of their properties: the table of faults judges those whose words mean one thing in
any tool (rows ``layout-…``), the others are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.logs.unwrap import wrapped
from diagnosis.kinds.states import aligned_tables
from diagnosis.kinds.states.entries import MAX_DEPTH, MAX_LINE_CHARS, Entry
from diagnosis.kinds.states.formats import Format, load_layouts
from diagnosis.kinds.states.known_shapes import cut_json, shapes
from diagnosis.knowledge.late_patterns import late
from diagnosis.values import log_lines

THRESHOLDS: Final = thresholds.of("layouts")

#: Facts of one text.
MAX_ENTRIES: Final = 5_000
#: Characters in which the words of a family are counted.
_BEGIN_CHARS: Final = 4_096
_NO_FAMILY: Final = "layout"
#: The rows for texts of reports of which no format is known.
TEXT: Final = "layout-text"
#: How documents begin, with their shape.
_DOCUMENTS: Final = {"{": "json", "[": "json", "<": "xml"}
#: Lines of marks: they part a table from its header.
_RULE: Final = late(r"[\s|+\-=_*#~]*")
#: An item of a list whose key is bold, as chats show it.
_BOLD: Final = late(r"^(?:[•\-] ?)?\*{1,2}([^*\n]{1,60}:)\*{1,2}")
_CLOCK: Final = late(r".{0,40}?\b\d\d:\d\d:\d\d\b")
#: A key of at most seven words before its value. A level of a log is none.
_PAIR: Final = late(
    r"(?!(?i:error|warn(?:ing)?|info|debug|note|fatal|critical)\b)"
    r"(?P<key>[\w\[][^\s:=|<>{}\"']{0,40}(?: [^\s:=|<>{}\"']{1,40}){0,6})"
    r"\s{0,60}(?:\.{2,60}\s?)?(?::(?=[\s.]|$)|={1,2})\.{0,60}(?P<value>.*)"
)
#: A key before its value with a gap between them ("in-octets      81231").
_GAP_PAIR: Final = late(r"(?P<key>[A-Za-z][\w.\-/]{1,40})(?:\s{2,80}|\t)(?P<value>\S+(?: \S+){0,8})")
#: A key before its value with a row of dots between them ("ninja ........ [OKAY]").
_DOTTED_PAIR: Final = late(r"(?P<key>\w[^\n.]{0,60}?) ?\.{3,80} ?(?P<value>[^\s.].{0,200})")
#: "0 runts, 91800 CRC": counters behind their numbers.
_COUNT: Final = late(r"([0-9][0-9,]{0,24}) ([A-Za-z][A-Za-z/()\-]{0,30}(?: [A-Za-z/()\-]{1,30}){0,4})")
_COUNTS: Final = late(rf"(?:{_COUNT.pattern}(?:, |\s{{2,40}}|$)){{1,16}}")
#: Parts of a machine that are told apart by their numbers.
_NUMBERED: Final = late(
    r"(?i)(.*\b(?:gpu|device|card|port|disk|node|socket|npu|chip|nic|link|slot|id|index)): {0,4}(\d{1,4})"
)
#: A key, and a gap before the only mark of its line ("fan status    | OK").
_MARK: Final = late(
    r"\s{0,80}(?P<key>[^\s|:=](?:[^|:=\n]|:(?=\S)){0,60}?)"
    r"(?P<gap>\s{1,60})[|:=]\s\s{0,40}(?P<value>[^|\n]{0,400})$"
)
#: A counter before its number, as the kernel lists them ("oom_kill 3").
_COUNTER: Final = late(r"(?P<key>[A-Za-z][\w.]{1,60}) (?P<value>\d{1,24})")
_DIGITS: Final = late(r"\d+")
_PAIRS: Final = (_PAIR, _DOTTED_PAIR, _MARK, _GAP_PAIR, _COUNTER)
_NUMBER: Final = late(r"[-+]?[0-9][0-9.,:%]*")
_DIGIT: Final = late(r"\d")
#: The name of a column: no number, no mark, and no end of a sentence.
_COLUMN: Final = late(r"(?![-+]?[0-9][0-9.,:%]*$)(?=.{0,23}\w).{0,23}[^.;:!?]")
_NODE_COLUMNS: Final = frozenset({"node", "nodename", "host", "hostname", "host_name", "server"})
#: A first column of times or steps: a history, no state.
_HISTORY: Final = late(r"(?i)\"?(?:time(?! \(%\))|timestamp|date|step|epoch|iter(?:ation)?|wall time)\b")
_MAX_COLUMNS: Final = 64
_MAX_PART: Final = 60

type _Split = Callable[[str], list[str]]


def _between(mark: str) -> _Split:
    def split(line: str) -> list[str]:
        return [cell.strip(" \"'") for cell in line.strip(mark).split(mark)]

    return split


def _by_gaps(line: str) -> list[str]:
    return re.split(r"\s{2,}", line)


#: How the cells of a table are parted, the plainest first.
_SPLITS: Final[tuple[_Split, ...]] = (*map(_between, "|,;\t"), _by_gaps, str.split)


def family_of(text: str, path: str) -> Format:
    """The layout whose words occur most often in the path and the beginning of a text."""
    said = f"{path}\n{text[:_BEGIN_CHARS]}"
    return max(load_layouts(), key=lambda form: len(form.sign.findall(said)))


def no_family() -> Format:
    """The layout of what no family's words are about."""
    return load_layouts()[0]


def family_of_part(entry: Entry, family: Format) -> Format:
    """The layout of one fact: part and property say more than the whole text's family."""
    own = _of_words(f"{entry.part} {'.'.join(entry.path)}")
    return family if own.id == _NO_FAMILY else own


@lru_cache(maxsize=4_096)
def _of_words(words: str) -> Format:
    return family_of(words, "")


def entries(text: str) -> list[Entry]:
    """What a text states; nothing if it has no layout. O(len(text))."""
    shape = _DOCUMENTS.get(text.lstrip()[:1])
    reader = _Lines()
    of_document = shapes.entries(shape, text, no_family()) if shape else []
    # a line of a text may begin with a bracket, too
    found = list(islice(of_document or reader.read(text), MAX_ENTRIES))
    is_report = len(found) >= THRESHOLDS.entries and reader.known >= THRESHOLDS.share * reader.lines
    return found if is_report else []


def is_decided(text: str) -> bool:
    """Whether the form of a text alone says that it is a report: one JSON document that is no
    record of a log, or lines whose keys differ and whose values begin in one column. A log may begin
    with a bracket, too: lines that report events are those of a log. O(len(text)).
    """
    start = text.lstrip()
    if log_lines.EVENT.search(text) is not None:
        return False
    if cut_json.begins(start):
        return cut_json.is_one(start) and not wrapped.is_wrapped(text)
    return _is_in_columns(text) and bool(entries(text))


def _is_in_columns(text: str) -> bool:
    """Whether most lines hold a key before a mark, in one column, and no key stands twice."""
    lines = [line[:MAX_LINE_CHARS] for line in text.splitlines() if not _RULE.fullmatch(line)]
    found = [mark for mark in map(_MARK.match, lines) if mark is not None]
    columns = Counter(mark.end("gap") for mark in found)
    keys = {_DIGITS.sub("#", mark["key"]) for mark in found}
    _, most = columns.most_common(1)[0] if columns else (0, 0)
    is_long = len(lines) >= THRESHOLDS.decided_lines
    is_aligned = most >= THRESHOLDS.aligned * len(lines)
    return bool(is_long and is_aligned and len(keys) >= THRESHOLDS.different * len(lines))


class _Lines:
    """Reads a text line by line. ``lines`` hold something; ``known`` of them belong to a layout."""

    def __init__(self) -> None:
        self.lines = 0
        self.known = 0
        #: indentation and title of each open level
        self._levels: list[tuple[int, str]] = []
        self._header: list[str] = []
        self._split: _Split = str.split
        self._before = ""
        self._least = THRESHOLDS.columns
        self._was_pair = False

    def read(self, text: str) -> Iterator[Entry]:
        """The entries of all lines, block by block."""
        for first, lines in aligned_tables.blocks_of(text):
            found = self._of_block([line[:MAX_LINE_CHARS] for line in lines])
            yield from (entry._replace(line=entry.line + first) for entry in found)

    def _of_block(self, block: Sequence[str]) -> list[Entry]:
        """What lines without a blank one between them state. Where some say nothing on their own,
        they may be a table; ``line`` counts from 0.
        """
        self._header, self._before = [], ""
        found: list[Entry] = []
        known = written = 0
        for at, line in enumerate(block):
            body = _BOLD.sub(r"\1", line.strip())
            if _RULE.fullmatch(body):
                self._least = THRESHOLDS.columns if self._was_pair else THRESHOLDS.ruled_columns
                continue
            had_header = bool(self._header)
            stated = self._of_line(line, body)
            self._least = THRESHOLDS.columns
            written += 1
            # the line before the first row is the header
            known += bool(stated) + (bool(self._header) and not had_header)
            found += [entry._replace(line=at) for entry in stated]
        table = aligned_tables.read(block) if known < written else None
        if table is not None and len(table.rows) >= known and _is_of_parts(table):
            found, known = list(_of_table(table)), len(table.rows) + 1
        self.lines += written
        self.known += known
        return found

    def _of_line(self, line: str, body: str) -> list[Entry]:
        before = self._before
        self._before = body
        row = self._row(before, body)
        self._was_pair = _MARK.fullmatch(body) is not None
        # "Last check: Tue 09:10:11" tells of a part, "09:10:11 checked" is a line of a log
        is_pair = self._was_pair or _PAIR.fullmatch(body) is not None
        if row or (_CLOCK.match(body) and not is_pair):
            return row
        indent = len(line) - len(line.lstrip())
        self._levels = [level for level in self._levels if level[0] < indent]
        part, *path = [title for _, title in self._levels] or [""]
        stated = _counts(body) or _pairs(body)
        self._open(indent, body)
        return [Entry((*path, name), value, 0, part) for name, value in stated]

    def _open(self, indent: int, body: str) -> None:
        """Opens what is further right: the first line, a numbered part, or one with a colon."""
        numbered = _NUMBERED.fullmatch(body)
        is_title = not self._levels or numbered is not None or body.endswith(":")
        if is_title and len(self._levels) < MAX_DEPTH:
            self._levels.append((indent, _title(body, numbered)[:_MAX_PART]))

    def _row(self, before: str, body: str) -> list[Entry]:
        """The cells of a row of a table; none for other lines."""
        if not self._header:
            self._header, self._split = _header(before, body, self._least)
        cells = self._split(body)
        if self._split is str.split and self._header:
            cells = body.split(None, len(self._header) - 1)
        if len(cells) != len(self._header) or _CLOCK.match(cells[0]):
            self._header = []
            return []
        return _cells(self._header, cells, 0)


def _is_of_parts(table: aligned_tables.Table) -> bool:
    """Whether a table tells of parts: no row begins with a time, and words call its columns."""
    cells = list(chain.from_iterable(row.cells for row in table.rows))
    is_log = any(_CLOCK.match(row.cells[0]) for row in table.rows)
    is_named = _is_header(table.header, (*table.header[1:], " ".join(cells[:_MAX_COLUMNS])))
    is_history = _HISTORY.match(table.header[0]) is not None
    return (is_named, is_log, is_history) == (True, False, False)


def _of_table(table: aligned_tables.Table) -> Iterator[Entry]:
    for row in table.rows:
        yield from _cells(table.header, row.cells, row.line)


def _cells(header: Sequence[str], cells: Sequence[str], line: int) -> list[Entry]:
    """The cells of a row; its first one names a part, or a machine."""
    first, *names = header
    is_node = first.lower() in _NODE_COLUMNS and not cells[0].startswith("/")
    place = ("", cells[0]) if is_node else (cells[0], "")
    pairs = zip(names, cells[1:], strict=True)
    return [Entry((name,), cell, line, *place) for name, cell in pairs if cell]


def _title(body: str, numbered: re.Match[str] | None) -> str:
    pair = _PAIR.fullmatch(body) or _MARK.fullmatch(body)
    if numbered is not None:
        return f"{numbered[1]} {numbered[2]}"
    return pair["key"] if pair is not None else body.partition(",")[0].rstrip(" :.")


def _header(before: str, body: str, least: int) -> tuple[list[str], _Split]:
    """The names of the columns if a line is a row of a table and the one before it its header."""
    for split in _SPLITS:
        names = split(before)
        is_wide = least <= len(names) <= _MAX_COLUMNS
        if is_wide and _is_header(names, split(body)) and _HISTORY.match(before) is None:
            return names, split
    return [], str.split


def _is_header(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether words name the columns of cells, of which one holds a number."""
    is_table = len(names) == len(cells)
    is_named = all(map(_COLUMN.fullmatch, names)) and len(set(names)) == len(names)
    is_mixed = any(map(_DIGIT.search, cells)) and not all(map(_NUMBER.fullmatch, cells))
    return is_table and is_named and is_mixed


def _counts(body: str) -> list[tuple[str, str]]:
    """Names and values of counters behind their numbers; none for any other line."""
    found = _COUNT.findall(body) if _COUNTS.fullmatch(body) else ()
    return [(name, number) for number, name in found]


def _pairs(body: str) -> list[tuple[str, str]]:
    """Key and value of a line; none for any other line."""
    found = next(filter(None, (form.fullmatch(body) for form in _PAIRS)), None)
    value = found["value"].strip() if found is not None else ""
    return [(found["key"], value)] if found is not None and value else []

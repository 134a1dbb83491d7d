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
from diagnosis.kinds.states import aligned_tables, trees
from diagnosis.kinds.states.entries import MAX_LINE_CHARS, Entry
from diagnosis.kinds.states.formats import Format, load_layouts
from diagnosis.kinds.states.known_shapes import cut_json
from diagnosis.kinds.states.trees import Branch
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
#: How documents begin, with what reads them.
_DOCUMENTS: Final = {
    "{": lambda text: trees.of_json(cut_json.read(text)),
    "[": lambda text: trees.of_json(cut_json.read(text)),
    "<": trees.of_xml,
}
#: Marks of tables and trees, as terminals draw them, by plain ones; a branch begins further right.
_DRAWN: Final = str.maketrans("│┃║─━═┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝╭╮╰╯", "|||---++++++++++++++++++++++")
_BRANCH: Final = late(r"^\s{0,80}[|+`\\][|+`\\ \-]{0,80}(?=[\w\[])")
#: The title of a section, as files of settings have it.
_SECTION: Final = late(r"\[([\w][\w .:/\-]{0,60})\]")
#: A row of a frame with a key and its value; the key may stand above.
_TWO_CELLS: Final = late(r"\|([^|]{1,80})\|([^|]{1,400})\|")
#: The mark of an item of a list.
_ITEM: Final = late(r"[-*•] (?=\S)")
#: A line of words ``key=value``.
_TOKEN: Final = late(r"([A-Za-z][\w.\-/]{0,60})=(\"[^\"]{0,400}\"|[^\s=\"]{0,400}[^\s=\",;])")
_TOKENS: Final = late(rf"{_TOKEN.pattern}(?:(?:[,;]\s{{0,40}}|\s{{1,40}}){_TOKEN.pattern}){{1,60}}")
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
_KINDS: Final = "gpu|device|card|port|disk|node|socket|npu|chip|nic|link|slot|id|index"
#: Parts of a machine that are told apart by their numbers.
_NUMBERED: Final = late(rf"(?i)(.*\b(?:{_KINDS})): {{0,4}}(\d{{1,4}})")
_KIND: Final = late(rf"(?i)(?:{_KINDS}|rank|worker)")
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
_COLUMN: Final = late(r"(?!.{0,23}: )(?![-+]?[0-9][0-9.,:%]*$)(?=.{0,23}\w).{0,23}[^.;:!?]")
_NODE_COLUMNS: Final = frozenset({"node", "nodename", "host", "hostname", "host_name", "server"})
#: A first column of times or steps: a history, no state.
_HISTORY: Final = late(
    r"(?i)\"?_?(?:(?:current|global|train(?:er)?|max)[ _/])?"
    r"(?:(?:wall )?time(?! \(%\))|timestamp|date|runtime|steps?|epoch|iter(?:ation)?|itr?|batch|loss)\b"
    r"(?! ?_?(?:ms|s|time)\b)"
)
_MAX_COLUMNS: Final = 64
_MAX_PART: Final = 60

#: A branch with how far right its line begins.
type _Grown = tuple[int, Branch]
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
    """The layout of a single fact: its part and its property say more than the whole text, whose
    family is given.
    """
    own = _of_words(f"{entry.kind} {entry.part} {'.'.join(entry.path)}")
    return family if own.id == _NO_FAMILY else own


@lru_cache(maxsize=4_096)
def _of_words(words: str) -> Format:
    return family_of(words, "")


def entries(text: str) -> list[Entry]:
    """What a text states; nothing if it has no layout. O(len(text))."""
    return _read(text, THRESHOLDS.share)


def _read(text: str, share: float) -> list[Entry]:
    """What a text states of which at least such a share of the lines has a layout."""
    read = _DOCUMENTS.get(text.lstrip()[:1])
    reader = _Lines()
    of_document = list(trees.entries(trees.parted(read(text)))) if read is not None else []
    # a line of a text may begin with a bracket, too
    found = list(islice(of_document or reader.read(text.translate(_DRAWN)), MAX_ENTRIES))
    is_report = len(found) >= THRESHOLDS.entries and reader.known >= share * reader.lines
    return found if is_report else []


def is_decided(text: str) -> bool:
    """Whether the form of a text alone says that it is a report: a JSON document that is no record
    of a log, different keys whose values begin in one column, nested properties, or objects with the
    same properties. A log may begin with a bracket, too: lines that report events are those of a log.
    O(len(text)).
    """
    start = text.lstrip()
    if log_lines.EVENT.search(text) is not None:
        return False
    if cut_json.begins(start) and cut_json.is_one(start):
        return not wrapped.is_wrapped(text)
    in_columns = _is_in_columns(text) and bool(entries(text))
    found = _read(text, THRESHOLDS.objects_share)
    nested = sum(len(entry.path) > 1 for entry in found)
    is_nested = nested >= max(THRESHOLDS.decided_lines, THRESHOLDS.aligned * len(found))
    return in_columns or is_nested or _is_of_objects(found)


def _is_of_objects(found: Sequence[Entry]) -> bool:
    """Whether facts are of several objects with the same properties, and tell no history."""
    of_object: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for entry in found:
        of_object.setdefault((entry.node, entry.part), set()).add(entry.path)
    counts = Counter(chain.from_iterable(of_object.values()))
    words = chain((path[-1] for path in counts if path), (part for _, part in of_object))
    is_history = any(map(_HISTORY.match, words))
    alike = sum(count for count in counts.values() if count >= THRESHOLDS.objects)
    is_alike = alike >= THRESHOLDS.objects_share * sum(counts.values())
    return len(of_object) >= THRESHOLDS.objects and is_alike and not is_history


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
        self._tree = trees.Grower()
        self._header: list[str] = []
        self._split: _Split = str.split
        self._before = ""
        self._least = THRESHOLDS.columns
        self._was_pair = False

    def read(self, text: str) -> Iterator[Entry]:
        """The entries of all tables, then those of all other lines."""
        for first, lines in aligned_tables.blocks_of(text):
            found = self._of_block([line[:MAX_LINE_CHARS] for line in lines], first)
            yield from (entry._replace(line=entry.line + first) for entry in found)
        tree = trees.parted(self._tree.root)
        self.known += trees.titles(tree)
        yield from trees.entries(tree)

    def _of_block(self, block: Sequence[str], first: int) -> list[Entry]:
        """The rows of tables among lines without a blank one between them; ``line`` counts from 0.
        Where some say nothing on their own, all may be a table.
        """
        self._header, self._before = [], ""
        found: list[Entry] = []
        branches: list[_Grown] = []
        known = written = 0
        for at, line in enumerate(block):
            body = _BOLD.sub(r"\1", line.strip())
            if _RULE.fullmatch(body):
                self._least = THRESHOLDS.columns if self._was_pair else THRESHOLDS.ruled_columns
                continue
            had_header = bool(self._header)
            row, stated = self._of_line(line, body, first + at)
            self._least = THRESHOLDS.columns
            written += 1
            # the line before the first row is the header
            is_first_row = bool(self._header) and not had_header
            known += bool(row) or _states(stated)
            known += is_first_row
            branches = branches[:-1] if is_first_row else branches
            branches += stated
            found += [entry._replace(line=at) for entry in row]
        table = aligned_tables.read(block) if known < written else None
        if table is not None and len(table.rows) >= known and _is_of_parts(table):
            found, known, branches = list(_of_table(table)), len(table.rows) + 1, []
        for indent, branch in branches:
            self._tree.add(indent, branch)
        self.lines += written
        self.known += known
        return found

    def _of_line(self, line: str, body: str, number: int) -> tuple[list[Entry], list[_Grown]]:
        """The row of a table that a line is, else its branches, each with its indent."""
        before = self._before
        self._before = body
        row = self._row(before, body) if _TOKENS.fullmatch(body) is None else []
        self._was_pair = _MARK.fullmatch(body) is not None
        # "Last check: Tue 09:10:11" tells of a part, "09:10:11 checked" is a line of a log
        is_pair = self._was_pair or _PAIR.fullmatch(body) is not None
        if row or (_CLOCK.match(body) and not is_pair):
            return row, []
        drawn = _BRANCH.match(line) if not body.endswith("|") else None
        indent = drawn.end() if drawn is not None else len(line) - len(line.lstrip())
        return [], _branches(line[indent:].strip() if drawn is not None else body, indent, number)

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
    return [Entry((name,), cell, line, *place, first) for name, cell in pairs if cell]


def _states(branches: Sequence[_Grown]) -> bool:
    """Whether a line states a value, or is the title of a section."""
    return any(branch.value or branch.is_item or branch.below for _, branch in branches)


def _branches(body: str, indent: int, number: int) -> list[_Grown]:
    """What a line adds to a tree: several pairs of one object, a pair, or a title."""
    if section := _SECTION.fullmatch(body):
        return [(-1, Branch(section[1], line=number, is_item=True))]
    item = _ITEM.match(body)
    if item is not None:
        below = _branches(body[item.end() :], indent + item.end(), number)
        return [(indent, Branch("", line=number, is_item=True)), *below]
    if _TOKENS.fullmatch(body):
        own = [Branch(key, value.strip('"'), number) for key, value in _TOKEN.findall(body)]
        return [(indent, Branch("", line=number, is_item=True, below=own))]
    if numbered := _NUMBERED.fullmatch(body):
        return [(indent, Branch(numbered[1], numbered[2], number))]
    cells = _TWO_CELLS.fullmatch(body)
    if cells is not None:
        return [(indent, Branch(cells[1].strip(), cells[2].strip(), number))]
    pairs = _counts(body) or _pairs(body)
    if not pairs:
        return [(indent, Branch(_title(body), line=number))]
    return [(indent, Branch(key, value, number)) for key, value in pairs]


def _title(body: str) -> str:
    """What a line calls that which is below it; a sentence calls nothing."""
    has_name = body.endswith(":") or _DIGIT.search(body.partition(" ")[0]) is not None
    is_sentence = not has_name and body.count(" ") >= THRESHOLDS.sentence
    return "" if is_sentence else body.rstrip(" :.").partition(",")[0]


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
    is_of_kind = bool(names) and _KIND.fullmatch(names[0]) is not None
    is_mixed = is_of_kind or not all(map(_NUMBER.fullmatch, cells))
    return is_table and is_named and is_mixed and any(map(_DIGIT.search, cells))


def _counts(body: str) -> list[tuple[str, str]]:
    """Names and values of counters behind their numbers; none for any other line."""
    found = _COUNT.findall(body) if _COUNTS.fullmatch(body) else ()
    return [(name, number) for number, name in found]


def _pairs(body: str) -> list[tuple[str, str]]:
    """Key and value of a line; none for any other line."""
    found = next(filter(None, (form.fullmatch(body) for form in _PAIRS)), None)
    value = found["value"].strip() if found is not None else ""
    return [(found["key"], value)] if found is not None and value else []

"""Reads one file of state reports: its sections, each with its format, and their facts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from diagnosis import thresholds
from diagnosis.evidence import MAX_FACTS, MAX_VALUES, Fact, Measure, Place, number_of
from diagnosis.kinds.logs.text.encodings import decode, encoding_of
from diagnosis.kinds.states import layouts
from diagnosis.kinds.states.entries import Entry
from diagnosis.kinds.states.formats import Format, Series, format_of, load
from diagnosis.kinds.states.pieces_of_text import Piece, cut, without_title
from diagnosis.kinds.states.sections_read import LAYOUT, read_sections
from diagnosis.knowledge.late_patterns import late
from diagnosis.model import Kind, Parsed
from diagnosis.values import log_lines
from diagnosis.values.plain import counted

THRESHOLDS: Final = thresholds.of("report_sections")

#: Larger files are no report of one machine.
MAX_BYTES: Final = 64 << 20
#: Bytes that decide whether a file is a report.
_HEAD_BYTES: Final = 64 << 10
#: What a program prints as it ends: a report before it is the beginning of a log.
_PROGRAM_END: Final = late(f"{log_lines.TRACEBACK}|{log_lines.NCCL_NOTE}")
#: A prompt with a command: a paste, whose sections are read one by one.
_COMMAND: Final = late(r"\s{0,20}\$ \w")
#: Formats that list pods with their nodes.
_POD_FORMATS: Final = frozenset({"kubectl-pods", "kubernetes"})
#: Sections of one file of which a note tells.
MAX_NAMED_SECTIONS: Final = 20
_LEFT_OUT: Final = f"Only the first {MAX_FACTS:,} facts were kept."
#: A prompt that names its machine: "root@gpu-7:~# ibstat", "leaf-3# show interface".
_PROMPT_HOST: Final = late(r"\[?(?:[\w.\-]{1,60}@)?([\w.\-]{1,60})(?:[: ~][^\n#$>]{0,60})?[#$>] ?\w")
_UNKNOWN: Final = "Properties that are not known conclude nothing."
_NOT_NEWLINE: Final = late(rb"[^\n]")
#: Words by which machines are called, although a tool is called so, too.
_MACHINE_WORDS: Final = frozenset({"gpu", "node"})
_INTERFACE: Final = late(r"(?:eth|ens|enp|eno|ib|mlx|bond|roce|rdma)\d+(?:[a-z_]{1,2}\d+){0,4}")
#: The name of a process, not of its machine.
_RANK: Final = late(r"(?i)(?:rank|worker|proc)[-_]?\d+")
#: Names of machines that begin with one letter: "n7", "n0123", a rack and a place in it ("r07-n01",
#: "x1000c0s0b0n0").
_SHORT_NAME: Final = late(
    r"n\d{1,5}|[A-Za-z]\d{1,5}(?:-?[A-Za-z]{1,4}\d{1,5}){1,6}"
    r"|[A-Za-z]\d{1,4}-\d{1,4}"
)
_ADDRESS: Final = late(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d]|\.\d)")
#: How PyTorch's profiler names its files: the machine, the process, the time.
_PROFILE_NAME: Final = late(r"([\w.\-]{1,80})_\d{1,10}\.\d{10,20}\.pt\.trace\.json")
#: A day in a name, and what follows it.
_DAY: Final = late(r"[-_ ]?(?:19|20)\d\d-\d\d-\d\d.*")
#: Words without a digit at the end of a name.
_BEHIND_NUMBER: Final = late(r"(?:[-_][A-Za-z]{1,40}){1,8}$")
_WORD: Final = late(r"[^\W_]+")
_HOST: Final = late(
    r'(?mi)^(?:[ \t]{0,40}"?(?:host ?name|host|node|nodename)"?[ \t]{0,40}[:=]'
    r"|Name:(?=[ \t]{1,80}\S{1,300}\nRoles:))[ \t]{0,80}"
    r'"?([\w.\-]{1,80})"?(?:/[\da-f.:]{3,45})?,?[ \t\r]{0,40}$'
)
#: A machine as an object of Kubernetes.
_NODE_OBJECT: Final = late(r"(?m)^kind: Node\nmetadata:\n(?:  [^\n]{0,400}\n){0,60}?  name: ([\w.\-]{1,80})$")


class Section(NamedTuple):
    """One section of a file: its first line (1-based), its number of lines, its format (None: not
    known), its facts, and whether it is read as a log.
    """

    first_line: int
    lines: int
    form: Format | None
    facts: int
    is_log: bool


def _section(piece: Piece, facts: int) -> Section:
    return Section(piece.first_line, piece.text.count("\n"), piece.form, facts, piece.is_log)


def sniff(head: bytes, path: str) -> bool:
    """Whether a file is a state report: a known sign, few lines with a time of day."""
    text = _text(head[:_HEAD_BYTES])
    form = format_of(text) if text is not None else None
    if text is None or form is None:
        return False
    return form.has_times or not _is_log(text)


def parse(data: bytes, path: str) -> Parsed:
    """The facts of one file, section by section. Never raises on content. O(bytes)."""
    text = _text(data) or ""
    facts: list[tuple[tuple[str, ...], Fact]] = []
    parts: list[Section] = []
    host = host_of(text, path)
    for section in chain.from_iterable(read_sections(piece, path) for piece in cut(text)):
        before = len(facts)
        place = _only_node(section.entries) or _host_of_prompt(section.piece.text) or host
        for entry, ids in islice(section.of_formats(), MAX_FACTS - before):
            facts.append((ids, fact_of(entry, place, section.piece.first_line)))
        if without_title(section.piece.text).strip():
            parts.append(_section(section.piece, len(facts) - before))
    known = list(dict.fromkeys(part.form.id for part in parts if part.form is not None))
    stored = [(f.place.name, f.name, f.value, f.line, f.part, *ids) for ids, f in facts]
    return Parsed(
        path,
        Kind.STATE,
        hashlib.sha256(data).hexdigest(),
        len(data),
        lines=text.count("\n") + (not text.endswith("\n")),
        notes=(*_notes(parts), *([_LEFT_OUT] if len(facts) >= MAX_FACTS else [])),
        facts={"formats": known, "states": stored},
    )


def log_of(data: bytes) -> bytes:
    """``data`` with blanks for what is no log: lines and bytes keep their numbers."""
    text = _text(data)
    pieces = list(cut(text)) if text is not None else []
    if not any(piece.is_log for piece in pieces):
        return b""
    kept: list[bytes] = []
    for piece in pieces:
        raw = piece.text.encode("utf-8", "replace")
        kept.append(raw if piece.is_log else _NOT_NEWLINE.sub(b" ", raw))
    found = b"".join(kept)
    return found if len(found) == len(data) else data  # not UTF-8: its bytes have other numbers


def facts_of(parsed: Parsed) -> list[Fact]:
    """The facts that :func:`parse` stored."""
    return [fact for _, fact in facts_of_formats(parsed)]


def facts_of_formats(parsed: Parsed) -> list[tuple[frozenset[str], Fact]]:
    """Each fact with the ids of the formats that judge it, or those of its file."""
    stored = parsed.facts.get("states") or ()
    every = frozenset(parsed.facts.get("formats") or ())
    return [(_only(*row[5:]) or every, _fact(*row[:5])) for row in stored]


@cache
def _only(*ids: str) -> frozenset[str]:
    return frozenset(ids)


def _fact(node: str, name: str, value: str, line: int, part: str) -> Fact:
    return Fact(Place("node", node), name, value, line, part)


def nodes_of_pods(parsed: Iterable[Parsed]) -> dict[str, str]:
    """Pod to the node that it runs on, as listings of pods say. O(facts)."""
    node_of: dict[str, str] = {}
    for one in parsed:
        if one.kind == Kind.STATE and not _POD_FORMATS.isdisjoint(one.facts.get("formats") or ()):
            node_of |= {fact.part: fact.place.name for fact in facts_of(one) if _is_of_pod(fact)}
    return node_of


def _is_of_pod(fact: Fact) -> bool:
    """Whether a fact is of a pod with a node: any of a table, the naming one of a document."""
    has_place = bool(fact.part and fact.place.name)
    is_top = "." not in fact.name
    return has_place and (is_top or fact.name.endswith("spec.nodeName"))


def _series_of(format_ids: frozenset[str]) -> list[Series]:
    found: list[Series] = []
    for form in load():
        if form.id in format_ids:
            found += form.series
    return found


def measures_of(parsed: Parsed) -> list[Measure]:
    """The series of a file of records by place and quantity, without what is no number."""
    ids = frozenset(parsed.facts.get("formats") or ())
    known = {row.name: row for row in _series_of(ids)}
    values: dict[tuple[str, str, str], list[float]] = {}
    for fact in facts_of(parsed) if known else ():
        number = number_of(fact.value)
        own = values.setdefault((fact.name, fact.place.name, fact.part), [])
        if number is not None and len(own) < MAX_VALUES:
            own.append(number)
    out = []
    for (name, node, part), own in values.items():
        row = known[name.partition(".")[0]]
        words = name.replace(".", " of ", 1)
        out.append(Measure(Place("node", node), words, row.sense, row.unit, tuple(own), part, parsed.path, 1))
    return out


def _notes(parts: Sequence[Section]) -> tuple[str, ...]:
    """What was read of each section, and which sections nobody knows; one sentence each."""
    if len(parts) == 1:
        return (_of_section(parts[0]),)
    named = parts[:MAX_NAMED_SECTIONS]
    told = [f"From line {part.first_line:,}: {_of_section(part)}" for part in named]
    if len(parts) > MAX_NAMED_SECTIONS:
        told.append(f"And {len(parts) - MAX_NAMED_SECTIONS:,} more sections.")
    return tuple(told)


def _of_section(part: Section) -> str:
    lines = counted(part.lines, "line", "lines")
    if part.is_log:
        return f"{lines} of a log."
    if part.form is None:
        return f"not recognised, {lines}; nothing was concluded from them."
    facts = counted(part.facts, "fact was", "facts were")
    if part.form.shape == LAYOUT:
        all_kept = part.facts < layouts.MAX_ENTRIES
        kept = "" if all_kept else " Others were left out."
        read = f"Read by its layout as {part.form.title}: {facts} read.{kept}"
        return f"No known format. {read} {_UNKNOWN}"
    return f"{part.form.title}: {facts} read."


def _host_of_prompt(text: str) -> str:
    """The machine that a prompt at the beginning of a text names."""
    found = _PROMPT_HOST.match(text)
    name = found[1].partition(".")[0] if found else ""
    return name if _is_machine(name) else ""


def _only_node(found: Sequence[Entry]) -> str:
    """The machine of a report that names a single one."""
    nodes = {entry.node for entry in found if entry.node}
    return nodes.pop() if len(nodes) == 1 else ""


def fact_of(entry: Entry, host: str, first_line: int) -> Fact:
    """The fact of an entry of a section that begins at ``first_line`` of a report of ``host``."""
    place = Place("node", entry.node or host)
    line = entry.line + first_line - 1 if entry.line else 0
    return Fact.of(place, entry.path, entry.value, line, entry.part)


def _text(data: bytes) -> str | None:
    encoding, mark = encoding_of(data[:_HEAD_BYTES])
    if b"\0" in data[:_HEAD_BYTES] and encoding == "utf-8":
        return None
    return decode(data[mark:], encoding)


def _is_log(text: str) -> bool:
    lines = text.splitlines()[:400]
    is_paste = _COMMAND.match(text) is not None
    if not is_paste and any(map(_PROGRAM_END.search, lines)):
        return True
    return log_lines.are_timed(lines, THRESHOLDS.log_share)


def host_of(text: str, path: str) -> str:
    """The machine that a report is of: as it says, else what is left of the name of its file or
    folder without the words of tools ("ibstat-gpu-19.txt", "gpu-19/ibstat.txt"). A word that does not
    look like a machine's name gives way to one that does.
    """
    head = text[:_HEAD_BYTES]
    found = _HOST.search(head) or _NODE_OBJECT.search(head) or _PROFILE_NAME.search(path)
    stated = found[1] if found else ""
    if _is_machine(stated.partition(".")[0]):
        return stated
    return machine_of_path(path) or stated


def machine_of_path(path: str) -> str:
    """What a path says of the machine that its file is of; empty if it names none."""
    if address := _ADDRESS.search(path):
        return address[0]
    for part in reversed(PurePosixPath(path).parts):
        for stem in _DAY.sub("", part).split("."):
            if name := _machine_in(stem):
                return name
    return ""


def _machine_in(stem: str) -> str:
    """The last run of words that are no tool's, if it looks like a machine's name."""
    tools = [found.span() for found in _WORD.finditer(stem) if found[0].lower() in _tool_words()]
    begin = 0
    runs = []
    for first, last in [*tools, (len(stem), len(stem))]:
        runs.append(stem[begin:first].strip("-_ "))
        begin = last
    words = chain.from_iterable(_whole_and_words(run) for run in runs)
    names = [word for word in words if _is_machine(word)]
    return names[-1] if names else ""


def _whole_and_words(run: str) -> list[str]:
    """A run of words without those behind its last number ("gpu-50-good"), and its words, if
    underscores part them ("all_reduce_gpu-31").
    """
    whole = _BEHIND_NUMBER.sub("", run)
    return [whole, *whole.split("_")]


def _is_machine(name: str) -> bool:
    """Whether a name begins with two letters and ends with a number, or is a short one, and is no
    network interface's and no process's.
    """
    looks_so = len(name) > 2 and name[:2].isalpha() and name[-1].isdigit()
    looks_so = looks_so or _SHORT_NAME.fullmatch(name) is not None
    return looks_so and not any(one.fullmatch(name) for one in (_INTERFACE, _RANK))


@cache
def _tool_words() -> frozenset[str]:
    """The words of the ids and titles of all formats, and of the usual names of their files."""
    known = {"output", "log", "txt", "state", "env", "report", "healthy", "before", "after"}
    for form in load():
        known |= {word.lower() for word in _WORD.findall(f"{form.id} {form.title}")}
    return frozenset(known - _MACHINE_WORDS)

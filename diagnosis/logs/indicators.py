"""The words of a line that tell the fault (description) and the things they are about (parameters), after LoFI
(ISSRE'24, section 4).

LoFI answers two questions about a line with a language model; here a matched rule answers the first, or a score over
the clauses of the line, and typed patterns answer the second. Deterministic, no model to ship; see
``docs/log-engine.md`` for its figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from diagnosis.logs.signatures import SignatureSet, load

#: Longest line that is looked at, in characters.
LIMIT = 2000


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` to ``end`` of the line are a value of ``kind``; the description has the kind ``fault``."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Indication:
    """What to highlight in one line.

    ``text`` is the fault-indicating description, ``parameters`` the first value of each kind, ``spans`` everything
    found, in order.
    """

    text: str
    parameters: dict[str, str]
    spans: tuple[Span, ...]


_ERRNO_NAME = (
    r"\b(E(?:IO|NOSPC|DQUOT|ROFS|PERM|ACCES|NOENT|AGAIN|INVAL|NOMEM|BUSY|PIPE|STALE|TIMEDOUT"
    r"|CONNREFUSED|CONNRESET|HOSTUNREACH))\b"
)
_DEVICE = (
    r"\b((?:mlx[45]|irdma|bnxt_re|hns|efa|rdmap|nvme|hfi1|ibp|rocep)_?\d[\w.]*"
    r"|(?:ib|eth|bond|ens|enp|eno)\d\w*|sd[a-z]{1,2}\d?|nvidia-nvswitch\d+)\b"
)
# Kinds in order of precedence: a later kind never takes characters that an earlier one holds.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("pci", r"\b((?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\b"),
        ("xid", r"\bS?X(?:ID|id)\b(?: \([^)]*\))?[:= ]+(\d{1,6})\b"),
        ("source", r"([\w./-]+\.(?:py|cc|cpp|cu|cuh|c|h|go|rs):\d+)\b"),
        ("path", r"(?<![\w:/.])((?:[\w.-]+@)?(?:\w+://)?/?(?:[\w.@=+-]+/)+[\w.@=+-]+)"),
        ("path", r"(?<![\w/])(/[\w.@=+-]+)(?![\w/])"),
        ("address", r"(?<![\w.])((?:\d{1,3}\.){3}\d{1,3}(?:[:<]\d{1,5}>?)?)(?![\w.])"),
        ("exception", r"\b((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Warning))\b"),
        ("errno", r"(?i:\berrno[ :=\]]*)(-?\d{1,3})\b"),
        (
            "errno",
            _ERRNO_NAME,
        ),
        ("signal", r"\b(SIG[A-Z]{2,6})\b"),
        ("signal", r"(?i:\bsignal[ :=]+)(\d{1,2})\b"),
        ("exit_code", r"(?i:\bexit(?:ed|s)?[ _]?(?:with )?(?:code|status|value)?[ :=]+)(-?\d{1,3})\b"),
        ("rank", r"(?i:\brank[ :=#]?\s?)(\d{1,6})\b"),
        ("gpu", r"(?i:\b(?:gpu|npu|tpu|cuda|hpu|card|accelerator)[ :=#]?\s?)(\d{1,3})\b"),
        ("gpu", r"(?i:\bdevice(?:[ _]?id)?[ :=#]{1,2})(\d{1,3})\b"),
        ("gpu_uuid", r"\b((?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"),
        ("device", _DEVICE),
        ("link", r"(?i:\blink[ :=#]?\s?)(\d{1,3})\b"),
        ("port", r"(?i:\bport[ :=#]?\s?)(\d{1,5})\b"),
        ("node", r"(?i:\b(?:node|host|hostname|nodename)[ :=]+['\"]?)([A-Za-z][\w.-]*\d[\w.-]*)"),
        ("iteration", r"(?i:\b(?:iteration|iter|step|global_step|batch)[ :=#]+)(\d+)\b"),
        ("bytes", r"\b(\d+(?:\.\d+)? ?(?:[KMGTP]i?B|[kKMGT]?bytes|B))\b"),
        ("duration", r"\b(\d+(?:\.\d+)? ?(?:ms|milliseconds|seconds|secs|minutes|hours|s|min|h))\b"),
        ("process", r"(?i:\bpid[ :='\"]{1,2})(\d+)\b"),
        ("temperature", r"\b(\d{1,3} ?(?:°C|degC|degrees? C))"),
        ("quoted", r"'([^']{1,80})'"),
    )
)

# Words that tell of a fault, by how much. Stems, matched at the start of a word, case ignored.
_FAULT = re.compile(
    r"(?i)\b(?:(?P<three>uncorrect|fatal|panic|corrupt|fallen|unrecover|out of memory|no space|no such|refused|denied"
    r"|unreachable|killed|crash|deadlock)"
    r"|(?P<two>fail|error|fault|exception|time[sd]?[ -]?out|lost|loss of|dead|down\b|abort|invalid|illegal|mismatch"
    r"|missing|cannot|can't|could not|unable|not found|exceed|nan\b|inf\b|violation|reset by|closed|stuck|hang|hung"
    r"|overheat|broken)"
    r"|(?P<one>warn|not |retry|retries|slow|drop|reject|stop|terminat|unexpected|disconnect|exit))"
)
_WEIGHTS = {"three": 3, "two": 2, "one": 1}
_CLAUSE = re.compile(r"(?<=[:;,.!?\])|])\s+|\s+-+\s+|\s*=>\s*")
_HEADER = re.compile(
    r"\A(?:\s*(?:\[[^\]]{0,80}\]|\(\w+ pid=[^)]*\)|\d{4}-\d\d-\d\d[T ]\S+"
    r"|\d\d:\d\d:\d\d\S*|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d"
    r"|(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|\d+:(?= ))[:,]?)*\s*"
)


#: What names a value that follows, and words that leave a clause open.
_KEY = re.compile(r"\W*[\w.-]+[:=]\s*")
_NEXT_WORD = re.compile(r"\s*\S+")
_OPEN = re.compile(r"(?i)(?:\b(?:vs|than|of|to|for|at|by|from|got|was|is|with|and)|[=:])\s*\Z")
#: Characters that a description may go on beyond the match of its rule.
_ANCHORED = 160
#: Words that a description has at least, where the line goes on.
LEAST_WORDS = 3


def extract(line: str, rule: str | None = None, rules: SignatureSet | None = None) -> Indication:
    """Description, parameters and their spans of one raw line.

    Args:
        line: one physical line; what lies beyond :data:`LIMIT` characters is not looked at.
        rule: id of the rule that matched it, whose match is the description. Without one the clause that tells most is
            taken.

    Positions count characters of ``line``. Never raises on content. O(length of the line × kinds).
    """
    text = line[:LIMIT]
    known = rules or load()
    fault = _rule_span(text, rule, known) if rule else None
    if fault is None:
        fault = _best_clause(text)
    taken: list[Span] = []
    for kind, pattern in _KINDS:
        for match in pattern.finditer(text):
            start, end = match.span(1)
            if all(end <= other.start or start >= other.end for other in taken):
                taken.append(Span(start, end, kind))
    taken.sort(key=lambda span: span.start)
    near = sorted(taken, key=lambda span: (_distance(span, fault), span.start))
    parameters: dict[str, str] = {}
    for span in near:
        parameters.setdefault(span.kind, text[span.start : span.end])
    spans = sorted([fault, *taken] if fault else taken, key=lambda span: (span.start, -span.end))
    described = text[fault.start : fault.end] if fault else text.strip()
    return Indication(described, dict(sorted(parameters.items())), tuple(spans))


def extract_many(lines: Iterable[tuple[str, str | None]], rules: SignatureSet | None = None) -> list[Indication]:
    """:func:`extract` over (line, rule id) pairs."""
    return [extract(line, rule, rules) for line, rule in lines]


def _rule_span(text: str, rule_id: str, rules: SignatureSet) -> Span | None:
    """Where the rule matches, found with the linear-time engine that matched it before."""
    rule = rules.rule(rule_id)
    if rule is None:
        return None
    signature = rules.signatures[rule.order]
    if signature.has_codes and (clause := _best_clause(text)):
        return clause  # the code is a parameter; what it means is said in words beside it
    found = pl.Series([text]).str.extract(f"({signature.pattern})", 1)[0]
    if not found:
        return None
    start = text.find(found)
    end = start + len(found)
    if end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        # a match that stops within a word was only an anchor: the clause goes on
        cut = _CLAUSE.search(text, end)
        end = min(cut.start() if cut else len(text), end + _ANCHORED)
    while len(text[start:end].split()) < LEAST_WORDS and end - start < _ANCHORED and text[end:].strip():
        # a lone word or number names the fault, what follows tells it
        cut = _CLAUSE.search(text, end + 1)
        further = min(cut.start() if cut else len(text), start + _ANCHORED)
        if _KEY.fullmatch(text[end:further]):  # the name of another value: what stands before tells it
            start = _words_before(text, start, LEAST_WORDS - len(text[start:end].split()))
            break
        end = further
    if _OPEN.search(text[start:end]) and (word := _NEXT_WORD.match(text, end)):
        end = word.end()
    return _trim(text, start, end)


def _words_before(text: str, start: int, count: int) -> int:
    """Where the last ``count`` words of the clause before ``start`` begin."""
    begin = max((cut.end() for cut in _CLAUSE.finditer(text, 0, start) if cut.end() < start), default=0)
    words = list(re.finditer(r"\S*\w\S*", text[begin:start]))[-count:] if count > 0 else []
    return begin + words[0].start() if words else start


def _best_clause(text: str) -> Span | None:
    """The clause with the most telling words; ties go to the earlier one. A lone word takes the next clause with it."""
    begin = header.end() if (header := _HEADER.match(text)) else 0
    clauses = list(_clauses(text, begin))
    scores = [sum(_WEIGHTS[hit.lastgroup or "one"] for hit in _FAULT.finditer(text, *clause)) for clause in clauses]
    if not any(scores):
        return None
    best = scores.index(max(scores))
    start, end = clauses[best]
    if len(text[start:end].split()) == 1 and best + 1 < len(clauses):
        end = clauses[best + 1][1]
    return _trim(text, start, end)


def _clauses(text: str, begin: int) -> Iterable[tuple[int, int]]:
    at = begin
    for cut in _CLAUSE.finditer(text, begin):
        yield at, cut.start()
        at = cut.end()
    yield at, len(text)


def _trim(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip(" \t:,;.-=>([{'\""))
    end -= len(piece) - len(piece.rstrip(" \t:,;.-=<([{'\""))
    for opening, closing in ("[]", "()"):  # a pair that the match or the cut took apart
        inner = text[start:end]
        if inner.count(closing) > inner.count(opening) and text[start - 1 : start] == opening:
            start -= 1
    for mark in "'\"":
        if text[start:end].count(mark) % 2 and text[end : end + 1] == mark:
            end += 1
    return Span(start, max(start, end), "fault")


def _distance(span: Span, fault: Span | None) -> int:
    if fault is None:
        return 0
    return max(0, span.start - fault.end, fault.start - span.end)

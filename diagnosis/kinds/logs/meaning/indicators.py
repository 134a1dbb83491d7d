"""The words of a line that state the fault (description) and its objects (parameters), after LoFI
(ISSRE'24, section 4).

LoFI answers two questions about a line with a language model; here a matched rule answers the first, or a score over
the clauses of the line, and typed patterns answer the second. Deterministic, no model to ship; see
``docs/log-engine.md`` for its figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning.signatures import SignatureSet, load
from diagnosis.kinds.logs.read import headers
from diagnosis.knowledge import words
from diagnosis.knowledge.late_patterns import late

THRESHOLDS: Final = thresholds.of("indicators")

LIMITS: Final = thresholds.limits("indicators")


class Span(msgspec.Struct, frozen=True):
    """Characters ``start`` to ``end`` of the line are a value of ``kind``; the description has the kind ``fault``."""

    start: int
    end: int
    kind: str


class Indication(msgspec.Struct, frozen=True):
    """The parts of one line to highlight.

    ``text`` is the fault-indicating description, ``parameters`` the first value of each kind, ``spans`` everything
    found, in order.
    """

    text: str
    parameters: dict[str, str]
    spans: tuple[Span, ...]


# Kinds in order of precedence: a later kind never takes characters that an earlier one holds.
_KINDS = tuple((word.id, late(word.pattern)) for word in words.load("parameters"))

# Words that indicate a fault, with weights. Stems, matched at the start of a word, case ignored.
_FAULT = late(
    r"(?i)\b(?:(?P<three>uncorrect|fatal|panic|corrupt|fallen|unrecover|out of memory|no space|no such|refused|denied"
    r"|unreachable|killed|crash|deadlock)"
    r"|(?P<two>fail|error|fault|exception|time[sd]?[ -]?out|lost|loss of|dead|down\b|abort|invalid|illegal|mismatch"
    r"|missing|cannot|can't|could not|unable|not found|exceed|nan\b|inf\b|violation|reset by|closed|stuck|hang|hung"
    r"|overheat|broken)"
    r"|(?P<one>warn|not |retry|retries|slow|drop|reject|stop|terminat|unexpected|disconnect|exit))"
)
_CLAUSE = late(r"(?<=[:;,.!?\])|])\s+|\s+-+\s+|\s*=>\s*")
#: Names of a following value, and words that leave a clause open.
_KEY = late(r"\W*+[\w.-]++[:=]\s*")
_NEXT_WORD = late(r"\s*\S+")
_OPEN_END = late(r"(?i)(?:\b(?:vs|than|of|to|for|at|by|from|got|was|is|with|and)|[=:])\s*\Z")
#: Maximum number of characters of a description after the match of its rule.
_MAX_CHARS_AFTER_RULE = 160


def extract(line: str, rule: str | None = None, rules: SignatureSet | None = None) -> Indication:
    """Description, parameters and their spans of one raw line.

    Args:
        line: one physical line; text beyond :data:`LIMITS.limit` characters is ignored.
        rule: id of the rule that matched it, whose match is the description. Without one, the most informative clause
        is used.

    Positions count characters of ``line``. Never raises on content. O(length of the line × kinds).
    """
    text = line[: LIMITS.limit]
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


def _rule_span(text: str, rule_id: str, rules: SignatureSet) -> Span | None:
    """The match of the rule, found with the same linear-time engine."""
    rule = rules.rule(rule_id)
    if rule is None:
        return None
    if "(?P<code>" in rule.pattern and (clause := _best_clause(text)):
        return clause  # the code is a parameter; the words next to it state its meaning
    found = pl.Series([text]).str.extract(f"({rule.pattern})", 1)[0]
    if not found:
        return None
    start = text.find(found)
    end = _word_end(text, start + len(found))
    while _is_short(text, start, end):
        # a single word or number names the fault, the text after it describes it
        cut = _CLAUSE.search(text, end + 1)
        further = min(cut.start() if cut else len(text), start + _MAX_CHARS_AFTER_RULE)
        if _KEY.fullmatch(text[end:further]):  # the name of another value: the text before it describes the fault
            start = max((cut.end() for cut in _CLAUSE.finditer(text, 0, start)), default=0)
            break
        end = further
    if _OPEN_END.search(text[start:end]) and (word := _NEXT_WORD.match(text, end)):
        end = word.end()
    return _trim(text, start, end)


def _word_end(text: str, end: int) -> int:
    """A match that ends within a word was only an anchor: the clause continues."""
    if end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        cut = _CLAUSE.search(text, end)
        return min(cut.start() if cut else len(text), end + _MAX_CHARS_AFTER_RULE)
    return end


def _is_short(text: str, start: int, end: int) -> bool:
    """Whether a match has too few words, and more text follows."""
    has_room = end - start < _MAX_CHARS_AFTER_RULE and bool(text[end:].strip())
    return has_room and len(text[start:end].split()) < THRESHOLDS.words


def _fault_weight(text: str, clause: tuple[int, int]) -> float:
    """The sum of the weights of the indicating words in a clause."""
    return float(sum(THRESHOLDS.weights[hit.lastgroup or "one"] for hit in _FAULT.finditer(text, *clause)))


def _best_clause(text: str) -> Span | None:
    """The clause with the largest weight of indicating words; ties go to the earlier one. A single word is joined with
    the next clause.
    """
    clauses = list(_clauses(text, headers.length(text)))
    scores = [_fault_weight(text, clause) for clause in clauses]
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
    for opening, closing in ("[]", "()"):  # a pair of brackets or quotes that the match or the cut split
        inner = text[start:end]
        if inner.count(closing) > inner.count(opening) and text[start - 1 : start] == opening:
            start -= 1
    for mark in "'\"":
        if text[start:end].count(mark) % 2 and text[end : end + 1] == mark:
            end += 1
    return Span(start, max(start, end), "fault")


def _distance(span: Span, fault: Span | None) -> int:
    return 0 if fault is None else max(0, span.start - fault.end, fault.start - span.end)

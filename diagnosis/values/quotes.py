"""Quotations of lines for sentences: the message without writer and time."""

from __future__ import annotations

import re
from typing import Final

from diagnosis import thresholds
from diagnosis.values.plain import ANSI

LIMITS: Final = thresholds.limits("quotes")

#: A stamp and the parts around it, before a message whose template does not show its beginning.
_HEAD: Final = re.compile(
    r"^\W*(?:[A-Z]?\d{4}[-/]\d\d[-/]\d\d[T ]|[EWIF]\d{4} )[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\W*(?:\d+ [\w./-]+:\d+\]\s*)?"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_PARAMETER: Final = re.compile(r"<[A-Z]+>")
#: The end of a clause: punctuation before a space.
_CLAUSE_ENDS: Final = re.compile(r"[.;:!?|\]](?=\s|$)\s*|\s[-–=]+>?\s|\t")
#: The type of an exception before its message, which belongs to it.
_EXCEPTION_TYPE: Final = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception): $")
_EXCEPTION: Final = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception): .*\w")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|<[^<>]*>")
_SOURCE: Final = re.compile(r"[\w./-]+\.(?:py|cc|cpp|cu|c|h|hpp|go|rs)(?::\d+)?:?(?=\s|$)")
#: The path after a message about it.
_LAST_PATH: Final = re.compile(r"(?:\s(?:in|at|from))?\s*:\s*([\"']?)/[\w./:-]+…?\1$")
_WORD: Final = re.compile(r"(?<![\w-])[^\W\d_][^\W\d_]+(?!\w)")
_PATH: Final = re.compile(r"\S*/\S*")
#: Paths, addresses of memory and of devices.
_ADDRESS: Final = re.compile(r"(?:^|[\s\"'])/[\w.-]+/|0x[0-9a-f]{4}|[0-9a-f]{2}:[0-9a-f]{2}[:.]")
#: Remains of a cut bracket, of code or of a table, which are no sentence.
_FRAGMENT: Final = re.compile(r"[\[\]{}()<>]|::|\w=\S|[-=*_#|]{3,}")
#: Minimum of words and characters of a quoted clause.
MIN_CLAUSE_WORDS: Final = 2
MAX_CLAUSE_CHARS: Final = 90
#: Minimum length of a template's opening that is searched in the line.
MIN_OPENING_CHARS: Final = 4


def quote(example: str, template: str = "", width: int = 140) -> str:
    """The message of ``example`` (``template`` shows its beginning); of a JSON record the inner message."""
    text = example
    opening = _PARAMETER.split(template, maxsplit=1)[0].strip()
    place = text.find(opening) if len(opening) >= MIN_OPENING_CHARS else -1
    text = text[place:] if place > 0 else _HEAD.sub("", text)
    return clip(text, width)


def clause(line: str, fault: str) -> str:
    """The clause of ``line`` around the words ``fault``, in a form for a sentence: without brackets, source files and
    process numbers. Empty if no meaningful text is left.
    """
    text, words = plain(line), plain(fault)
    start = text.find(words)
    if start < 0 or not words:
        start, text = 0, words
    before = [cut.end() for cut in _CLAUSE_ENDS.finditer(text, 0, start + 1) if cut.end() <= start]
    after = _CLAUSE_ENDS.search(text, min(len(text), start + len(words)))
    begin = max(before, default=0)
    if (raised := _EXCEPTION_TYPE.search(text[:begin])) is not None:
        begin = raised.start()
    whole = text[begin : after.start() if after else len(text)]
    return next((part for part in map(_without_brackets, (whole, words)) if part), "")


def informative_clause(line: str) -> str:
    """The longest clause of ``line`` that fits into a sentence, an exception with its message; empty if none does."""
    text = plain(line)
    while (bare := _BRACKETED.sub(" ", text)) != text:
        text = bare
    if (raised := _EXCEPTION.search(text)) is not None:
        text = raised[0].partition(": ")[0] + ": " + _CLAUSE_ENDS.split(raised[0].partition(": ")[2])[0]
        return _without_brackets(text)
    pieces = [
        text_left
        for piece in _CLAUSE_ENDS.split(text)
        if not _ADDRESS.search(piece) and (text_left := _without_brackets(piece))
    ]
    return max(pieces, key=len, default="")


def _without_brackets(text: str) -> str:
    """Words without brackets and source files; empty if they are no clause."""
    while (bare := _BRACKETED.sub(" ", text)) != text:
        text = bare
    text = _LAST_PATH.sub("", text)
    text = " ".join(_SOURCE.sub(" ", text).split()).strip(" ,;:.-=|*")
    text = text.replace(" ,", ",").replace(" :", ":")
    said = clip(text, MAX_CLAUSE_CHARS)
    words = _WORD.findall(_PATH.sub(" ", said))  # a path alone tells nothing
    is_told = len(words) >= MIN_CLAUSE_WORDS or _EXCEPTION.match(text)
    return said if is_told and not _FRAGMENT.search(text) else ""


def clip(text: object, width: int) -> str:
    """One line of at most ``width`` characters, cut between words where possible."""
    line = plain(str(text))
    if len(line) <= width:
        return line
    cut = line.rfind(" ", 0, width - 1)
    return line[: cut if cut >= LIMITS.whole_words * width else width - 1].rstrip(" ,;:(") + "…"


def plain(text: str) -> str:
    """One line without control sequences of a terminal."""
    return " ".join(_CONTROL.sub("", ANSI.sub("", text)).split())

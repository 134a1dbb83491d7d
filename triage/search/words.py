"""Text as the search index keeps it: words in lower case between single spaces, the same on every database.

A word is a run of letters and digits; each Chinese or Japanese character is one of its own, because those scripts write
no spaces. ``LINE`` stands between two lines, so that no phrase reaches from one into the next. What is indexed and what
is looked for are cut by the same rule, so that neither database's own idea of a word matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: a character of the private-use area that no query can contain
LINE = "\ue000"
#: what stands before the id of a signature
SIGNATURE = "\ue001"
#: longer words are cut; a search for one is cut as well
MAX_WORD = 64
#: characters of one line and words of one entry that are indexed
MAX_LINE = 1000
MAX_WORDS = 8000
#: names in mixed case that are indexed by their parts, too
MAX_NAMES = 200

_WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(text: str) -> list[str]:
    """The words of ``text`` in order, folded and cut. Linear."""
    return [word.casefold()[:MAX_WORD] for word in _WORD.findall(text)]


def entry(lines: Iterable[str]) -> str:
    """Lines as one text for the index: a space at both ends, ``LINE`` between lines, every line once.

    Names in mixed case (``ncclInternalError``) follow once more by their parts, so that each part is found.
    """
    kept: list[str] = []
    names: dict[str, None] = {}
    for line in dict.fromkeys(text[:MAX_LINE] for text in lines):
        found = words_of(line)
        if not found:
            continue
        if line.startswith(SIGNATURE):
            found.insert(0, SIGNATURE)
        if len(kept) + len(found) >= MAX_WORDS:
            break
        kept += [*found, LINE]
        for name in _WORD.findall(line):
            if not (name.islower() or name.isupper() or name.isdigit()) and len(names) < MAX_NAMES:
                names[name] = None
    for name in names:
        parts = [part.casefold() for part in _PARTS.findall(name[:MAX_WORD])]
        if len(parts) > 1:
            kept += [*parts, LINE]
    return f" {' '.join(kept)} " if kept else ""


def place_of(rank: int) -> str:
    """The word under which a rank is indexed."""
    return f"rank{rank}"

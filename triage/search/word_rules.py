"""Text in the search index: lower-case words between single spaces, equal on every database.

A word is a run of letters and digits; each Chinese or Japanese character is a word, because these scripts write no
spaces. ``LINE`` separates two lines, so that no phrase matches across them. Indexed text and queries are split by the
same rule, so that the databases' own word rules do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: a character of the private-use area that no query can contain
LINE = "\ue000"
#: the prefix of a signature's id
SIGNATURE = "\ue001"
#: longer words are cut, in the index and in queries
MAX_WORD = 64
#: maximum indexed characters per line, and words per entry
MAX_LINE = 1000
MAX_WORDS = 8000
#: maximum names in mixed case whose parts are indexed, too
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

    Names in mixed case (``ncclInternalError``) are added again in parts, so that a search finds each part.
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
    """The indexed word of a rank."""
    return f"rank{rank}"

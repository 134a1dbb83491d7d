"""Machine names in messages: the machines that a line names, and masks that make messages of two jobs equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import polars as pl

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("hosts")

HOST = "<HOST>"
#: An IPv6 address, or a time. It begins where its digits begin: other beginnings would be tried in vain.
_ADDRESS: Final = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]*:[0-9A-Fa-f:.]+")
#: Names with a scheme; what counts processes and is no name.
_NAME_WITH_SCHEME: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{2,62}[A-Za-z0-9]")
_NUMBERED_PROCESS: Final = re.compile(r"(?i)(?:rank|rang|task|proc\w*|step|gpu|npu|cuda|device|epoch|stage)[-_.]?\d+$")
#: A word that may be a machine's name or address.
WORD: Final = re.compile(r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]")


def hide_hosts(texts: pl.Series, nodes: Iterable[str]) -> pl.Series:
    """``texts`` with each node's masked spelling replaced by ``<HOST>``. O(bytes), one pass."""
    masked = (re.sub(r"\d+", "<NUM>", node) for node in nodes)
    return _replaced(texts, (name for name in masked if name != "<NUM>" and len(name) >= THRESHOLDS.chars), HOST)


def anonymise_hosts(lines: pl.Series, nodes: Iterable[str]) -> pl.Series:
    """``lines`` with ``n0`` for each machine whose name has letters and digits, so that a rule for words does not see
    them in a name ("mlu590-17"). O(characters).
    """
    return _replaced(
        lines, (n for n in nodes if _NAME_WITH_SCHEME.fullmatch(n) and not _NUMBERED_PROCESS.match(n)), "n0"
    )


def _replaced(texts: pl.Series, names: Iterable[str], by: str) -> pl.Series:
    # longest first, because one name may be part of a longer one
    known = sorted(set(names), key=lambda name: (-len(name), name))
    return texts.str.replace_many(known, [by] * len(known), leftmost=True) if known else texts


def names_in(text: str, nodes: Mapping[str, str]) -> set[str]:
    """Nodes whose name or address occurs in ``text`` as a word. ``nodes`` maps names and addresses to nodes. O(words),
    however many nodes there are.
    """
    words = WORD.findall(text)
    words += [word.strip(".:[]") for word in _ADDRESS.findall(text)]
    found = set[str]()
    for word in words:
        node = nodes.get(word) or nodes.get(word.partition(".")[0])
        found.update([node] if node else [])
    return found

"""Host names inside masked messages: what a cluster calls its machines must not keep two jobs' messages apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

HOST = "<HOST>"


def shapes(nodes: Iterable[str]) -> list[str]:
    """How masked text spells these nodes: digits are masked there already. Longest first, so that no shape hides in a
    longer one."""
    found = {re.sub(r"\d+", "<NUM>", node) for node in nodes}
    return sorted((s for s in found if s != "<NUM>" and len(s) >= 3), key=lambda s: (-len(s), s))


def hide(texts: pl.Series, nodes: Iterable[str]) -> pl.Series:
    """``texts`` with each node's masked spelling replaced by ``<HOST>``. O(bytes), one pass."""
    known = shapes(nodes)
    if not known:
        return texts
    return texts.str.replace_many(known, [HOST] * len(known), leftmost=True)

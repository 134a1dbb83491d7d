"""Which of many signs may occur in a text: those whose literals it holds.

Nearly every file has the sign of no report. To look for a hundred patterns takes ten times as long as to
look for the literals that they need (:mod:`literals`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Set
from functools import cached_property
from itertools import chain
from typing import Final

from diagnosis.kinds.logs.read import literals
from diagnosis.kinds.logs.read.literals import Way

#: What must not stand somewhere: its literals are not needed.
_DENIAL: Final = re.compile(r"\(\?<?!")
#: Letters that match one of ASCII where the case of letters does not count.
_AS_PLAIN: Final = str.maketrans({"\u017f": "s", "\u0130": "i", "\u0131": "i", "\u212a": "k"})
_ANY_TEXT: Final = (frozenset[frozenset[str]](),)


class SignSearch:
    """Patterns, of which few occur in any text."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = frozenset(patterns)

    def possible(self, text: str) -> Set[str]:
        """The patterns that may match the text; no other one does. O(characters × literals)."""
        plain = text if text.isascii() else text.translate(_AS_PLAIN)
        lower = plain.lower()
        held = {literal for literal in self._patterns_with if literal in lower}
        asked = set(chain.from_iterable(self._patterns_with[literal] for literal in held))
        return self._unsure | {pattern for pattern in asked if self._is_fulfilled(pattern, held)}

    def _is_fulfilled(self, pattern: str, held: Set[str]) -> bool:
        """Whether a text with these literals has what a pattern needs in one of its ways."""
        return any(not any(map(held.isdisjoint, way)) for way in self._ways[pattern])

    @cached_property
    def _ways(self) -> dict[str, tuple[Way, ...]]:
        """How each pattern can match."""
        return {one: _ANY_TEXT if _DENIAL.search(one) else literals.ways(one) for one in self._patterns}

    @cached_property
    def _unsure(self) -> Set[str]:
        """The patterns that need no literal."""
        return {pattern for pattern, ways in self._ways.items() if not all(ways)}

    @cached_property
    def _patterns_with(self) -> dict[str, list[str]]:
        """The patterns that may need each literal."""
        found: dict[str, list[str]] = defaultdict(list)
        for pattern, ways in self._ways.items():
            for literal in frozenset().union(*chain.from_iterable(ways)):
                found[literal].append(pattern)
        return dict(found)

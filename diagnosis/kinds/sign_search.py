"""Which of many signs may occur in a text: those whose literals it holds.

Nearly every file has the sign of no report. To look for a hundred patterns takes ten times as long as to
look for the literals that they need (:mod:`literals`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Set
from functools import cached_property, partial
from itertools import chain
from typing import Final

from diagnosis.kinds.logs.text.literals import Way
from diagnosis.kinds.logs.text.stored_literals import ways_of

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
        held = set(filter(text.translate(_AS_PLAIN).lower().__contains__, self._patterns_with))
        asked = set(chain.from_iterable(map(self._patterns_with.__getitem__, held)))
        return self._unsure.union(filter(partial(self._is_fulfilled, held), asked))

    def _is_fulfilled(self, held: Set[str], pattern: str) -> bool:
        """Whether a text with these literals has what a pattern needs in one of its ways."""
        return any(all(map(held.__and__, way)) for way in self._ways[pattern])

    @cached_property
    def _ways(self) -> dict[str, tuple[Way, ...]]:
        """How each pattern can match."""
        return {one: _ANY_TEXT if _DENIAL.search(one) else ways_of(one) for one in self._patterns}

    @cached_property
    def _unsure(self) -> frozenset[str]:
        """The patterns that need no literal."""
        return frozenset(pattern for pattern, ways in self._ways.items() if not all(ways))

    @cached_property
    def _patterns_with(self) -> dict[str, list[str]]:
        """The patterns that may need each literal."""
        found: dict[str, list[str]] = defaultdict(list)
        for pattern, ways in self._ways.items():
            for literal in frozenset().union(*chain.from_iterable(ways)):
                found[literal].append(pattern)
        return dict(found)

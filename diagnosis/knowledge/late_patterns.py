"""Patterns that most jobs never need: each is compiled at its first use.

To compile a pattern takes as long as to search a hundred lines for it, and the engine has hundreds.
"""

from __future__ import annotations

import re
from typing import Any, cast


def late[Text: (str, bytes)](text: Text, flags: int = 0) -> re.Pattern[Text]:
    """``re.compile``, at the first use. A wrong pattern raises ``re.error`` there."""
    return cast("re.Pattern[Text]", _Late(text, flags))


class _Late:
    """In place of a compiled pattern, whose attributes it takes over one by one."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What all who ask take it for."""
        return re.Pattern

    def __getattr__(self, name: str) -> Any:
        """Called for what it has not taken over yet."""
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)
        return value

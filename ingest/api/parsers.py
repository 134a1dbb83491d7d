"""Parsers of request bodies. A module of its own, because views read the settings that name it when they are loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

#: levels of lists and objects that a request may have; what parsers of Python survive differs between its versions
_MAX_DEPTH: Final = 100


class Json(JSONParser):
    """Refuses JSON that is nested too deep, like invalid JSON."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        try:
            found = super().parse(*args, **kwargs)
        except RecursionError as error:
            raise ParseError("it is nested too deep") from error
        if _is_too_deep(found):
            raise ParseError("it is nested too deep")
        return found


def _is_too_deep(value: Any) -> bool:
    """Whether values stand below more than ``_MAX_DEPTH`` lists and objects. O(values), without recursion."""
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [inner for one in level if isinstance(one, list | dict) for inner in _children(one)]
        if not level:
            return False
    return True


def _children(one: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one

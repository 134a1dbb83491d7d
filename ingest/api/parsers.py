"""Parsers of request bodies. A module of its own, because views read the settings that name it when they are loaded."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class Json(JSONParser):
    """Refuses JSON that is nested too deep for the parser, like invalid JSON."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().parse(*args, **kwargs)
        except RecursionError as error:
            raise ParseError("it is nested too deep") from error

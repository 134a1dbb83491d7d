"""What reads the bodies of requests. Apart from the views, which ask the settings for it when they are loaded."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class Json(JSONParser):
    """JSON that is nested deeper than a program can follow is refused like JSON that cannot be read."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().parse(*args, **kwargs)
        except RecursionError as error:
            raise ParseError("it is nested too deep") from error

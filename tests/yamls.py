"""Documents in YAML, read by libyaml where the package has it: the API's schema alone takes a third of a second in
Python. Documents must not be changed: the same text gives the same one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read(text: str) -> Any:
    """The only document of a text."""
    return yaml.load(text, _LOADER)


def read_all(text: str) -> list[Any]:
    """All documents of a text, empty ones too."""
    return list(yaml.load_all(text, _LOADER))

"""Commands that start or maintain the site. They need the site's packages, which machines that run jobs do not have."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Callable

COMMANDS = ("serve", "alive", "manage", "doctor", "backup", "restore", "mcp")
_NOT_INSTALLED = (
    "faultline {}: only the client is installed here. This command comes with the site (its page /help/install/)."
)
_TOO_OLD = (
    "The site needs Python 3.12 or newer, this is {}.{}. Debian 12 and Ubuntu 22.04 have an older one: "
    "uv tool install --python 3.13 faultline_triage-*.whl brings its own (the page “Installing” of the help says more)."
)


def command_of(arguments: list[str]) -> Callable[[], int | str] | None:
    """The server's command, to be called; None if these arguments are the client's. Without arguments, where the site
    is installed, it is the whole site. A text instead of an exit code is the reason why there is none.
    """
    if arguments and arguments[0] not in COMMANDS:
        return None
    if not _has_site():
        return (lambda: _NOT_INSTALLED.format(arguments[0])) if arguments else None
    if sys.version_info < (3, 12):  # pip refuses this, unless it was told not to
        return lambda: _TOO_OLD.format(*sys.version_info[:2])
    return lambda: int(import_module("triage.serve.commands").main(arguments))


def _has_site() -> bool:
    try:
        return find_spec("triage.serve") is not None
    except ModuleNotFoundError:
        return False

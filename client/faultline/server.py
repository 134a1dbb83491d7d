"""Commands that start or maintain the site. They need the site's packages, which machines that run jobs do not have."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Callable

COMMANDS = ("serve", "alive", "manage", "doctor", "backup", "restore", "mcp")
_NOT_INSTALLED = (
    "faultline {}: only the client is installed here. This command comes with the site (its page /help/install/)."
)


def command_of(arguments: list[str]) -> Callable[[], int | str] | None:
    """The server's command, to be called; None if these arguments are the client's. Without arguments, where the site
    is installed, it is the whole site. A text instead of an exit code is the reason why there is none.
    """
    if arguments and arguments[0] not in COMMANDS:
        return None
    if not _has_site():
        return (lambda: _NOT_INSTALLED.format(arguments[0])) if arguments else None
    return lambda: int(import_module("triage.serve.commands").main(arguments))


def _has_site() -> bool:
    try:
        return find_spec("triage.serve") is not None
    except ModuleNotFoundError:
        return False

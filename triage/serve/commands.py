"""The commands of ``faultline`` that need the server's packages; the client hands them over."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from triage.places import ROOT
from triage.serve import alive, parts, supervisor
from triage.serve.children import ServiceError

#: commands of Django with a name of their own; all others are behind ``manage``
SHORT = ("doctor", "backup", "restore", "mcp")
#: Django and the engine make 340,000 objects that stay: searching them for cycles takes a third of a short command.
_OBJECTS_BETWEEN_SEARCHES = 100_000
USAGE = f"""usage: faultline [serve [PART]] | alive PART | manage COMMAND … | {" | ".join(SHORT)}

  faultline              everything on this machine: web server, worker, queue, database
  faultline serve PART   one part, in the foreground; PART is one of:
{parts.described("      ")}
  faultline alive PART   whether this part works on this machine: exit code 0 or 1
  faultline manage …     other commands: prepare, ensure (accounts), …
  faultline doctor       check this installation and say what to do
  faultline backup DIRECTORY, restore DIRECTORY
  faultline mcp          let assistants read incidents and logs (/help/assistants/ on the site)"""


def main(arguments: list[str]) -> int:
    """Run one command; returns its exit code. A part replaces this process, so that it gets the signals itself."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("serve", [])
    if {"-h", "--help"} & {name, *rest[:1]} and name not in ("manage", *SHORT):
        print(USAGE)
        return 0
    if name == "serve" and not rest:
        return supervisor.main()
    if name == "serve" and len(rest) == 1:
        return _serve(rest[0])
    if name == "alive" and len(rest) == 1:
        return _alive(rest[0])
    if name == "manage" or name in SHORT:
        return manage(rest if name == "manage" else arguments)
    print(USAGE, file=sys.stderr)
    return 2


def _serve(part: str) -> int:
    os.environ["FAULTLINE_PART"] = part
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    from triage.serve.newer import check_version  # noqa: PLC0415  # heavy: other commands need no Django

    try:
        argv = parts.command(part, os.environ)
        check_version()
        _become(argv)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 2


def _alive(part: str) -> int:
    try:
        problem = alive.problem_of(part, os.environ)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 2
    print(problem or "ok")
    return 1 if problem else 0


def _become(argv: list[str]) -> NoReturn:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    os.chdir(ROOT)  # `python -m` looks for packages in the working directory
    sys.stdout.flush()
    os.execv(argv[0], argv)  # noqa: S606  # our own command


def manage(arguments: list[str]) -> int:
    """Run a command of Django. Whoever reads its output may have enough of it, as `head` has."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
    from django.core.management import execute_from_command_line  # noqa: PLC0415  # heavy: other commands need no Django

    try:
        execute_from_command_line([Path(sys.argv[0]).name, *arguments])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        return 128 + signal.SIGPIPE
    finally:
        gc.freeze()  # else Python's end searches all modules for cycles
    return 0

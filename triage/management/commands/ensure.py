"""``manage.py ensure``: accounts without a browser, as a file wants them. Running it again changes nothing."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from ingest.refusals import Refused
from triage.domain.wanted_setup import setup_of
from triage.services.ensuring import Ensured, setup_ensure

#: fields that may be read from a file (``password_file``) or a variable (``password_env``)
_SECRET_FIELDS = ("password", "secret", "inbound_secret", "url")
#: the list of each kind of result, in the order in which they are made
_LISTS = ("clusters", "teams", "people", "services", "tokens", "routes")


class Command(BaseCommand):
    help = "Make people, teams, clusters, service accounts, tokens and routes as a TOML file says (/help/accounts/)."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("file", nargs="?", help="a TOML file; - reads standard input")
        source.add_argument("--admin", metavar="NAME", help="only this administrator: the first person of a new site")
        parser.add_argument("--json", action="store_true", help="print one JSON object: {changed, results}")

    def handle(self, *args: Any, **options: Any) -> None:
        document = _first_person(options["admin"]) if options["admin"] else _read(options["file"])
        places = _take_places(document)
        try:
            _read_secrets(document)
            setup = setup_of(document)
            with transaction.atomic():  # what cannot be written is not made
                found = setup_ensure(setup=setup)
                written = {index for index, path in places.items() if _keep(found[index], path)}
        except Refused as refusal:
            raise CommandError(refusal.detail) from refusal
        shown = [_row(one, places.get(index) if index in written else None) for index, one in enumerate(found)]
        if options["json"]:
            changed = any(row["state"] != "unchanged" for row in shown)
            self.stdout.write(json.dumps({"changed": changed, "results": shown}, indent=2))
        else:
            self._say(shown)

    def _say(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            changes = f" ({', '.join(row['changes'])})" if row["changes"] and row["state"] == "changed" else ""
            self.stdout.write(f"{row['state']:10}{row['kind']} {row['name']}{changes}")
            if "note" in row:
                self.stdout.write(f"{'':10}{row['note']}")
            if "secret" in row:
                word = "password" if row["kind"] == "person" else "secret"
                self.stdout.write(f"{'':10}{word}, shown only now: {row['secret']}")
            if "written_to" in row:
                self.stdout.write(f"{'':10}written to {row['written_to']}")


def _first_person(name: str) -> dict[str, Any]:
    return {"people": [{"username": name, "roles": ["admin"], "is_active": True}]}


def _read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise CommandError(f"{file} is no TOML file: {error}") from error


def _entries(document: dict[str, Any]) -> list[Any]:
    """All entries in the order of the results; what is no list of tables is refused later, with its place."""
    lists = [document.get(name) for name in _LISTS]
    return [entry for rows in lists if isinstance(rows, list) for entry in rows]


def _take_places(document: dict[str, Any]) -> dict[int, str]:
    """Remove ``write_to`` from all entries: the number of the entry -> the file for the secret that is made."""
    entries = _entries(document)
    return {
        index: str(entry.pop("write_to"))
        for index, entry in enumerate(entries)
        if isinstance(entry, dict) and "write_to" in entry
    }


def _read_secrets(document: dict[str, Any]) -> None:
    """Replace ``password_file`` and ``password_env`` (and those of other secrets) by what they name."""
    for entry in _entries(document):
        for name in _SECRET_FIELDS if isinstance(entry, dict) else ():
            file, variable = entry.pop(f"{name}_file", None), entry.pop(f"{name}_env", None)
            if file is not None:
                entry[name] = _first_line(str(file))
            elif variable is not None:
                if not os.environ.get(str(variable)):
                    raise CommandError(f"{name}_env names {variable}, which is not set or empty.")
                entry[name] = os.environ[str(variable)]


def _first_line(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error


def _keep(one: Ensured, path: str) -> bool:
    """Write a secret that was made now to its file (mode 600); returns whether it did."""
    if not one.secret:
        if one.kind != "person" and not Path(path).exists():
            todo = "set is_revoked = true for one run" if one.kind == "token" else "rotate its secret on its page"
            raise CommandError(
                f"{one.kind} {one.name} exists, but {path} does not, and a secret is shown only once: copy the file"
                f" from where it is, or {todo}."
            )
        return False
    beside = Path(f"{path}.new")
    try:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"{one.secret}\n")
        beside.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}. Nothing was made.") from error
    return True


def _row(one: Ensured, written_to: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": one.kind, "name": one.name, "state": one.state, "changes": list(one.changes)}
    row |= {"note": one.note} if one.note else {}
    if written_to is not None:
        return {**row, "written_to": written_to}
    return {**row, "secret": one.secret} if one.secret else row

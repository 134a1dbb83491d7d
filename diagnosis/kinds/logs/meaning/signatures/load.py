"""Read rules from TOML and their code tables from CSV."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from itertools import chain
from typing import Any

from msgspec.structs import replace

from diagnosis.kinds.logs.meaning.signatures.match import SignatureSet
from diagnosis.kinds.logs.meaning.signatures.model import Signature, Strength
from diagnosis.knowledge.knowledge_files import parsed, table
from diagnosis.model import Role
from diagnosis.taxonomy import UNKNOWN

#: Areas in the order in which their rules are tried.
AREAS: tuple[str, ...] = tuple(table("areas")["areas"])

#: A table of a TOML file, as it is written.
type _Row = Mapping[str, Any]


class SignatureError(ValueError):
    """A rule cannot be read; the message names the rule and the error."""


def parse(text: str, area: str = "", tables: Mapping[str, str] | None = None) -> tuple[Signature, ...]:
    """Rules of one TOML text. ``tables`` maps names of code tables to their CSV text.

    Raises:
        SignatureError: TOML is malformed, a key is unknown or missing, or a table is missing.
    """
    try:
        content = parsed(text) if area else tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SignatureError(f"the file is not TOML: {error}") from error
    rows = [_with_pattern(row, content) for row in content.get("signature", [])]
    return tuple(_signature(row, area, tables or {}) for row in rows)


def _with_pattern(row: _Row, content: _Row) -> _Row:
    """A rule that names an error of the system and its ``object`` (``system_errors.toml``) gets
    the pattern of both in one line, in either order; any other rule is as it is written.
    """
    if "error" not in row:
        return row
    try:
        error, thing = content["errors"][row["error"]], content["objects"][row["object"]]
    except KeyError as missing:
        name, absent = row.get("id", "a rule without id"), missing.args[0]
        raise SignatureError(f"{name}: the file states no error or object {absent!r}") from missing
    gap = ".{0,200}?"
    pattern = f"(?i)(?:{error}){gap}(?:{thing})|(?:{thing}){gap}(?:{error})"
    written = {key: row[key] for key in row.keys() - {"error", "object"}}
    return {"pattern": pattern, **written}


def _signature(row: _Row, area: str, tables: Mapping[str, str]) -> Signature:
    name, table = str(row.get("id", "a rule without id")), row.get("codes")
    if table is not None and table not in tables:
        raise SignatureError(f"{name}: there is no code table {table!r}")
    try:
        keys = [key for key in dict.fromkeys((*_NEEDED, *row)) if key != "codes"]
        fields = {_FIELDS.get(key, key): _READ.get(key, str)(row[key]) for key in keys}
        rule = Signature(**{"category": UNKNOWN, **fields, "area": area})
        return replace(rule, codes=_codes(tables[table], rule)) if table else rule
    except KeyError as error:
        raise SignatureError(f"{name}: the key {error.args[0]!r} is missing") from error
    except (TypeError, ValueError) as error:
        raise SignatureError(f"{name}: {error}") from error


def _texts(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


#: How the keys of a rule are read, other than as text; those that each rule needs, and the fields
#: of other names.
_READ: Mapping[str, Callable[[Any], Any]] = {
    **{"role": Role, "strength": Strength, "is_form": bool},
    **dict.fromkeys(("example", "counter", "yields_to", "also", "ends"), _texts),
}
_NEEDED = ("id", "title", "role", "pattern", "advice", "source", "example", "counter")
_FIELDS = {"example": "examples", "counter": "counters"}


def _codes(text: str, rule: Signature) -> dict[str, Signature]:
    """The rule of each row of a code table. ``rule`` gives what the table does not."""
    rows = csv.DictReader(io.StringIO(text))
    return {
        row["code"]: replace(
            rule,
            id=f"{rule.id}.{row['code']}",
            title=row["title"],
            role=Role(row.get("role") or rule.role),
            strength=Strength(row.get("strength") or rule.strength),
            category=row.get("category") or rule.category,
            advice=row["advice"],
            yields_to=tuple((row.get("yields_to") or "").split()) or rule.yields_to,
        )
        for row in rows
    }


@cache
def builtin() -> tuple[Signature, ...]:
    """The rules that ship with the engine, in the order in which they are tried."""
    folder = resources.files("diagnosis.kinds.logs.meaning.signatures")
    files = {entry.name: entry for entry in folder.iterdir()}
    tables = {name: entry.read_text(encoding="utf-8") for name, entry in files.items() if name.endswith(".csv")}
    texts = {area: files[f"{area}.toml"].read_text(encoding="utf-8") for area in AREAS if f"{area}.toml" in files}
    return tuple(chain.from_iterable(parse(text, area, tables) for area, text in texts.items()))


@cache
def _default() -> SignatureSet:
    return SignatureSet(builtin())


def load(extra: tuple[Signature, ...] = ()) -> SignatureSet:
    """The rule set: the users' own rules (``extra``) first, then the built-in ones."""
    return SignatureSet((*extra, *builtin())) if extra else _default()


def load_with(texts: Iterable[str]) -> SignatureSet:
    """The rule set with the users' own rules given as TOML texts. Of the same texts it is the same
    one, which remembers what it found out about lines.
    """
    return _of_texts(tuple(texts))


@lru_cache(maxsize=2)
def _of_texts(texts: tuple[str, ...]) -> SignatureSet:
    return load(tuple(chain.from_iterable(parse(text, area="custom") for text in texts)))

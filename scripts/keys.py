"""Writes docs/keys.md from the key table of static/js/keys.js, which the `?` sheet shows: `python -m scripts.keys`."""

from __future__ import annotations

import re

from triage.places import ROOT

SOURCE = ROOT / "static" / "js" / "keys.js"
DOCUMENT = ROOT / "docs" / "keys.md"
_ENTRY = re.compile(r'\{\s*key: "(?P<key>[^"]+)",\s+group: "(?P<group>[^"]+)",\s+help: "(?P<help>[^"]+)"')


def registrations() -> list[tuple[str, str, str]]:
    """(group, key, what it does) in the order of the source.

    Raises:
        ValueError: an entry of the table has another format.
    """
    source = SOURCE.read_text()
    found = [(entry["group"], entry["key"], entry["help"]) for entry in _ENTRY.finditer(source)]
    if len(found) != len(re.findall(r"^\s*\{\s*key:", source, re.M)):
        raise ValueError(f"{SOURCE.name} has a key that is not written as {{ key: …, group: …, help: …")
    return found


def document() -> str:
    lines = ["# Keys", "", "`?` shows this on every page. Made from `static/js/keys.js` by `python -m scripts.keys`."]
    last = ""
    for group, key, text in registrations():
        if group != last:
            lines += ["", f"## {group}", "", "| key | does |", "|---|---|"]
            last = group
        lines.append(f"| `{key}` | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())

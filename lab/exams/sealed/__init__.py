"""Worlds that nobody who changes the engine has read; README.md says how they are kept and what opens them."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

_RECORD = Path(__file__).parent / "opened.toml"


def opened() -> dict[str, date]:
    """Sets that somebody has looked into, and since when."""
    found: dict[str, date] = tomllib.loads(_RECORD.read_text(encoding="utf-8")) if _RECORD.exists() else {}
    return found


def record(name: str, day: date) -> None:
    """Notes that a set is open from ``day`` on; an earlier note stands."""
    if name not in opened():
        with _RECORD.open("a", encoding="utf-8") as out:
            out.write(f"{name} = {day.isoformat()}\n")

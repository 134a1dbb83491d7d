"""One job of an exam: what was uploaded, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Job:
    """``family``: the healthy jobs with the same word are its history. ``files``: path to bytes. ``truth``: the keys
    that the scorer reads (``exams/sealed/README.md``)."""

    name: str
    family: str
    files: dict[str, bytes]
    truth: dict[str, Any] = field(default_factory=dict)

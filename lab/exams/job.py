"""One job of an exam: its uploaded files and its truth."""

from __future__ import annotations

from typing import Any, NamedTuple


class Job(NamedTuple):
    """``family``: the healthy jobs with the same word are its history. ``files``: path to bytes. ``truth``: the keys
    that the scorer reads (``lab/exams/sealed/README.md``)."""

    name: str
    family: str
    files: dict[str, bytes]
    truth: dict[str, Any]

"""The text of a page, independent of the line breaks of its template."""

from __future__ import annotations

from typing import Any


def page_text(response: Any) -> str:
    """The text of an answer; in a page each run of white space becomes one space, as a browser shows it."""
    text: str = response.content.decode()
    return " ".join(text.split()) if response.headers.get("Content-Type", "").startswith("text/html") else text

"""What a page says, whatever lines its template is broken into."""

from __future__ import annotations

from typing import Any


def page_text(response: Any) -> str:
    """The text of an answer; of a page with each run of white space as the one space that a browser shows."""
    text: str = response.content.decode()
    return " ".join(text.split()) if response.headers.get("Content-Type", "").startswith("text/html") else text

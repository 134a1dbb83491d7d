"""What a page says, independent of the line breaks of its template, and how many queries it takes."""

from __future__ import annotations

import html
import re
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

#: for a page of a person who has signed in
MAX_QUERIES = 8
#: with the categories that people find most often here, which are counted once an hour
INCIDENT_QUERIES = 9


def page_text(response: Any) -> str:
    """The text of an answer; in a page each run of white space becomes one space, as a browser shows it.

    Its stated length is checked: bytes beyond it would be read as the beginning of the next answer.
    """
    text: str = response.content.decode()
    assert int(response.headers.get("Content-Length", len(response.content))) == len(response.content)
    return " ".join(text.split()) if response.headers.get("Content-Type", "").startswith("text/html") else text


def words_of(page: str) -> str:
    """What a reader of the page sees, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def budget(client: Any, url: str, limit: int = MAX_QUERIES) -> str:
    """The text of a page that takes at most that many queries; else AssertionError lists them."""
    with CaptureQueriesContext(connection) as queries:
        response = client.get(url)
    assert response.status_code == 200, response.content[:400]
    told = "\n".join(query["sql"][:160] for query in queries)
    assert len(queries) <= limit, f"{url} took {len(queries)} queries:\n{told}"
    return page_text(response)

"""Every address of the site is documented: pages in docs/pages.md, the API in docs/openapi.yaml."""

import re
from collections.abc import Iterator
from pathlib import Path

from django.urls import URLPattern, URLResolver, get_resolver

ROOT = Path(__file__).resolve().parent.parent.parent
#: others' pages and protocols, documented by them
FOREIGN = ("/admin/", "/static/", "/v1/logs", "/loki/")


def addresses(resolver: URLResolver | None = None, before: str = "/") -> Iterator[str]:
    """Every route, with its parameters by name alone: /incidents/<number>/"""
    for entry in (resolver or get_resolver()).url_patterns:
        route = before + str(entry.pattern).lstrip("^").rstrip("$")
        if isinstance(entry, URLResolver):
            yield from addresses(entry, route)
        elif isinstance(entry, URLPattern):
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", route)


def ours() -> set[str]:
    return {address for address in addresses() if not address.startswith(FOREIGN)}


def documented_pages() -> set[str]:
    return set(re.findall(r"^\| `(/[^`]*)` \|", (ROOT / "docs" / "pages.md").read_text(), re.M))


def test_every_page_is_documented() -> None:
    pages = {address for address in ours() if not address.startswith("/api/v1/")}
    assert {"/", "/incidents/", "/upload/"} <= pages, "the search itself broke"
    assert sorted(pages - documented_pages()) == []


def test_no_page_is_documented_that_is_missing() -> None:
    assert sorted(documented_pages() - ours()) == []


def test_every_endpoint_is_in_the_schema() -> None:
    schema = (ROOT / "docs" / "openapi.yaml").read_text()
    # a parameter may be called otherwise in the schema
    described = {re.sub(r"{\w+}", "{}", address) for address in re.findall(r"^  (/\S+):$", schema, re.M)}
    endpoints = {re.sub(r"<\w+>", "{}", address) for address in ours() if address.startswith("/api/v1/")}
    assert len(endpoints) > 5
    assert sorted(endpoints - described) == []

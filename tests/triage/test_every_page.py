"""What holds for every page: no inline script or style, few bytes."""

from __future__ import annotations

import gzip

import pytest

from tests.pages import page_text

pytestmark = pytest.mark.django_db


def test_no_page_carries_inline_script_or_style(client, ada, incident):
    for url in (
        "/",
        "/incidents/",
        f"/incidents/{incident.pk}/",
        "/jobs/",
        "/jobs/llama/",
        "/jobs/llama/files/",
        "/nope",
    ):
        response = client.get(url)
        page = page_text(response)
        assert " style=" not in page, url
        assert "<style" not in page, url
        assert "<script>" not in page and " onclick" not in page, url
        policy = response["Content-Security-Policy"]
        assert "unsafe-inline" not in policy and "default-src 'self'" in policy


def test_a_page_without_charts_weighs_little(client, ada, settings):
    page = client.get("/").content
    files = (
        "css/tokens.css",
        "css/base.css",
        "css/components.css",
        "css/pages.css",
        "js/keys.js",
        "js/desk.js",
        "js/theme.js",
        "vendor/htmx.min.js",
    )
    whole = b"".join((settings.BASE_DIR / "static" / name).read_bytes() for name in files)
    assert len(gzip.compress(page)) + len(gzip.compress(whole)) < 150_000

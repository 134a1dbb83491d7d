"""Requests of the client over a connection that is kept."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from faultline.site import Site


def test_a_connection_that_the_site_closed_meanwhile_is_opened_again_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    said: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.close_connection = True  # without telling the client

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = Site(f"http://127.0.0.1:{server.server_address[1]}", "fl_x", retry_for_s=0, say=said.append)
        assert [site.get("/me/").status for _ in range(3)] == [200] * 3
        server.shutdown()
    assert said == []

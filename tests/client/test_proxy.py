"""Through a proxy: which requests go there, what they say, and who they say is asking."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from faultline.site import Site, Unreachable

ADA = "Basic " + base64.b64encode(b"ada:p@ss").decode()
type Asked = list[tuple[str, str, str | None, str | None]]


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Asked, str]]:
    """What a proxy was asked (method, target, its credentials, the site's), and its address."""
    asked: Asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kept = (self.headers.get("Proxy-Authorization"), self.headers.get("Authorization"))
            asked.append((self.command, self.path, *kept))
            self.send_response(200 if self.command == "GET" else 403)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_CONNECT = do_GET

        def log_message(self, *_: Any) -> None:
            return

    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield asked, f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(("who", "told"), [("", None), ("ada:p%40ss@", ADA)])
def test_plain_requests_name_the_whole_address_in_every_thread(
    who: str, told: str | None, proxy: tuple[Asked, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, address = proxy
    monkeypatch.setenv("http_proxy", f"http://{who}{address}")
    site = Site("http://faultline.test/lab", "fl_x", retry_for_s=0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: site.get("/me/"), range(8)))
    assert asked == [("GET", "http://faultline.test/lab/api/v1/me/", told, "Bearer fl_x")] * 8


@pytest.mark.parametrize(("who", "told"), [("", None), ("ada:p%40ss@", ADA)])
def test_a_tunnel_is_asked_for_without_the_sites_token(
    who: str, told: str | None, proxy: tuple[Asked, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, address = proxy
    monkeypatch.setenv("https_proxy", f"{who}{address}")  # an address without a scheme is usual, too
    with pytest.raises(Unreachable, match="403"):
        Site("https://faultline.test", "fl_x", retry_for_s=0).get("/me/")
    assert asked == [("CONNECT", "faultline.test:443", told, None)]


def test_a_site_that_needs_no_proxy_is_asked_itself(proxy: tuple[Asked, str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, address = proxy
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Site(f"http://{address}", "fl_x", retry_for_s=0).get("/me/")
    assert asked == [("GET", "/api/v1/me/", None, "Bearer fl_x")]

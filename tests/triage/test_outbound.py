"""Where a webhook may go: public addresses, checked once and called at what was checked. Needs no database."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from triage.destinations import Request
from triage.services import outbound


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "[::1]",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[::ffff:0:8.8.8.8]",
        "[::8.8.8.8]",
        "[5f00::1]",
        "[3fff::1]",
        "[2001:db8::1]",
        "[2001::1]",
        "[64:ff9b:1::7f00:1]",
        "[100::1]",
        "[ff0e::1]",
        "[4000::1]",
        "[e000::1]",
    ],
)
def test_what_only_this_server_can_reach_is_refused(settings, address):
    settings.ROUTES_ALLOW = []
    with pytest.raises(outbound.ForbiddenAddress, match="not a public address"):
        outbound.target_of(f"https://{address}/hook")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]", "[2002:808:808::1]", "[::ffff:8.8.8.8]"]
)
def test_a_public_address_may_be_called_also_where_it_carries_another(settings, address):
    settings.ROUTES_ALLOW = []
    assert outbound.target_of(f"https://{address}/hook").address == address.strip("[]")


def test_a_host_is_refused_if_any_of_its_addresses_is_private_and_called_at_the_checked_one(settings, monkeypatch):
    settings.ROUTES_ALLOW = []
    found = ["93.184.215.14", "10.0.0.1"]
    monkeypatch.setattr(outbound.socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (a, 443)) for a in found])
    with pytest.raises(outbound.ForbiddenAddress, match=r"10\.0\.0\.1"):
        outbound.target_of("https://chat.example/hook")
    found.pop()
    assert outbound.target_of("https://chat.example/hook").address == "93.184.215.14"


def test_the_connection_goes_to_the_checked_address_without_looking_the_host_up_again(settings, receiver, monkeypatch):
    settings.ROUTES_ALLOW = ["chat.example"]
    look_up, asked = socket.getaddrinfo, []

    def rebinding(host, *rest, **more):
        asked.append(host)
        if asked.count("chat.example") > 1:
            raise OSError("it would be another one now")
        return look_up("127.0.0.1" if host == "chat.example" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    answer = outbound.send(Request(f"http://Chat.Example:{urlsplit(receiver.url).port}/hook", b"{}"))
    assert (answer.status, answer.error) == (204, "")
    assert receiver.got[0][1]["host"] == f"chat.example:{urlsplit(receiver.url).port}"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://chat.example/",
        "https://",
        "https://me:pass@chat.example/",
        "https://:pass@chat.example/",
        "https://chat.example:0/",
        f"https://chat.example/{'x' * 2000}",
        "https://chat.example:99999/",
        "https://chat.example/a b",
        "https://chat.example/\r\nX: y",
        "javascript:alert(1)",
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_asked(url):
    with pytest.raises(outbound.ForbiddenAddress):
        outbound.parse_url(url)


def test_plain_http_goes_only_where_the_settings_allow(settings, monkeypatch):
    monkeypatch.setattr(outbound.socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("93.184.215.14", 80))])
    settings.ROUTES_ALLOW = []
    with pytest.raises(outbound.ForbiddenAddress, match="https"):
        outbound.target_of("http://chat.example/hook")
    settings.ROUTES_ALLOW = ["chat.example"]
    assert not outbound.target_of("http://chat.example/hook").is_tls


@pytest.mark.parametrize("closes", [False, True])
def test_requests_to_one_host_share_a_connection_and_survive_its_end(settings, closes):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    met, got = [], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            met.append(1)
            super().setup()

        def do_POST(self):
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.close_connection = closes  # without saying so

        def log_message(self, *_):
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    with outbound.Sender() as sender:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        answers = [sender.send(Request(url, str(n).encode())) for n in range(4)]
    server.shutdown()
    server.server_close()
    assert [(answer.status, answer.error) for answer in answers] == [(204, "")] * 4
    assert got == [b"0", b"1", b"2", b"3"]
    assert len(met) == (4 if closes else 1)


def test_a_kept_connection_serves_no_other_host(settings, receiver):
    settings.ROUTES_ALLOW = ["127.0.0.1"]
    with outbound.Sender() as sender:
        assert sender.send(Request(receiver.url, b"{}")).status == 204
        elsewhere = receiver.url.replace("127.0.0.1", "127.0.0.2")
        assert "is not a public address" in sender.send(Request(elsewhere, b"{}")).error
    assert len(receiver.got) == 1

"""`deploy/nginx.conf`, with a real nginx before a server that tells what reaches it."""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest

from tests.patience import PATIENCE_S
from triage.places import ROOT
from triage.serve.children import free_port, spawn, stop, wait_until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")

pytestmark = pytest.mark.skipif(
    not (NGINX and shutil.which("openssl")), reason="nginx or openssl is not installed (Debian: apt install nginx)"
)


class Site(ThreadingHTTPServer):
    """Answers each request with nothing; keeps its headers, and the first bytes of its body as they come."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Seen)
        self.headers: Queue[dict[str, str]] = Queue()
        self.first: Queue[bytes] = Queue()


class Seen(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        self.server.headers.put(dict(self.headers))
        self.send_response(204)
        self.end_headers()

    def do_PUT(self) -> None:
        size = int(self.rfile.readline(), 16)
        self.server.first.put(self.rfile.read(size))
        while self.rfile.readline() != b"0\r\n":
            pass
        self.rfile.readline()
        self.do_GET()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(site: Site, tmp_path: Path) -> Iterator[http.client.HTTPSConnection]:
    key, certificate, port, log = tmp_path / "tls.key", tmp_path / "tls.crt", free_port(), tmp_path / "log"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=faultline.example"]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_S)
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for theirs, here in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/faultline/tls", str(tmp_path / "tls")),
        ("127.0.0.1:8000", f"127.0.0.1:{site.server_port}"),
    ):
        assert theirs in text
        text = text.replace(theirs, here)
    paths = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    paths += f"client_body_temp_path {tmp_path}/body; access_log off;"
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; events {{}} http {{ {paths}\n{text} }}"
    )
    process = spawn([str(NGINX), "-p", str(tmp_path), "-e", "stderr", "-c", str(tmp_path / "nginx.conf")], log=log)
    try:
        wait_until(lambda: is_open(port), process, what="nginx", log=log, timeout_s=PATIENCE_S)
        context = ssl.create_default_context(cafile=str(certificate))
        context.check_hostname = False
        yield http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE_S)
    finally:
        stop(process)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_sender_chooses_neither_its_address_nor_its_scheme(proxy: http.client.HTTPSConnection, site: Site) -> None:
    """The site counts failed sign-ins by the last address of the header (`FAULTLINE_PROXIES=1`)."""
    claimed = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "http", "Host": "faultline.example"}
    proxy.request("GET", "/", headers=claimed)
    assert proxy.getresponse().status == 204
    seen = site.headers.get(timeout=PATIENCE_S)
    assert seen["X-Forwarded-For"] == "203.0.113.7, 127.0.0.1"
    assert (seen["X-Forwarded-Proto"], seen["Host"]) == ("https", "faultline.example")


def test_a_body_of_unknown_length_is_not_stored_before_it_is_sent_on(
    proxy: http.client.HTTPSConnection, site: Site
) -> None:
    def body() -> Iterator[bytes]:
        yield b"first"
        assert site.first.get(timeout=PATIENCE_S) == b"first"  # before the end is sent
        yield b"last"

    proxy.request("PUT", "/", body=body(), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert proxy.getresponse().status == 204

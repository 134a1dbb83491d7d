"""A real HTTP server that receives webhooks and answers as a test wants."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    url: str
    #: answers in order: (status, headers, body); the last one repeats
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=lambda: [(204, {}, b"")])
    #: received requests: (path, headers, body)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    #: seconds between the bytes of an answer
    drip_s: float = 0
    #: number of bytes that dripped out
    dripped: int = 0

    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.got]


def verify(secret: str, headers: dict[str, str], body: bytes, *, tolerance_s: float = 300) -> bool:
    """What docs/webhooks.md tells a receiver to do."""
    if abs(time.time() - int(headers["webhook-timestamp"])) > tolerance_s:
        return False
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return any(hmac.compare_digest(wanted, given) for given in headers["webhook-signature"].split())


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            status, headers, said = receiver.answers[0]
            if len(receiver.answers) > 1:
                receiver.answers.pop(0)
            if receiver.drip_s:
                self._drip()
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def _drip(self) -> None:
            try:
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
                    self.wfile.write(bytes([byte]))
                    receiver.dripped += 1
                    time.sleep(receiver.drip_s)
            except OSError:
                return

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield receiver
    server.shutdown()
    server.server_close()

"""The HTTP side of ``faultline attribution``: ``/logs`` and ``/healthz`` for programs of this machine."""

from __future__ import annotations

import argparse
import ipaddress
import json
import signal
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from faultline.attribution import Attribution, Refusal
from faultline.site import Site
from faultline.words import DONE, UsageError, Words

_MAX_BODY_BYTES = 64 << 10
_TIMEOUT_S = 10.0
#: maximum wait for the site at the end
_END_S = 60.0
_PARAMETERS = {"log_path", "file", "wl_restart", "wait"}


def serve(args: argparse.Namespace, site: Site, say: Words) -> int:
    """Answer until SIGTERM or SIGINT."""
    if args.deadline <= 0 or args.settle < 0:
        raise UsageError("--deadline is more than 0 seconds, --settle is not negative.")
    missing = [path for path in args.paths if not Path(path).is_dir()]
    if missing:
        raise UsageError(f"There is no directory {missing[0]}.")
    service = Attribution(
        site,
        [Path(path) for path in args.paths],
        prefix=args.prefix,
        cluster=args.cluster or "",
        deadline_s=args.deadline,
        settle_s=args.settle,
        note=say.note,
    )
    server = server_of(args.listen, service)
    say.note(f"restart controllers are answered at {args.listen}")

    def stop(number: int, frame: Any) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        server.server_close()
        service.stop(min(_END_S, args.retry_for))
    return say.end(DONE)


class Server(ThreadingHTTPServer):
    """On a loopback address or a Unix socket: it knows no tokens."""

    daemon_threads = True
    service: Attribution


class _UnixServer(Server):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the base class looks for a host's name
        Path(str(self.server_address)).chmod(0o600)
        self.server_name, self.server_port = "localhost", 0


def server_of(listen: str, service: Attribution) -> Server:
    """A bound server. Raises :class:`UsageError` for an address that other machines reach."""
    if listen.startswith("unix://"):
        path = Path(listen[len("unix://") :])
        if path.is_socket():
            path.unlink()  # a former process left it
        server: Server = _UnixServer(str(path), _Handler)  # type: ignore[arg-type]
    else:
        host, _, port = listen.rpartition(":")
        try:
            is_local = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            is_local = False
        if not is_local or not port.isdecimal() or int(port) > 65535:
            raise UsageError("--listen is a loopback address with a port, such as 127.0.0.1:8000, or unix:///path.")
        server = Server((host, int(port)), _Handler)
    server.service = service
    return server


class _Handler(BaseHTTPRequestHandler):
    timeout = _TIMEOUT_S
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/healthz":
            return self._send(200, {"status": "ok"})
        if parts.path != "/logs":
            return self._refuse(Refusal(404, "not_found", "there are /logs and /healthz"))
        args = parse_qs(parts.query)
        try:
            if set(args) - _PARAMETERS or {"file", "wl_restart"} & set(args):
                raise Refusal(400, "invalid_parameter", "log_path and wait are known here")
            is_waiting = args.get("wait", ["true"])[0].lower() not in ("false", "0", "no", "off")
            self._send(200, self.server.service.answer(args.get("log_path", [None])[0], is_waiting=is_waiting))
        except Refusal as refusal:
            self._refuse(refusal)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        is_json = self.headers.get_content_type() == "application/json"  # a page in a browser cannot send this
        try:
            if urlsplit(self.path).path != "/logs":
                raise Refusal(404, "not_found", "there is /logs")
            if not is_json or not length.isdecimal() or int(length) > _MAX_BODY_BYTES:
                raise Refusal(400, "invalid_parameter", f"send at most {_MAX_BODY_BYTES:,} bytes of JSON")
            try:
                given = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError):
                raise Refusal(400, "invalid_parameter", "the body is not JSON") from None
            self._send(200, self.server.service.submit(given))
        except Refusal as refusal:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.status, {"error_code": refusal.code, "message": str(refusal), "details": None})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return

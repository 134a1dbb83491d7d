"""Requests to a Faultline site: retries if that can help, else a sentence."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import ssl
import threading
import time
from typing import Any, BinaryIO, Callable, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from faultline import __version__

TIMEOUT_S = 60.0
BLOCK_BYTES = 256 << 10
_MAX_WAIT_S = 60.0
#: a pause ends so soon after :meth:`Site.hurry`, and is that long from then on
_SLICE_S = 0.5
#: statuses after which the same request may succeed later
_RETRY_STATUSES = {408, 423, 425, 429, 500, 502, 503, 504, 507}


class Unreachable(Exception):
    """The site gave no useful answer within the caller's time."""


class Denied(Exception):
    """The site does not accept the token, or its owner lacks the permission."""


class Problem(Exception):
    """The site refused the request; ``detail`` is its sentence, ``job`` the id of the job that is in the way."""

    def __init__(self, status: int, detail: str, kind: str, job: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.job = job


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    data: Any


class Piece(NamedTuple):
    """``length`` bytes of an open file from ``offset`` on, read again for each try."""

    file: BinaryIO
    offset: int
    length: int


class Site:
    """One site, one token. Each thread has its own connection."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str | None = None,
        retry_for_s: float = 900.0,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is not the address of a site: use one such as https://faultline.example")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._parts = parts
        self._base = parts.path.rstrip("/")
        self._token = token
        self._tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._retry_for_s = retry_for_s
        self._say = say
        self._proxy = _proxy_of(parts)
        self._to_proxy = _credentials_of(self._proxy)
        self._local = threading.local()
        self._is_hurried = False

    def get(self, path: str, **query: Any) -> Reply:
        return self.ask("GET", path + (f"?{urlencode(query)}" if query else ""))

    def send(self, method: str, path: str, data: Any, headers: dict[str, str] | None = None) -> Reply:
        body = json.dumps(data).encode()
        return self.ask(method, path, body, {"Content-Type": "application/json", **(headers or {})})

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """The answer, retried with growing waits while the site is unreachable or busy.

        ``body`` is bytes or a :class:`Piece`. Raises :class:`Problem` for a refusal, :class:`Denied` for 401 and 403,
        :class:`Unreachable` after ``retry_for_s``.
        """
        end = time.monotonic() + self._retry_for_s
        tries = 0
        while True:
            asked_s: float | None = None
            is_kept = getattr(self._local, "connection", None) is not None
            try:
                reply = self._once(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise Unreachable(
                        f"The certificate of {self.url} cannot be trusted: {error.verify_message}."
                    ) from None
                if is_kept and isinstance(error, (http.client.RemoteDisconnected, ConnectionError)):
                    continue  # the site closes connections that were not used for some seconds: no news for anybody
                why = f"{self.url} cannot be reached ({error or type(error).__name__})"
            else:
                if reply.status < 400:
                    return reply
                if reply.status not in _RETRY_STATUSES:
                    raise _refusal(reply)
                why = f"{self.url} says {reply.status}: {_detail(reply)}"
                after = reply.headers.get("retry-after", "")
                asked_s = float(after) if after.isdecimal() else None
            tries += 1
            wait_s = min(_MAX_WAIT_S, 2.0 ** min(tries - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
            if asked_s is not None:
                wait_s = max(asked_s, 0.1) + random.uniform(0.0, 1.0)  # noqa: S311  # not all nodes at the same time
            if time.monotonic() + wait_s > end:
                raise Unreachable(why)
            self._say(f"{why}; trying again in {wait_s:.0f} s")
            self._pause(wait_s)

    def hurry(self) -> None:
        """End the pause between two tries, and make further ones short: this process is about to be ended."""
        self._is_hurried = True

    def _pause(self, wait_s: float) -> None:
        while wait_s > 0:
            time.sleep(min(wait_s, _SLICE_S))
            wait_s = 0.0 if self._is_hurried else wait_s - _SLICE_S

    def _once(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        connection = self._connection()
        length = body.length if isinstance(body, Piece) else len(body) if body is not None else None
        try:
            connection.putrequest(method, self._target(path), skip_accept_encoding=True)
            connection.putheader("Authorization", f"Bearer {self._token}")
            connection.putheader("User-Agent", f"faultline-client/{__version__}")
            connection.putheader("Accept", "application/json")
            if self._tls is None:
                headers = {**headers, **self._to_proxy}
            if length is not None or method in ("POST", "PUT", "PATCH"):
                connection.putheader("Content-Length", str(length or 0))
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            try:
                if isinstance(body, Piece):
                    _send_piece(connection, body)
                elif body:
                    connection.send(body)
            except (BrokenPipeError, ConnectionResetError):
                reply = self._answer(connection)  # refused before it was read completely: the answer has the reason
                self._drop()
                return reply
            return self._answer(connection)
        except BaseException:
            self._drop()
            raise

    def _answer(self, connection: http.client.HTTPConnection) -> Reply:
        response = connection.getresponse()
        raw = response.read(16 << 20)
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self._drop()
        is_json = "json" in headers.get("content-type", "")
        try:
            data = json.loads(raw) if is_json and raw else None
        except ValueError:
            data = None
        return Reply(response.status, headers, data)

    def _connection(self) -> http.client.HTTPConnection:
        held: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if held is None:
            held = self._local.connection = self._connect()
        return held

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        where: tuple[str, int | None] = (host, port)
        if self._proxy:
            where = (self._proxy.hostname or "", self._proxy.port or 8080)
        if self._tls is not None:
            secure = http.client.HTTPSConnection(*where, timeout=TIMEOUT_S, context=self._tls)
            if self._proxy:
                secure.set_tunnel(host, port or 443, headers=self._to_proxy)
            return secure
        return http.client.HTTPConnection(*where, timeout=TIMEOUT_S)

    def _target(self, path: str) -> str:
        local = f"{self._base}/api/v1{path}" if not path.startswith("/api/") else f"{self._base}{path}"
        if self._tls is None and self._proxy:
            return f"{self._parts.scheme}://{self._parts.netloc}{local}"
        return local

    def _drop(self) -> None:
        held = getattr(self._local, "connection", None)
        self._local.connection = None
        if held is not None:
            held.close()


def _proxy_of(site: SplitResult) -> SplitResult | None:
    """The proxy of the environment for this site; None for a direct connection."""
    named = None if proxy_bypass(site.hostname or "") else getproxies().get(site.scheme)
    return urlsplit(named if "://" in named else f"http://{named}") if named else None


def _credentials_of(proxy: SplitResult | None) -> dict[str, str]:
    """The proxy's authorization header, if its address has a user."""
    if proxy is None or proxy.username is None:
        return {}
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(said).decode()}"}


def _send_piece(connection: http.client.HTTPConnection, piece: Piece) -> None:
    position, left = piece.offset, piece.length
    while left:
        block = os.pread(piece.file.fileno(), min(BLOCK_BYTES, left), position)
        if not block:
            raise Problem(0, "it became shorter while it was sent", "changed")
        connection.send(block)
        position += len(block)
        left -= len(block)


def _detail(reply: Reply) -> str:
    data = reply.data if isinstance(reply.data, dict) else {}
    said = str(data.get("detail") or f"the site answered {reply.status}")
    errors = data.get("errors")
    if isinstance(errors, list) and data.get("type", "").endswith(":invalid"):
        told = [f"{row.get('field')}: {row.get('detail')}" for row in errors if isinstance(row, dict)]
        said = "; ".join(told) or said
    return said


def _refusal(reply: Reply) -> Exception:
    data = reply.data if isinstance(reply.data, dict) else {}
    if reply.status in (401, 403):
        return Denied(_detail(reply))
    kind = str(data.get("type", "")).rpartition(":")[2]
    return Problem(reply.status, _detail(reply), kind, str(data.get("job") or ""))

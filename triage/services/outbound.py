"""Sends requests to an address that a user typed, and refuses addresses that only this server can reach.

The host is resolved once a connection, every address is checked, and the connection goes to a checked address: a DNS
answer that changes in between (DNS rebinding) has no effect. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from functools import cache
from smtplib import SMTPException
from typing import NamedTuple, Self
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.mail import EmailMessage

from diagnosis.values import numbers
from diagnosis.values.plain import text as storable
from triage.destinations import Mail, Request

TIMEOUT_S = 10.0
#: maximum bytes read of an answer
MAX_ANSWER_BYTES = 64 << 10

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: all that IANA assigned as global unicast; addresses outside are translated, tunnelled, local or reserved
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
#: documentation, which Python before 3.13 treats as global
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")
#: IPv6 networks that contain an IPv4 address, which is checked instead: prefix, and the number of bits right of it
_EMBEDDING_IPV4 = (
    (ipaddress.ip_network("::ffff:0:0/96"), 0),
    (ipaddress.ip_network("64:ff9b::/96"), 0),
    (ipaddress.ip_network("2002::/16"), 80),
)


class ForbiddenAddress(Exception):
    """A forbidden address; the message says why and what would be allowed."""


class UnknownHost(ForbiddenAddress):
    """Nobody whom this server asks knows the host now; that may change."""


class Answer(NamedTuple):
    """``status`` 0: no answer, ``error`` says why in a sentence."""

    status: int
    text: str
    error: str
    duration_ms: int
    retry_after_s: int | None = None


class Target(NamedTuple):
    host: str
    port: int
    path: str
    is_tls: bool
    address: str


def parse_url(url: str) -> tuple[str, int, str, bool]:
    """Host, port, path and TLS of a well-formed URL, without network access.

    Raises:
        Forbidden: another scheme, credentials, no host, or plain http to a host that the settings do not allow.
    """
    if len(url) > 2000 or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise ForbiddenAddress("The address has spaces or control characters, or more than 2,000 characters.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host = host if ":" in host else host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError) as error:
        raise ForbiddenAddress("The address cannot be read: write it as https://host/path.") from error
    if parts.scheme not in ("https", "http") or not host:
        raise ForbiddenAddress("The address must begin with https:// and name a host.")
    if "@" in parts.netloc:
        raise ForbiddenAddress(
            "The address holds a user name or password: leave them out, messages are signed instead."
        )
    if port == 0:
        raise ForbiddenAddress("There is no port 0.")
    is_tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return host, port or (443 if is_tls else 80), quote(path, safe="%/:=&?~+!$,;'@()*[]"), is_tls


def target_of(url: str) -> Target:
    """The destination of a request for ``url``. Resolves the host once.

    Raises:
        Forbidden: see :func:`parse_url`; the host is unknown, or one of its addresses is not public and not allowed.
    """
    host, port, path, is_tls = parse_url(url)
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownHost(f"The host {host} is not known here.") from error
    addresses = list(dict.fromkeys(str(row[4][0]).partition("%")[0] for row in answers))
    for address in addresses:
        if not _is_allowed(host, ipaddress.ip_address(address), is_tls=is_tls):
            why = (
                "is not a public address" if is_tls or not _is_public(ipaddress.ip_address(address)) else "needs https"
            )
            raise ForbiddenAddress(
                f"{host} ({address}) {why}: use a public https address. Or ask the operator of this site to "
                "add the host or its network to FAULTLINE_ROUTES_ALLOW."
            )
    return Target(host, port, path, is_tls, addresses[0])


class Sender:
    """Sends requests one after another and keeps the connection between them, as long as they go to one host.

    Use it for a second, not for longer: a kept connection goes to the address that was checked when it was made.
    """

    def __init__(self, *, limit_s: float | None = None) -> None:
        self._connection: _PinnedConnection | None = None
        #: for each request in total
        self._limit_s = TIMEOUT_S if limit_s is None else limit_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keep(None)

    def send(self, item: Request | Mail) -> Answer:
        """Send one request, or hand one e-mail to the site's mail server. Never raises; uses no database."""
        return _send_mail(item) if isinstance(item, Mail) else self._request(item)

    def _request(self, request: Request) -> Answer:
        """Send and read the answer: within the limit in total, at most ``MAX_ANSWER_BYTES``."""
        began = time.monotonic()
        try:
            host, port, path, is_tls = parse_url(request.url)
            connection = self._connection
            if connection is not None and connection.endpoint == (host, port, is_tls):
                try:
                    return self._exchange(connection, request, path, began)
                except _ConnectionClosed:  # the receiver ended the kept connection before it read the request
                    pass
            self._keep(None)
            connection = _PinnedConnection(target_of(request.url), self._limit_s)
        except ForbiddenAddress as error:
            return Answer(0, "", str(error), _ms(began))
        return self._exchange(connection, request, path, began)

    def _exchange(self, connection: _PinnedConnection, request: Request, path: str, began: float) -> Answer:
        is_kept, is_reusable = connection is self._connection, False
        watchdog = threading.Timer(self._limit_s, connection.cut)
        watchdog.daemon = True
        watchdog.start()
        try:
            headers = {"User-Agent": "Faultline", **request.headers}
            connection.request(request.method, path, body=request.body or None, headers=headers)
            response = connection.getresponse()
            text = storable(response.read(MAX_ANSWER_BYTES).decode("utf-8", "replace"))
            seconds = numbers.whole(response.headers.get("Retry-After", ""), digits=6)
            is_reusable = response.isclosed() and not response.will_close
            return Answer(response.status, text, "", _ms(began), seconds)
        except (OSError, http.client.HTTPException) as error:
            if connection.is_cut or isinstance(error, TimeoutError):
                return Answer(0, "", f"No answer within {self._limit_s:.0f} s.", _ms(began))
            if is_kept and isinstance(error, (http.client.RemoteDisconnected, ConnectionError)):
                raise _ConnectionClosed from error
            return Answer(0, "", _error_sentence(error, connection.target), _ms(began))
        finally:
            watchdog.cancel()
            self._keep(connection if is_reusable and not connection.is_cut else None)
            if self._connection is not connection:
                connection.close()

    def _keep(self, connection: _PinnedConnection | None) -> None:
        if self._connection is not None and self._connection is not connection:
            self._connection.close()
        self._connection = connection


class _ConnectionClosed(Exception):
    """A kept connection was ended before the answer began."""


def send(item: Request | Mail) -> Answer:
    """Send one request on a separate connection. Never raises; uses no database."""
    with Sender() as sender:
        return sender.send(item)


def _ms(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


@cache
def _trusted_authorities() -> ssl.SSLContext:
    """The system's authorities, read once: reading them costs more than all else of a message."""
    return ssl.create_default_context()


def _send_mail(mail: Mail) -> Answer:
    """An e-mail; status 250 if the server took it. Mails of one thread answer its id."""
    began = time.monotonic()
    thread = {"In-Reply-To": mail.thread, "References": mail.thread} if mail.thread else {}
    headers = {"Message-ID": mail.id, "Auto-Submitted": "auto-generated", **thread}
    try:
        EmailMessage(mail.subject, mail.text, to=list(mail.to), headers=headers).send()
    except (OSError, SMTPException, ValueError) as error:
        reason = storable(str(error))[:200]
        return Answer(0, "", f"The mail server did not take it: {reason}", _ms(began))
    return Answer(250, "", "", _ms(began))


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to the checked address; TLS verifies the name of the host."""

    def __init__(self, target: Target, limit_s: float) -> None:
        default = 443 if target.is_tls else 80
        super().__init__(target.host, target.port, timeout=limit_s)
        self.default_port = default  # so that the Host header has a port only if needed
        self.target = target
        self.endpoint = (target.host, target.port, target.is_tls)
        self.is_cut = False

    def connect(self) -> None:
        sock = socket.create_connection((self.target.address, self.target.port), timeout=self.timeout)
        if self.target.is_tls:
            sock = _trusted_authorities().wrap_socket(sock, server_hostname=self.target.host)
        self.sock = sock

    def cut(self) -> None:
        """End a request whose answer is very slow: each single read may be in time."""
        self.is_cut = True
        sock = self.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                sock.close()


def _is_public(address: Address) -> bool:
    """Whether the address is of the public internet; unknown ranges are not."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    for network, shift in _EMBEDDING_IPV4:
        if address in network:
            return _is_public(ipaddress.IPv4Address((int(address) >> shift) & 0xFFFFFFFF))
    return address in _GLOBAL_UNICAST and address.is_global and address not in _DOCUMENTATION


def _is_allowed(host: str, address: Address, *, is_tls: bool) -> bool:
    for entry in settings.ROUTES_ALLOW:
        if entry.lower() == host:  # urlsplit made it lower case
            return True
        try:
            if address in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return is_tls and _is_public(address)


def _error_sentence(error: Exception, target: Target) -> str:
    where = f"{target.host}:{target.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate of {where} is not valid for it: {error.verify_message.rstrip('.')}."
    if isinstance(error, ConnectionRefusedError):
        return f"{where} refused the connection."
    if isinstance(error, http.client.HTTPException):
        return f"{where} did not answer in HTTP ({type(error).__name__})."
    return f"The connection to {where} failed: {getattr(error, 'strerror', None) or error}."

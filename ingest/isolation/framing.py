"""Messages over a stream socket: eight bytes of length, then JSON to the worker, a pickle to the reader.

The worker never unpickles what a reader sends, because a reader handles hostile bytes.
"""

from __future__ import annotations

import json
import pickle
import socket
import struct
from typing import Any, Final

#: the fork server's answers: a process id, or how a process ended
STATUS: Final = struct.Struct(">q")
#: in place of how a process ended: it had to be ended
DID_NOT_END: Final = -1
_LENGTH: Final = struct.Struct(">Q")
#: a report is the largest message; a larger size is not from our code
MAX_BYTES: Final = 4 << 30


def send_json(to: socket.socket, message: Any) -> None:
    _send(to, json.dumps(message, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def send_pickle(to: socket.socket, message: Any) -> None:
    _send(to, pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def receive_json(source: socket.socket) -> Any:
    """Raises ``EOFError`` at the end, ``ValueError`` for an invalid message."""
    return json.loads(_receive(source).decode("utf-8", "surrogatepass"))


def receive_pickle(source: socket.socket) -> Any:
    """Only for the reader, which trusts its worker."""
    return pickle.loads(_receive(source))  # noqa: S301  # the worker wrote it


def _send(to: socket.socket, data: bytes) -> None:
    to.sendall(_LENGTH.pack(len(data)) + data if len(data) < 1 << 16 else _LENGTH.pack(len(data)))
    if len(data) >= 1 << 16:
        to.sendall(data)


def _receive(source: socket.socket) -> bytes:
    size = _LENGTH.unpack(_read_exactly(source, _LENGTH.size))[0]
    if size > MAX_BYTES:
        raise ValueError("a message of invalid size")
    return _read_exactly(source, size)


def _read_exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = source.recv(min(size - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)

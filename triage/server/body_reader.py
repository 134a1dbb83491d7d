"""Reads request bodies without a thread, and stops those that are too slow."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

type Receive = Callable[[], Awaitable[Any]]


class TooSlow(Exception):
    """The body arrives more slowly than allowed, or takes longer than the limit."""


class ConnectionLost(Exception):
    """The connection ended before the body did."""


@dataclass(slots=True)
class Pace:
    """The required speed of a body: ``bytes_per_s`` in each window of ``window_s``, complete within ``limit_s``."""

    bytes_per_s: int
    limit_s: float
    window_s: float = 30.0
    clock: Callable[[], float] = time.monotonic
    started_at: float = field(init=False)
    _window: float = field(init=False)
    _received: int = field(init=False, default=0)
    #: the pending receive. It is not cancelled before the answer is sent: the connection might never end
    pending: asyncio.Future[Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.started_at = self._window = self.clock()

    def wait_s(self) -> float:
        """Seconds until the next check."""
        now = self.clock()
        return max(0.0, min(self._window + self.window_s, self.started_at + self.limit_s) - now)

    def check(self, received: int = 0) -> None:
        """Count received bytes. Raises :class:`TooSlow`."""
        self._received += received
        now = self.clock()
        if now - self.started_at >= self.limit_s:
            raise TooSlow
        if now - self._window >= self.window_s:
            if self._received < self.bytes_per_s * self.window_s:
                raise TooSlow
            self._window, self._received = now, 0

    def pause(self, seconds: float) -> None:
        """Do not count this time: the server did not read, the sender is not at fault."""
        self._window += seconds
        self.started_at += seconds


class SmallBodies:
    """The small bodies that are being read. Anybody may send one, so their number is limited to ``room``. One more
    stops the oldest: an honest body takes a moment, so the oldest are slow on purpose.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._tasks: OrderedDict[int, asyncio.Future[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tasks)

    async def read(self, receive: Receive, pace: Pace, limit_bytes: int) -> bytes:
        """The whole body, of at most ``limit_bytes``. Raises :class:`TooSlow`, :class:`ConnectionLost`."""
        task = asyncio.ensure_future(_read(receive, pace, limit_bytes))
        if len(self._tasks) >= self._room:
            self._tasks.popitem(last=False)[1].cancel()
        self._tasks[id(task)] = task
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():  # the server shuts down
                raise
            raise TooSlow from None
        finally:
            self._tasks.pop(id(task), None)


async def _read(receive: Receive, pace: Pace, limit_bytes: int) -> bytes:
    body = bytearray()
    async for block, _ in blocks(receive, pace, limit_bytes + 1, pace.limit_s):
        body += block
        if len(body) > limit_bytes:  # our server enforces the announced length; this is for other servers
            raise ConnectionLost
    return bytes(body)


async def blocks(receive: Receive, pace: Pace, size: int, within_s: float) -> AsyncIterator[tuple[bytes, bool]]:
    """The blocks of a body, each with whether it is the last: ``size`` bytes or a little more, or what arrived within
    ``within_s``. Raises :class:`TooSlow`, :class:`ConnectionLost`, both after a block with all that arrived.

    The server's messages are much smaller: one task gathers a block, and one timer watches it.
    """
    arrived = bytearray()
    while True:
        if pace.pending is None:
            pace.pending = asyncio.ensure_future(_gather(receive, arrived, size))
        await asyncio.wait({pace.pending}, timeout=min(pace.wait_s(), within_s))
        problem: Exception | None = None
        is_last = False
        try:
            if pace.pending.done():
                done, pace.pending = pace.pending, None
                is_last = done.result()
            pace.check(len(arrived))
        except (TooSlow, ConnectionLost) as error:
            problem = error
        block = bytes(arrived)
        arrived.clear()
        if block or is_last:
            at = pace.clock()
            yield block, is_last
            pace.pause(pace.clock() - at)
        if problem is not None:
            raise problem
        if is_last:
            return


async def _gather(receive: Receive, arrived: bytearray, size: int) -> bool:
    """Append what arrives until it has ``size`` bytes, or the body ends (True). Raises :class:`ConnectionLost`."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionLost
        arrived += message.get("body", b"")
        if not message.get("more_body"):
            return True
        if len(arrived) >= size:
            return False

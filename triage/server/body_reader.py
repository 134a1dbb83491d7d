"""Reads request bodies without a thread, and ends those that come too slowly."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

type Receive = Callable[[], Awaitable[Any]]


class TooSlow(Exception):
    """The body came more slowly than allowed, or takes longer than any may."""


class BrokenOff(Exception):
    """The connection ended before the body did."""


@dataclass(slots=True)
class Pace:
    """How fast a body must come: ``bytes_per_s`` in each window of ``window_s``, and whole within ``limit_s``."""

    bytes_per_s: int
    limit_s: float
    window_s: float = 30.0
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    _window: float = field(init=False)
    _came: int = field(init=False, default=0)
    #: what is being waited for. Not cancelled before the answer has left: the connection might stay open for ever
    pending: asyncio.Future[Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.begun = self._window = self.clock()

    def wait_s(self) -> float:
        """Seconds until there is something to check."""
        now = self.clock()
        return max(0.0, min(self._window + self.window_s, self.begun + self.limit_s) - now)

    def check(self, came: int = 0) -> None:
        """Count bytes that came. Raises :class:`TooSlow`."""
        self._came += came
        now = self.clock()
        if now - self.begun >= self.limit_s:
            raise TooSlow
        if now - self._window >= self.window_s:
            if self._came < self.bytes_per_s * self.window_s:
                raise TooSlow
            self._window, self._came = now, 0

    def pause(self, seconds: float) -> None:
        """So long nobody asked for bytes: that is not the sender's time."""
        self._window += seconds
        self.begun += seconds


class Waiting:
    """The small bodies that are being read. Anybody may send one, so there is room for ``room`` of them, and one more
    ends the oldest: an honest one takes a moment, so that the oldest are those that are slow on purpose."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._held: OrderedDict[int, asyncio.Future[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    async def read(self, receive: Receive, pace: Pace, limit_bytes: int) -> bytes:
        """The whole body, of at most ``limit_bytes``. Raises :class:`TooSlow`, :class:`BrokenOff`."""
        task = asyncio.ensure_future(_read(receive, pace, limit_bytes))
        if len(self._held) >= self._room:
            self._held.popitem(last=False)[1].cancel()
        self._held[id(task)] = task
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():  # the server ends
                raise
            raise TooSlow from None
        finally:
            self._held.pop(id(task), None)


async def _read(receive: Receive, pace: Pace, limit_bytes: int) -> bytes:
    held = bytearray()
    async for block in blocks(receive, pace):
        held += block
        if len(held) > limit_bytes:  # the server holds the body to its announced length; this is for other servers
            raise BrokenOff
    return bytes(held)


async def blocks(receive: Receive, pace: Pace) -> AsyncIterator[bytes]:
    """The body as it comes. Raises :class:`TooSlow`, :class:`BrokenOff`."""
    while True:
        pending = asyncio.ensure_future(receive())
        pace.pending = pending
        while not pending.done():
            await asyncio.wait({pending}, timeout=pace.wait_s())
            if not pending.done():
                pace.check()
        message = pending.result()
        if message["type"] != "http.request":
            raise BrokenOff
        block = message.get("body", b"")
        pace.check(len(block))
        if block:
            at = pace.clock()
            yield block
            pace.pause(pace.clock() - at)
        if not message.get("more_body"):
            return

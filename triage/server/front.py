"""The ASGI application of the whole site.

The event loop receives bytes, so a slow sender occupies only a connection. Django runs in a few threads and gets only
requests with complete bodies. Anybody may send a small body, within a short time. A larger one is read after its sender
was admitted, and goes to a file.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import close_old_connections

from ingest.bodies import ADMISSION, CAN_WAIT, RECEIVED, ReceivedBody, Sink
from ingest.figures import Requests
from ingest.problems import problem_of
from ingest.selectors import busy_jobs
from triage.server.admission import admission_of, takes_bytes, takes_chunks
from triage.server.body_reader import ConnectionLost, Pace, Receive, SmallBodies, TooSlow, blocks
from triage.server.environ import Scope, body_length, environ_of
from triage.server.pages import Answer, Pages
from triage.server.verdict_wait import Waiting

log = logging.getLogger(__name__)

type Send = Callable[[dict[str, Any]], Awaitable[None]]

#: a body up to this size stays in memory and is accepted from anybody
SMALL_BYTES = 64 << 10
#: maximum number of small bodies at once in one process
SMALL_AT_ONCE = 512
#: a small body must be complete within this time
SMALL_S = 30.0
#: bytes of a large body stay in memory up to this size or time, then they are written
_BLOCK_BYTES, _BLOCK_S = 256 << 10, 1.0
_SAVE_EVERY_S = 20.0
#: a client that takes no piece within this time counts as lost
_MAX_UNREAD_S = 120.0
#: a refused sender gets the reason only if the server reads on: up to so many bytes, so many seconds
_LINGER_KNOWN, _LINGER_UNKNOWN = (256 << 20, 30.0), (1 << 20, 2.0)

#: whether the event loop turns. Needs no thread and no database: a restart mends neither slow pages nor a lost database
LIVE_PATH, _LIVE = "/livez", b'{"status": "ok"}'
_LIVE_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), (b"content-length", b"16")]

_CHUNKED = "Send a Content-Length: chunked bodies are not accepted here."
_TOO_SLOW = "The body came too slowly, or takes too long: send it again in smaller parts, or over a faster connection."
_BUSY = "This server is receiving its maximum number of bodies: nothing was read. Send it again in a moment."
_BUSY_PERSON = "You are sending the maximum number of bodies per person: wait until some of them are complete."


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of large bodies in one process."""

    bytes_per_s: int = 1000
    body_s: float = 43_200.0
    at_once: int = 1000
    per_person: int = 400


class Refusal(Exception):
    """Ends the request with a problem in JSON and closes the connection."""

    def __init__(
        self, status: int, code: str, detail: str, *, is_known: bool = False, pending: asyncio.Future[Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.is_known, self.pending = status, code, detail, is_known, pending


@dataclass(slots=True)
class _Receiving:
    """A large body on its way. ``problem``: of a write; ``is_concluded``: the thread that answers releases the sink."""

    sink: Sink
    pace: Pace
    problem: Exception | None = None
    is_concluded: bool = False


class Front:
    """The ASGI application. ``page_threads`` threads make pages. As many admit and process bodies, which may take long:
    pages never wait for senders. Two threads write received bytes, four read downloads for slow clients. ``requests``
    counts the answers.
    """

    def __init__(self, *, page_threads: int = 4, limits: Limits | None = None) -> None:
        self._pages = Pages()
        self._limits = limits or Limits()
        self._make = ThreadPoolExecutor(page_threads, "page")
        self._take = ThreadPoolExecutor(page_threads, "take")
        self._write = ThreadPoolExecutor(2, "write")
        self._read = ThreadPoolExecutor(4, "read")
        self._small = SmallBodies(SMALL_AT_ONCE)
        self._large: Counter[object] = Counter()
        self._waiting = Waiting(lambda jobs: self._in(self._make, _busy_jobs, jobs))
        self.requests = Requests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._request(scope, receive, send)
        except Refusal as refusal:
            await _refuse(send, receive, refusal)
        except ConnectionLost:
            return

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == LIVE_PATH:
            await send({"type": "http.response.start", "status": 200, "headers": _LIVE_HEADERS})
            await send({"type": "http.response.body", "body": _LIVE})
            return
        length = body_length(scope)
        if length is None and not takes_chunks(scope["method"], scope["path"]):
            raise Refusal(411, "length_required", _CHUNKED)
        if length is None or length > SMALL_BYTES:
            await self._receive_large(scope, receive, send)
            return
        body = b""
        if length:
            pace = Pace(0, SMALL_S)
            try:
                body = await self._small.read(receive, pace, length)
            except TooSlow:
                raise Refusal(408, "too_slow", _TOO_SLOW, pending=pace.pending) from None
        pool = self._take if takes_bytes(scope["method"], scope["path"]) else self._make
        answer = await self._timed(pool, self._pages.answer, environ_of(scope, io.BytesIO(body), {CAN_WAIT: True}))
        assert isinstance(answer, Answer)  # it was no admission
        if answer.wait is not None:
            job, person, limit_s = answer.wait
            await self._waiting.until_diagnosed(job, person, limit_s, receive)
            answer = await self._timed(pool, self._pages.answer, environ_of(scope, io.BytesIO(body)))
            assert isinstance(answer, Answer)
        await self._send(answer, receive, send)

    async def _receive_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._large.total() >= self._limits.at_once:
            raise Refusal(503, "busy", _BUSY)
        environ = environ_of(scope, more={ADMISSION: admission_of(scope["method"], scope["path"])})
        said = await self._timed(self._take, self._pages.answer, environ)
        if isinstance(said, Answer):
            await self._send(said, receive, send, is_cut=True)
            return
        sink, who = said.sink, said.who
        receiving = _Receiving(sink, Pace(self._limits.bytes_per_s, self._limits.body_s))
        self._large[who] += 1
        try:
            if self._large[who] > self._limits.per_person:
                raise Refusal(429, "too_many_bodies", _BUSY_PERSON, is_known=True)
            last = await self._pour(receive, receiving)
            answer = await self._timed(self._take, self._conclude, scope, receiving, said.rate_headers, last)
            await self._send(answer, receive, send, is_cut=last is None, pending=receiving.pace.pending)
        finally:
            self._large[who] -= 1
            if not self._large[who]:
                del self._large[who]
            if not receiving.is_concluded:
                await asyncio.shield(self._in(self._take, sink.close))

    async def _pour(self, receive: Receive, receiving: _Receiving) -> bytes | None:
        """Copy the body into the sink; returns its last block, which the thread that makes the answer writes. None
        after an error of a write, which the view reports.
        """
        sink, told_at = receiving.sink, time.monotonic()
        try:
            async for block, is_last in blocks(receive, receiving.pace, _BLOCK_BYTES, _BLOCK_S):
                if is_last:
                    return block
                await self._in(self._write, sink.write, block)
                if (now := time.monotonic()) - told_at > _SAVE_EVERY_S:
                    await self._in(self._take, _save_progress, sink)
                    told_at = now
        except (TooSlow, ConnectionLost) as end:
            with suppress(Exception):
                await self._in(self._take, _save_progress, sink)
            if isinstance(end, ConnectionLost):
                raise
            raise Refusal(408, "too_slow", _TOO_SLOW, pending=receiving.pace.pending) from None
        except Exception as problem:
            receiving.problem = problem
        return None

    def _conclude(
        self, scope: Scope, receiving: _Receiving, rate_headers: Mapping[str, str], last: bytes | None
    ) -> Answer:
        """Write the last block, make the answer and release the sink."""
        receiving.is_concluded = True
        body: Any = io.BytesIO()
        try:
            if last:
                try:
                    receiving.sink.write(last)
                except Exception as problem:
                    receiving.problem = problem
            received = ReceivedBody(receiving.sink, rate_headers, receiving.problem)
            if reader := getattr(receiving.sink, "reader", None):
                body = reader()
            answer = self._pages.answer(environ_of(scope, body, {RECEIVED: received}))
        finally:
            body.close()
            receiving.sink.close()
        assert isinstance(answer, Answer)  # it was no admission
        return answer

    async def _timed[**P, T](self, pool: ThreadPoolExecutor, do: Callable[P, T], *given: P.args, **none: P.kwargs) -> T:
        """The same as :meth:`_in`; counts an answer with the seconds until it was there, also those in the queue."""
        began = time.monotonic()
        answer = await self._in(pool, do, *given, **none)
        if isinstance(answer, Answer):
            self.requests.add(answer.route, answer.status, time.monotonic() - began)
        return answer

    async def _in[**P, T](self, pool: ThreadPoolExecutor, do: Callable[P, T], *given: P.args, **_: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, do, *given)

    async def _send(
        self,
        answer: Answer,
        receive: Receive,
        send: Send,
        *,
        is_cut: bool = False,
        pending: asyncio.Future[Any] | None = None,
    ) -> None:
        """Send the answer. ``is_cut``: the client still sends its body; read on for a while, then close. ``pending``:
        somebody reads it already.
        """
        headers = [*answer.headers, (b"connection", b"close")] if is_cut else answer.headers
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.rest is None:
            await send({"type": "http.response.body", "body": answer.first})
        else:
            await self._stream(answer, receive, send)
        if is_cut:
            await _linger(receive, pending, *(_LINGER_UNKNOWN if answer.status == 401 else _LINGER_KNOWN))

    async def _stream(self, answer: Answer, receive: Receive, send: Send) -> None:
        assert answer.rest is not None
        piece, gone = answer.first, asyncio.ensure_future(receive())
        try:
            while piece and not (gone.done() and gone.result()["type"] == "http.disconnect"):
                message = {"type": "http.response.body", "body": piece, "more_body": True}
                await asyncio.wait_for(send(message), _MAX_UNREAD_S)
                piece = await self._in(self._read, next, answer.rest, b"")
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.info("a reader stopped reading: %s", dict(answer.headers).get(b"Content-Disposition", b""))
        finally:
            gone.cancel()
            await self._in(self._read, answer.close)


async def _refuse(send: Send, receive: Receive, refusal: Refusal) -> None:
    body = json.dumps(problem_of(refusal.status, refusal.code, refusal.detail)).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    headers += [(b"content-length", str(len(body)).encode())]
    if refusal.status in (429, 503):
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    await _linger(receive, refusal.pending, *(_LINGER_KNOWN if refusal.is_known else _LINGER_UNKNOWN))


async def _linger(receive: Receive, pending: asyncio.Future[Any] | None, limit_bytes: int, limit_s: float) -> None:
    """Read on after the answer was sent, and discard the bytes. A read that is still ``pending`` is given up."""
    if pending is not None:
        await asyncio.wait({pending}, timeout=1)
        pending.cancel()
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while limit_bytes > 0:
                message = await receive()
                limit_bytes -= len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body"):
                    return


def _busy_jobs(jobs: Collection[int]) -> set[int]:
    close_old_connections()
    return busy_jobs(jobs)


def _save_progress(sink: Sink) -> None:
    """Note what arrived: a resumable upload continues there."""
    close_old_connections()
    sink.save_progress()

"""Calls Django in a thread: one environment in, one complete answer out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.core.handlers.wsgi import WSGIHandler, get_script_name
from django.core.signals import request_started
from django.http import FileResponse, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from ingest.bodies import ADMISSION, GoAhead

#: an answer up to this size is sent in one piece; a longer one is read ahead in pieces of this size
PIECE_BYTES = 256 << 10


@dataclass(slots=True)
class Answer:
    """Status, headers and the body's first piece; ``rest`` are further pieces, produced as the client takes them.
    ``route`` is the name of the view; of static files, probes and unknown addresses it is ``other``.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    first: bytes
    rest: Iterator[bytes] | None = None
    close: Callable[[], None] = lambda: None
    route: str = "other"
    #: the job that the request waits for, the person, and for how many seconds; None: it waits for nothing
    wait: tuple[int, str, float] | None = None


class Pages(WSGIHandler):
    """Django's middleware and views, loaded at construction."""

    def answer(self, environ: dict[str, Any]) -> Answer | GoAhead:
        """Django's answer, with its database work done. An admission may get a :class:`GoAhead`."""
        set_script_prefix(get_script_name(environ))
        request_started.send(sender=self.__class__, environ=environ)
        request = self.request_class(environ)
        if ADMISSION in environ:  # it changes nothing; the later request with the body is checked
            request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
            if environ[ADMISSION]:
                request.urlconf = environ[ADMISSION]
        response = self.get_response(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        if isinstance(response, GoAhead):
            response.close()
            return response
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
        headers += [(b"Set-Cookie", cookie.output(header="").encode()) for cookie in response.cookies.values()]
        answer = _read_whole(response, headers) if _needs_database(response) else _in_pieces(response, headers)
        match = request.resolver_match
        if match is not None and match.url_name:
            answer.route = match.view_name
        answer.wait = getattr(response, "wait", None)
        return answer


def _needs_database(response: HttpResponseBase) -> bool:
    """Whether the body is made from rows, which need the connection of this thread."""
    is_lazy = isinstance(response, FileResponse) or getattr(response, "is_lazy", False)
    return not is_lazy


def _read_whole(response: HttpResponseBase, headers: list[tuple[bytes, bytes]]) -> Answer:
    """A slow client must not occupy the thread: rows are written to a file before the first byte is sent."""
    if isinstance(response, HttpResponse):
        answer = Answer(response.status_code, headers, response.content)
        response.close()
        return answer
    file = tempfile.SpooledTemporaryFile(max_size=4 * PIECE_BYTES)  # noqa: SIM115  # closed with the answer
    try:
        for block in response:
            file.write(block)
    except BaseException:
        file.close()
        raise
    finally:
        response.close()
    file.seek(0)
    pieces = iter(lambda: file.read(PIECE_BYTES), b"")
    return Answer(response.status_code, headers, next(pieces, b""), pieces, file.close)


def _in_pieces(response: Any, headers: list[tuple[bytes, bytes]]) -> Answer:
    pieces = _gather(iter(response))
    return Answer(response.status_code, headers, next(pieces, b""), pieces, response.close)


def _gather(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of about ``PIECE_BYTES``: each piece costs a thread switch."""
    piece = bytearray()
    for block in blocks:
        piece += block
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)

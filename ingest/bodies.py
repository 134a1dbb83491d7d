"""Bodies that are received before their view runs: who may send one, and where its bytes go.

The server asks the view first, by a request without a body (*admission*): the view checks caller, address and headers
and answers with :class:`GoAhead` or with its refusal. Only then are bytes read, into the sink of that answer. When they
are there, the same request is made again and the view finds the filled sink (``docs/operations.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from django.http import HttpRequest, HttpResponse

from ingest import storage
from ingest.refusals import Refused, translate_storage_errors

#: keys of the WSGI environment; a client cannot set them
ADMISSION = "faultline.admission"
RECEIVED = "faultline.received"
_READ_BYTES = 256 << 10


class Sink(Protocol):
    """Where the bytes of one body go. Used by one thread at a time, not always the same one."""

    def write(self, data: bytes) -> object: ...

    def tell(self) -> None:
        """Write down how far it is, for whoever watches; called every few seconds."""

    def close(self) -> None:
        """Let go of it, whatever has arrived. May be called again."""


class Received(NamedTuple):
    """A body that is there, or what went wrong while it was written."""

    sink: Any
    problem: Exception | None = None


class GoAhead(HttpResponse):
    """The answer of an admission: send the body, it goes into ``sink``. ``who`` is counted for the limit on bodies
    at once."""

    def __init__(self, sink: Sink, who: object) -> None:
        super().__init__(status=202)
        self.sink = sink
        self.who = who


def takes_bytes(*methods: str) -> Callable[[Any], Any]:
    """Says that a view answers admissions of these methods, and that their bodies may be of any size."""

    def mark(view: Any) -> Any:
        view.takes_bytes = methods
        return view

    return mark


def admitted(request: HttpRequest, *, limit_bytes: int) -> HttpResponse:
    """The answer to an admission of a form: its body is kept in a part file until Django reads it from there."""
    length = length_of(request)
    if length > limit_bytes:
        sentence = f"This is {length:,} bytes, more than the {limit_bytes:,} that are taken here in one request."
        return HttpResponse(f"{sentence}\n", status=413, content_type="text/plain; charset=utf-8")
    try:
        with translate_storage_errors():
            return GoAhead(storage.Part(), getattr(request.user, "pk", None))
    except Refused as refusal:
        return HttpResponse(f"{refusal.detail}\n", status=refusal.status, content_type="text/plain; charset=utf-8")


def length_of(request: HttpRequest) -> int:
    """What the request says of its body's length; 0 where it says nothing."""
    said = request.META.get("CONTENT_LENGTH") or ""
    return int(said) if said.isdecimal() else 0


def received[S: Sink](request: HttpRequest, make: Callable[[int], S]) -> S | GoAhead:
    """The sink with the whole body in it, or the go-ahead that an admission is answered with.

    ``make`` opens the sink for so many bytes. A server that did not receive the body before (Django's own, the test
    client) has it read here. Raises :class:`Refused`: 411 without a length, 400 for a connection that broke off.
    """
    there: Received | None = request.META.get(RECEIVED)
    if there is not None:
        if there.problem is not None:
            with translate_storage_errors():
                raise there.problem
        sink: S = there.sink
        return sink
    if not request.META.get("CONTENT_LENGTH") and request.headers.get("Transfer-Encoding", "").lower() == "chunked":
        raise Refused("Send a Content-Length: this server takes no chunked bodies.", code="length_required", status=411)
    sink = make(length_of(request))
    if ADMISSION in request.META:
        return GoAhead(sink, getattr(request.user, "pk", None))
    try:
        with translate_storage_errors():
            while block := request.read(_READ_BYTES):
                sink.write(block)
    except OSError as error:
        sink.close()
        raise Refused("The connection broke off: send it again.", code="broken", status=400) from error
    except BaseException:
        sink.close()
        raise
    return sink

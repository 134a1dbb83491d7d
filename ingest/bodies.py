"""Request bodies that the server receives before the view runs: who may send one, and where its bytes go.

The server first sends the view a request without a body (*admission*). The view checks user, address and headers and
answers with :class:`GoAhead` or a refusal. Only then the server reads bytes, into the sink of that answer. After the
last byte it sends the same request again, and the view gets the filled sink (``docs/operations.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from django.http import HttpRequest, HttpResponse

from ingest import storage
from ingest.refusals import Refused, translate_storage_errors

#: keys of the WSGI environment; a client cannot set them
ADMISSION = "faultline.admission"
RECEIVED = "faultline.received"
#: the server can let this request wait without a thread: the view may set ``wait`` on its answer
CAN_WAIT = "faultline.can_wait"
_BLOCK_BYTES = 256 << 10


class Sink(Protocol):
    """The destination of one body's bytes. One thread at a time uses it, not always the same one."""

    def write(self, data: bytes) -> object: ...

    def save_progress(self) -> None:
        """Store how many bytes have arrived, for progress displays. Called every few seconds."""

    def close(self) -> None:
        """Release the file, complete or not. May be called again."""


class ReceivedBody(NamedTuple):
    """A received body, or the error that happened while it was written. ``rate_headers``: those of its admission."""

    sink: Any
    rate_headers: Mapping[str, str]
    problem: Exception | None = None


class GoAhead(HttpResponse):
    """The answer to an admission: send the body, it goes into ``sink``. The limit on simultaneous bodies counts by
    ``who``.
    """

    def __init__(self, sink: Sink, who: object) -> None:
        super().__init__(status=202)
        self.sink = sink
        self.who = who

    @property
    def rate_headers(self) -> dict[str, str]:
        """What the caller is told of its limit, when the body is complete."""
        return {name: value for name, value in self.items() if name.startswith("RateLimit-")}


def takes_bytes(*methods: str) -> Callable[[Any], Any]:
    """Mark a view that answers admissions of these methods; their bodies may have any size."""

    def mark(view: Any) -> Any:
        view.takes_bytes = methods
        return view

    return mark


def admission_answer(request: HttpRequest, *, limit_bytes: int) -> HttpResponse:
    """The answer to the admission of a form. A part file keeps the body until Django reads it from there."""
    length = length_of(request)
    if length > limit_bytes:
        sentence = f"This is {length:,} bytes, more than the {limit_bytes:,} that one request may have."
        return HttpResponse(f"{sentence}\n", status=413, content_type="text/plain; charset=utf-8")
    try:
        with translate_storage_errors():
            return GoAhead(storage.Part(), getattr(request.user, "pk", None))
    except Refused as refusal:
        return HttpResponse(f"{refusal.detail}\n", status=refusal.status, content_type="text/plain; charset=utf-8")


def length_of(request: HttpRequest) -> int:
    """The Content-Length of the request; 0 without one."""
    header = request.META.get("CONTENT_LENGTH") or ""
    return int(header) if header.isdecimal() else 0


def receive_body[S: Sink](request: HttpRequest, make: Callable[[int], S], *, takes_chunks: bool = False) -> S | GoAhead:
    """The sink with the whole body, or the go-ahead for an admission.

    With ``takes_chunks`` a body may come without a length: then ``make`` gets 0, and its sink limits the bytes.

    ``make`` opens a sink for a number of bytes. If the server did not receive the body before (Django's own server, the
    test client), it is read here. Raises :class:`Refused`: 411 without a length, 400 for a broken connection.
    """
    there: ReceivedBody | None = request.META.get(RECEIVED)
    if there is not None:
        if there.problem is not None:
            with translate_storage_errors():
                raise there.problem
        sink: S = there.sink
        return sink
    is_chunked = request.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if is_chunked and not takes_chunks and not request.META.get("CONTENT_LENGTH"):
        raise Refused(
            "Send a Content-Length: this server does not accept chunked bodies.", code="length_required", status=411
        )
    sink = make(length_of(request))
    if ADMISSION in request.META:
        return GoAhead(sink, getattr(request.user, "pk", None))
    try:
        with translate_storage_errors():
            while block := request.read(_BLOCK_BYTES):
                sink.write(block)
    except OSError as error:
        sink.close()
        raise Refused("The connection broke: send it again.", code="broken", status=400) from error
    except BaseException:
        sink.close()
        raise
    return sink

"""What is wrong with what was sent, as a sentence for whoever sent it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError

BUSY = "The database is busy with other work: nothing was lost, send this again in a few seconds."
DISK_FULL = (
    "The server's disk is full: this upload was not kept. Ask an administrator to free space, then send it again."
)


class Refused(Exception):
    """Input that cannot be taken. ``detail`` says what is wrong and what to do, ``code`` names the kind of problem."""

    def __init__(self, detail: str, *, code: str = "refused", status: int = 422, fields: dict[str, str] | None = None):
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status
        self.fields = fields or {}


@contextmanager
def told() -> Iterator[None]:
    """Turns a full disk and a locked database into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Refused(DISK_FULL, code="disk_full", status=507) from error
    except OperationalError as error:
        raise Refused(BUSY, code="busy", status=503) from error

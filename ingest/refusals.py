"""Refused input: what is wrong with it, as a sentence for the sender."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError

#: what Django raises if the database is unreachable, locked or full
DATABASE_ERRORS = (OperationalError, InterfaceError)

BUSY = "The database is busy with other work: nothing was lost, send this again in a few seconds."
AWAY = "The database does not answer: nothing was lost, send this again in a few seconds."
DISK_FULL = (
    "The server's disk is full: what you sent was not stored. Ask an administrator to free space, then send it again."
)


STORE_AWAY = "The store of evidence does not answer: nothing was lost, send this again in a few seconds."


class StoreAway(Exception):
    """The store of evidence does not answer."""


class Refused(Exception):
    """Input that is refused. ``detail`` says what is wrong and what to do, ``code`` names the kind of problem. ``job``:
    the id of the job that is in the way, which the sender may see.
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str = "refused",
        status: int = 422,
        fields: dict[str, str] | None = None,
        job: str = "",
    ):
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status
        self.fields = fields or {}
        self.job = job


@contextmanager
def translate_storage_errors() -> Iterator[None]:
    """Turn a full disk, a locked or unreachable database and an unreachable store into :class:`Refused`."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Refused(DISK_FULL, code="disk_full", status=507) from error
    except (*DATABASE_ERRORS, StoreAway) as error:
        if refused := outage_refusal(error):
            raise refused from error
        raise


def outage_refusal(error: BaseException | None) -> Refused | None:
    """The refusal for a database that is full, busy or unreachable, or for a store that does not answer; None for any
    other error. A missing table is our own mistake, and waiting does not help.
    """
    if isinstance(error, StoreAway):
        return Refused(STORE_AWAY, code="store_away", status=503)
    message = str(error).lower()
    if not isinstance(error, DATABASE_ERRORS) or message.startswith("no such"):
        return None
    if "is full" in message or "no space left" in message:
        return Refused(DISK_FULL, code="disk_full", status=507)
    if "lock" in message:
        return Refused(BUSY, code="busy", status=503)
    return Refused(AWAY, code="database_away", status=503)

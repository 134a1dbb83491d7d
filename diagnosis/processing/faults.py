"""Errors of reading evidence, and their words."""

from __future__ import annotations

import errno
from typing import Final

_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class MemoryLimitReached(Exception):
    """A process reached the memory that it may have; the text is a sentence for the reader."""


def is_fault(error: BaseException) -> bool:
    """Whether the work failed: any ``Exception``, and the panic of a native library, which derives from
    ``BaseException`` alone and would pass ``except Exception``. Not an exit or an interrupt.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def is_of_machine(error: BaseException) -> bool:
    """Whether the machine caused the error: a full disk, too little memory. Never catch it."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _DISK_FULL)


def error_text(error: BaseException) -> str:
    """Kind and first line of an error, at most 200 characters."""
    first = (str(error).splitlines() or [""])[0].strip()[:200]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

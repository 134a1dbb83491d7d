"""What was made from files that ship, kept beside the modules as Python keeps compiled ones: whole, or
not at all.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

_DIGEST_BYTES: Final = 32


def read(place: Path) -> bytes | None:
    """What is kept there; None if that is nothing, or damaged."""
    try:
        stored = place.read_bytes()
    except OSError:
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


def write(place: Path, data: bytes) -> None:
    """Keeps bytes, in one step; not where that is not allowed: then they are made again next time."""
    try:
        place.parent.mkdir(exist_ok=True)
        whole = place.with_suffix(f".{os.getpid()}")  # all who may read the module may read it
        whole.write_bytes(hashlib.sha256(data).digest() + data)
        whole.replace(place)
    except OSError:
        return

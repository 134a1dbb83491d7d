"""What processes of this machine do: read from /proc, so that tests that ask are Linux's."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and that nobody has waited for yet does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second, if it ends while it is read
        return False

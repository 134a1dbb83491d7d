"""Loops over bytes that no column library has a word for, compiled to machine code by Numba.

The compiled code is kept beside the module, so only the first run on a machine pays for compiling (about two seconds).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compiles ``function`` for the types of its first call; it runs without the interpreter's lock."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False}
    try:
        result: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write a cache: a read-only installation
        result = numba.njit(**options)(function)
    return result

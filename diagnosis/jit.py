"""Loops over bytes that no column library has a word for, compiled to machine code by Numba.

The compiled code is kept beside the module, so only the first run on a machine pays for compiling (about two seconds).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

import numba

_BLAS: Final = "scipy.linalg.cython_blas"


def _load_without_blas() -> None:
    """Loads Numba's array functions. They look for BLAS, which imports SciPy's linear algebra and takes longer than the
    rest of Numba together; no loop here multiplies matrices.
    """
    modules: dict[str, Any] = sys.modules
    if _BLAS in modules:
        return
    modules[_BLAS] = None  # an import of it fails, which Numba takes for "not installed"
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del modules[_BLAS]


_load_without_blas()


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compiles ``function`` for the types of its first call; it runs without the interpreter's lock."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False}
    try:
        result: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write a cache: a read-only installation
        result = numba.njit(**options)(function)
    return result

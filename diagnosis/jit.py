"""Loops over bytes that no column library provides, compiled to machine code by Numba.

Loading Numba takes longer than everything else that most processes (web servers, commands on one small log) do. So the
first calls run in the interpreter, as long as they are small together. The compiled code is stored next to the module,
so only the first run on a machine compiles (about two seconds).
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np

#: Number of array elements that run in the interpreter before Numba is loaded, which takes about as long.
_MAX_INTERPRETED: Final = 1 << 17
_BLAS: Final = "scipy.linalg.cython_blas"
_LOADING = threading.RLock()


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compiles ``function`` for the types of its first call that is not small; it runs without the interpreter's lock.

    Its arguments are arrays and numbers, and its result must be the same in the interpreter, where bytes are Python's
    integers and other elements NumPy's, which wrap around.
    """
    loop = _Loop(function)
    functools.update_wrapper(loop, function)
    return loop


class _Loop[**P, R]:
    """A function that becomes machine code when it is worth it."""

    __wrapped__: Callable[P, R]
    interpreted = 0  # array elements of all calls in the interpreter

    def __init__(self, function: Callable[P, R]) -> None:
        self._function: Any = function
        self._machine_code: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._machine_code is None and not _numba.cache_info().currsize:
            size = sum(arg.size for arg in args if isinstance(arg, np.ndarray))
            if _Loop.interpreted + size <= _MAX_INTERPRETED:
                _Loop.interpreted += size
                return self._interpret(*args, **kwargs)
        return (self._machine_code or self.load())(*args, **kwargs)

    def _interpret(self, *args: Any, **kwargs: Any) -> R:
        if not any(isinstance(arg, np.ndarray) for arg in args):  # called by another loop
            answer: R = self._function(*args, **kwargs)
            return answer
        given = [memoryview(a) if isinstance(a, np.ndarray) and a.dtype == np.uint8 else a for a in args]
        with np.errstate(over="ignore"):
            result: R = self._function(*given, **kwargs)
        return result

    def load(self) -> Callable[P, R]:
        """Numba's form of the function. Loops that it calls are replaced by their compiled form in its module, because
        Numba accepts no other.
        """
        with _LOADING:
            if self._machine_code is None:
                names = self._function.__globals__
                for name in self._function.__code__.co_names:
                    if isinstance(names.get(name), _Loop) and names[name] is not self:
                        names[name] = names[name].load()
                self._machine_code = _njit(self._function)
            return self._machine_code


def _njit(function: Callable[..., Any]) -> Callable[..., Any]:
    numba = _numba()
    options = {"nogil": True, "boundscheck": False}
    try:
        result: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place for a cache: a read-only installation
        result = numba.njit(**options)(function)
    return result


def load() -> None:
    """Loads Numba: all later calls run compiled code, small ones too."""
    _numba()


@functools.cache
def _numba() -> Any:
    """Numba with its array functions. They look for BLAS, which imports SciPy's linear algebra and takes longer than
    the rest of Numba together; no loop here multiplies matrices.
    """
    numba = importlib.import_module("numba")
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None: not installed
    if _BLAS not in modules:
        modules[_BLAS] = None  # an import of it fails, which Numba treats as "not installed"
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            del modules[_BLAS]
    return numba

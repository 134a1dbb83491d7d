"""Loops over bytes that no column library provides, compiled to machine code by Numba.

Loading Numba takes longer than everything else that most processes (web servers, commands on one small log) do. So only
the first run on a machine compiles, and stores the code next to the module; later ones load the code alone
(:mod:`machine_code`). The first calls run in the interpreter, as long as they are small together.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np

from diagnosis.processing import machine_code

log = logging.getLogger(__name__)

#: Number of array elements that run in the interpreter before code is loaded, which takes about as long.
_MAX_INTERPRETED: Final = 1 << 16
#: The same before Numba is loaded, where a loop was never compiled on this machine.
_MAX_BEFORE_NUMBA: Final = 1 << 17
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
    is_any_loaded = False  # whether the process has loaded code of any loop

    def __init__(self, function: Callable[P, R]) -> None:
        self._function: Any = function
        self._machine_code: Callable[P, R] | None = None  # Numba's form
        self.codes: dict[machine_code.Kinds | None, Callable[..., R]] = {}
        self._not_stored: set[machine_code.Kinds | None] = set()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        kinds = None if kwargs else machine_code.kinds_of(args)
        code = self.codes.get(kinds)
        if code is None:
            elements = _Loop.interpreted + sum(arg.size for arg in args if isinstance(arg, np.ndarray))
            if not self._is_loaded(kinds, elements):
                _Loop.interpreted = elements
                return self._interpret(*args, **kwargs)
            code = self.codes[kinds]
        return code(*args, **kwargs)

    def _is_loaded(self, kinds: machine_code.Kinds | None, elements: int) -> bool:
        """Loads the code for such arguments if the interpreter would take longer for so many elements in all."""
        if elements <= _MAX_INTERPRETED and not _Loop.is_any_loaded:
            return False
        with _LOADING:
            if kinds not in self._not_stored and kinds not in self.codes:
                self._load_stored(kinds)
            if kinds not in self.codes and (elements > _MAX_BEFORE_NUMBA or _numba.cache_info().currsize):
                self.compile(kinds)
        return kinds in self.codes

    def _load_stored(self, kinds: machine_code.Kinds | None) -> None:
        code: Callable[..., R] | None = None if kinds is None else machine_code.find(self._function, kinds)
        if code is None:
            self._not_stored.add(kinds)
            return
        self.codes[kinds] = code
        _Loop.is_any_loaded = True

    def compile(self, kinds: machine_code.Kinds | None) -> Callable[..., R]:
        """Compiles the function for such arguments, and stores the code if that is possible."""
        own = self.load()
        self.codes[kinds] = code = _made(self._function, kinds) or own
        return code

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


def _made(function: Callable[..., Any], kinds: machine_code.Kinds | None) -> Callable[..., Any] | None:
    """Code that was compiled now and stored; None if that is not possible."""
    if kinds is None:
        return None
    try:
        return machine_code.make(function, kinds, _numba())
    except Exception:  # another version of Numba may do all of this in another way
        log.info("the code of %s is not stored", function.__name__, exc_info=True)
        return None


def _njit(function: Callable[..., Any]) -> Callable[..., Any]:
    numba = _numba()
    options = {"nogil": True, "boundscheck": False}
    try:
        result: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place for a cache: a read-only installation
        result = numba.njit(**options)(function)
    return result


def load() -> None:
    """All later calls run compiled code, small ones too."""
    _Loop.is_any_loaded = True
    _Loop.interpreted = _MAX_BEFORE_NUMBA


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

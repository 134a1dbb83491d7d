"""Machine code of loops, kept beside their modules and called without Numba, which takes ten times as long
to load as the code.

Numba compiles a loop once on a machine, into an object file: for these kinds of arguments, this processor,
and this text of the loop and of those that it calls. Later processes load the file by LLVM alone. Arrays
are passed in the form that Numba's functions take: owner, parent, size, size of an element, address, then
lengths and strides.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from diagnosis.knowledge import kept_files

#: Changed when files are written in another way.
_FORMAT: Final = b"faultline loops 1"
#: What a function answers: its state is 0, or this if it returns None.
_DONE: Final = (0, -2)
#: Numba's names of results, and how each is read from the two words that a function writes.
_RESULTS: Final[dict[str, Callable[[Any], Any]]] = {
    "none": lambda out: None,
    "int64": lambda out: out[0],
    "uint64": lambda out: out[0] % (1 << 64),
    "bool": lambda out: bool(out[0] & 1),
    "UniTuple(int64 x 2)": tuple,
}
_NAME_CHARS: Final = 32

type Kinds = tuple[str, ...]


def kinds_of(args: Sequence[object]) -> Kinds | None:
    """The kind of each argument; None if one is neither an array nor a whole number."""
    kinds = tuple(map(_kind_of, args))
    return kinds if all(kinds) else None


def _kind_of(arg: object) -> str:
    if isinstance(arg, np.ndarray):
        layout = "C" if arg.flags.c_contiguous else "A"
        return f"{arg.dtype.str} {arg.ndim} {layout}" if arg.flags.aligned else ""
    if isinstance(arg, np.uint64):
        return "uint64"
    return "int64" if isinstance(arg, (int, np.integer, np.bool_)) else ""


class Code:
    """A loop in machine code. ``result``: Numba's name of what it returns."""

    def __init__(self, address: int, kinds: Kinds, result: str) -> None:
        taken = chain.from_iterable(map(_types_of, kinds))
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *taken)(address)
        self._result = _RESULTS[result]

    def __call__(self, *args: Any) -> Any:
        out, error = (ctypes.c_int64 * 2)(), ctypes.c_void_p()
        flat = chain.from_iterable(map(_flat, args))
        state = self._call(ctypes.addressof(out), ctypes.addressof(error), *flat)
        if state not in _DONE:
            raise ArithmeticError(f"a compiled loop ended with state {state}")
        return self._result(out)


def _types_of(kind: str) -> Iterator[Any]:
    """The types in which an argument of a kind is passed."""
    if " " not in kind:
        yield ctypes.c_uint64 if kind == "uint64" else ctypes.c_int64
        return
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    yield from (pointer, pointer, number, number, pointer, *[number] * (2 * int(kind.split()[1])))


def _flat(arg: Any) -> Sequence[int | None]:
    """An argument as it is passed."""
    if not isinstance(arg, np.ndarray):
        return (int(arg),)
    return (None, None, arg.size, arg.itemsize, arg.ctypes.data, *arg.shape, *arg.strides)


def find(function: Callable[..., Any], kinds: Kinds) -> Code | None:
    """The stored code of a loop for these kinds of arguments; None if there is none."""
    data = kept_files.read(_file_of(function, kinds))
    if data is None:
        return None
    head, _, code = data.partition(b"\n")
    name, _, result = head.decode().partition("\t")
    return _loaded(name, code, kinds, result)


def make(function: Callable[..., Any], kinds: Kinds, numba: Any) -> Code | None:
    """Compiles a loop for these arguments and stores it; None if it needs more than that."""
    compiler = importlib.import_module("numba.core.compiler")
    target = importlib.import_module("numba.core.registry").cpu_target
    flags = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    target.typing_context.refresh()
    target.target_context.refresh()
    types = tuple(_numba_type(kind, numba) for kind in kinds)
    done = compiler.compile_extra(target.typing_context, target.target_context, function, types, None, flags, {})
    result = str(done.signature.return_type)
    _, form, (code, _) = done.library.serialize_using_object_code()
    if form != "object" or result not in _RESULTS or _needs_others(done.library):
        return None
    name = done.fndesc.llvm_func_name
    data = f"{name}\t{result}\n".encode() + code
    kept_files.write(_file_of(function, kinds), data)
    return _loaded(name, code, kinds, result)


def _needs_others(library: Any) -> bool:
    """Whether the code calls a function that is no part of it and no instruction of the processor."""
    functions = library._final_module.functions
    return any(one.is_declaration and not one.name.startswith("llvm.") for one in functions)


def _numba_type(kind: str, numba: Any) -> Any:
    if " " not in kind:
        return getattr(numba.types, kind)
    dtype, dimensions, layout = kind.split()
    return numba.types.Array(numba.from_dtype(np.dtype(dtype)), int(dimensions), layout)


def _file_of(function: Callable[..., Any], kinds: Kinds) -> Path:
    """Where the code of a loop is kept: its name tells all that the code depends on."""
    texts = sorted({str(one.__code__.co_filename) for one in with_callees(function)})
    numbers = [repr(value) for one in with_callees(function) for value in _constants(one)]
    told = [_FORMAT, _processor(), *map(_text, texts), "\n".join([*kinds, *numbers]).encode()]
    digest = hashlib.sha256(b"\0".join(told)).hexdigest()[:_NAME_CHARS]
    module = Path(function.__code__.co_filename)
    return module.parent / "__pycache__" / f"{module.stem}.{function.__name__}-{digest}.loop"


def with_callees(function: Callable[..., Any]) -> Iterator[Any]:
    """A function and the loops that it calls, however deep."""
    yield function
    names = function.__globals__
    for name in function.__code__.co_names:
        called = names.get(name)
        inner = getattr(called, "py_func", None) or getattr(called, "__wrapped__", None)
        if inner is not None and inner is not function:
            yield from with_callees(inner)


def _constants(function: Callable[..., Any]) -> Iterator[object]:
    """The numbers of its module that a function uses."""
    values = (function.__globals__.get(name) for name in function.__code__.co_names)
    return (value for value in values if isinstance(value, (int, float, np.generic)))


@functools.cache
def _text(path: str) -> bytes:
    return Path(path).read_bytes()


@functools.cache
def _llvm() -> Any:
    """LLVM, ready to load code for this processor."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _processor() -> bytes:
    """The processor, and the version of what makes code for it: each release of Numba needs its own."""
    llvm, version = _llvm(), importlib.import_module("llvmlite").__version__
    return f"{version} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}".encode()


#: What holds the code that was loaded, as long as the process lives.
_engines: Final[list[Any]] = []


def _loaded(name: str, code: bytes, kinds: Kinds, result: str) -> Code:
    llvm = _llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return Code(engine.get_function_address(name), kinds, result)

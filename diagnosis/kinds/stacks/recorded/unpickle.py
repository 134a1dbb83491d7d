"""Reads a pickle without executing it. A pickle is a program; ``pickle.load`` would execute the code of a hostile
upload. Even an ``Unpickler`` whose ``find_class`` refuses can be made to allocate gigabytes (memo indexes) or overflow
the C stack (hashing nested tuples). So this is a separate interpreter for the few instructions that PyTorch's Flight
Recorder writes: containers, text, numbers, constants. It rejects everything else by name, above all imports and calls.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

#: A full ring buffer of 20,000 entries takes a million.
MAX_OPERATIONS: Final = 8_000_000
#: References to containers: some ten for each entry.
MAX_REFERENCES: Final = 1_000_000
MAX_DEPTH: Final = 64
#: Maximum number of values of a pickle for each of its bytes. Each entry refers to rank 0's stack, which is written
#: once; only containers that refer to containers give more than this.
MAX_VALUES_PER_BYTE: Final = 64
_ALWAYS_ALLOWED: Final = 100_000
_MARK: Final = object()


class HostilePickle(ValueError):
    """The pickle contains an import or a call."""


class BrokenPickle(ValueError):
    """The pickle is cut, damaged, too large or not one that Flight Recorder writes."""


_FORBIDDEN = {
    b"c": "GLOBAL",
    b"\x93": "STACK_GLOBAL",
    b"R": "REDUCE",
    b"b": "BUILD",
    b"i": "INST",
    b"o": "OBJ",
    b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX",
    b"P": "PERSID",
    b"Q": "BINPERSID",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
}
_FIXED = {0x4B: ("<B", 1), 0x4D: ("<H", 2), 0x4A: ("<i", 4), 0x47: (">d", 8)}
_TEXT = {0x8C: ("<B", 1), 0x58: ("<I", 4), 0x8D: ("<Q", 8)}
_BYTES = {0x43: ("<B", 1), 0x42: ("<I", 4), 0x8E: ("<Q", 8), 0x55: ("<B", 1), 0x54: ("<i", 4)}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
#: INT, LONG, FLOAT, PUT, GET, UNICODE of protocol 0.
_LINES = (0x49, 0x4C, 0x46, 0x70, 0x67, 0x56)
_FOUR_BYTES = ("<I", 4)
_STOP: Final = 0x2E
_MAX_PROTOCOL: Final = 5
_CONTAINERS = (list, dict, tuple)
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}


class _Machine:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.references = 0  # to containers, which then occur in more than one place
        self.depth: dict[int, int] = {}  # id of a nested tuple -> how deeply tuples nest in it
        self.nested: list[tuple[Any, ...]] = []  # keeps those tuples alive, so that no id is used twice

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise BrokenPickle("it ends in the middle of a value")
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def number(self, layout: tuple[str, int]) -> Any:
        return struct.unpack(layout[0], self.take(layout[1]))[0]

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise BrokenPickle("a value is missing")
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                items = self.stack[at + 1 :]
                del self.stack[at:]
                return items
        raise BrokenPickle("a list has no beginning")

    def top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise BrokenPickle("a value is put into something that is no container")
        return self.stack[-1]

    def pair(self, items: list[Any]) -> tuple[Any, ...]:
        made = tuple(items)
        depth = 1 + max((self.depth.get(id(x), 1) for x in items if type(x) is tuple), default=0)
        if depth > MAX_DEPTH:
            raise BrokenPickle(f"tuples nest deeper than {MAX_DEPTH}")
        if depth > 1:
            self.depth[id(made)] = depth
            self.nested.append(made)
        return made

    def store(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise BrokenPickle("a key has no value")
        target = self.top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int, bool, float, bytes, type(None)):
                raise BrokenPickle("a dictionary key is neither text nor number")
            target[key] = value

    def drop(self, value: Any) -> None:
        """The value is not used."""

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1] if self.stack else None

    def append(self) -> None:
        item = self.pop()
        self.top(list).append(item)

    def append_since_mark(self) -> None:
        items = self.since_mark()
        self.top(list).extend(items)

    def set_item(self) -> None:
        value = self.pop()
        key = self.pop()
        self.store([key, value])

    def dictionary(self) -> None:
        items = self.since_mark()
        self.stack.append({})
        self.store(items)

    def tuple_of(self, length: int) -> None:
        items = [self.pop() for _ in range(length)]
        self.stack.append(self.pair(items[::-1]))

    def check_protocol(self) -> None:
        if self.take(1)[0] > _MAX_PROTOCOL:
            raise BrokenPickle(f"its protocol is newer than {_MAX_PROTOCOL}")

    def push_number(self, layout: tuple[str, int]) -> None:
        self.stack.append(self.number(layout))

    def push_bytes(self, layout: tuple[str, int]) -> None:
        self.stack.append(self.take(self.number(layout)))

    def push_text(self, layout: tuple[str, int]) -> None:
        self.stack.append(self.take(self.number(layout)).decode("utf-8", "replace"))

    def long_number(self) -> None:
        digits = self.take(self.take(1)[0])
        self.stack.append(int.from_bytes(digits, "little", signed=True))

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at, self.at + 4096)
        if end < 0:
            raise BrokenPickle("a text value has no end")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece


def _hostile(machine: _Machine, op: bytes) -> HostilePickle:
    name = _FORBIDDEN[op]
    what = ""
    if op in (b"c", b"i"):
        words = machine.data[machine.at : machine.at + 200].split(b"\n")[:2]
        what = " (" + ".".join(w.decode("ascii", "replace")[:60] for w in words) + ")"
    elif op == b"\x93":
        what = " (" + ".".join(str(x)[:60] for x in machine.stack[-2:]) + ")"
    return HostilePickle(f"it wants to import or call something: instruction {name}{what}")


def loads(data: bytes) -> Any:
    """The plain value in ``data``. Linear in its bytes; allocates no more than its instructions state, and walking
    through the value is linear, too.

    :raises HostilePickle: an instruction that imports or calls.
    :raises BrokenPickle: anything else that is not a whole, plain pickle.
    """
    machine = _Machine(data)
    operations = _operations(machine)
    for _ in range(MAX_OPERATIONS):
        if machine.at >= len(data):
            raise BrokenPickle("it ends before its last instruction")
        op = data[machine.at]
        machine.at += 1
        if op == _STOP:
            return _check_size(machine)
        operation = operations.get(op)
        if operation is None:
            raise _refusal(machine, op)
        operation()
    raise BrokenPickle(f"it has more than {MAX_OPERATIONS:,} instructions")


def _refusal(machine: _Machine, op: int) -> ValueError:
    """Why an instruction is not done."""
    if op.to_bytes() in _FORBIDDEN:
        return _hostile(machine, op.to_bytes())
    return BrokenPickle(f"instruction 0x{op:02x} is none that Flight Recorder writes")


def _operations(m: _Machine) -> dict[int, Callable[[], None]]:
    """What each known instruction does, by its code."""
    operations: dict[int, Callable[[], None]] = {
        0x68: lambda: _get(m, m.take(1)[0]),  # BINGET
        0x6A: lambda: _get(m, m.number(_FOUR_BYTES)),  # LONG_BINGET
        0x71: lambda: m.remember(m.take(1)[0]),  # BINPUT
        0x72: lambda: m.remember(m.number(_FOUR_BYTES)),  # LONG_BINPUT
        0x94: lambda: m.remember(len(m.memo)),  # MEMOIZE
        0x28: lambda: m.stack.append(_MARK),  # MARK
        0x5D: lambda: m.stack.append([]),  # EMPTY_LIST
        0x7D: lambda: m.stack.append({}),  # EMPTY_DICT
        0x29: lambda: m.stack.append(()),  # EMPTY_TUPLE
        0x61: m.append,  # APPEND
        0x65: m.append_since_mark,  # APPENDS
        0x73: m.set_item,  # SETITEM
        0x75: lambda: m.store(m.since_mark()),  # SETITEMS
        0x6C: lambda: m.stack.append(m.since_mark()),  # LIST
        0x64: m.dictionary,  # DICT
        0x74: lambda: m.stack.append(m.pair(m.since_mark())),  # TUPLE
        0x30: lambda: m.drop(m.pop()),  # POP
        0x80: m.check_protocol,  # PROTO
        0x95: lambda: m.drop(m.take(8)),  # FRAME
        0x8A: m.long_number,  # LONG1
    }
    for op, layout in _FIXED.items():
        operations[op] = partial(m.push_number, layout)
    for op, layout in _TEXT.items():
        operations[op] = partial(m.push_text, layout)
    for op, layout in _BYTES.items():
        operations[op] = partial(m.push_bytes, layout)
    for op, constant in _CONSTANTS.items():
        operations[op] = partial(m.stack.append, constant)
    for op, length in _TUPLES.items():
        operations[op] = partial(m.tuple_of, length)
    for op in _LINES:
        operations[op] = partial(_as_text, m, op)
    return operations


def _get(m: _Machine, index: int) -> None:
    if index not in m.memo:
        raise BrokenPickle("it refers to a value that was never written")
    value = m.memo[index]
    m.references += type(value) in _CONTAINERS
    if m.references > MAX_REFERENCES:
        raise BrokenPickle(f"it refers to its own values more than {MAX_REFERENCES:,} times")
    m.stack.append(value)


def _check_size(m: _Machine) -> Any:
    """The result. It is rejected if it contains itself, or if its shared containers expand to very many values: two
    hundred bytes can mean 2^40 of them, and printing or storing them never ends. O(containers).
    """
    value = m.pop()
    if not m.references:
        return value
    most = MAX_VALUES_PER_BYTE * len(m.data) + _ALWAYS_ALLOWED
    counts: dict[int, int] = {}
    begun: set[int] = set()
    path = [value]
    while path:
        top = path[-1]
        inside = _values_in(top)
        waiting = [one for one in inside if type(one) in _CONTAINERS and id(one) not in counts]
        if id(top) not in counts and waiting:
            begun.add(id(top))
            if not begun.isdisjoint(map(id, waiting)):
                raise BrokenPickle("a part of it holds itself")
            path.extend(waiting)
            continue
        count = 1 + sum(counts.get(id(one)) or _weight(one) for one in inside)
        if count > most:
            raise BrokenPickle(f"its parts refer to each other so often that they mean over {most:,} values")
        counts[id(top)] = count
        path.pop()
    return value


def _values_in(container: Any) -> Iterable[Any]:
    if type(container) is dict:
        return container.values()
    return container if type(container) in _CONTAINERS else ()


def _weight(value: Any) -> int:
    return 1 + len(value) // 8 if type(value) in (str, bytes) else 1


def _as_text(m: _Machine, op: int) -> None:
    """Instructions of protocol 0, whose argument is a line of text."""
    text = m.line()
    try:
        if op == 0x56:
            m.stack.append(text.decode("raw-unicode-escape"))
        elif op == 0x70:
            m.memo[int(text[:20])] = m.stack[-1] if m.stack else None
        elif op == 0x67:
            _get(m, int(text[:20]))
        elif text in (b"00", b"01"):
            m.stack.append(text == b"01")
        else:
            m.stack.append(float(text) if op == 0x46 else int(text.rstrip(b"L")[:400]))
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, BrokenPickle):
            raise
        raise BrokenPickle("a number or text is not one") from error

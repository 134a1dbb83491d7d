"""Columns of a flow table that no name tells, by their values.

Two columns of addresses that occur in both, a column of times, and whole numbers: who sends to
whom, when and how much. Names are asked first, and what they leave open is told in a note: nothing
is guessed in silence. O(values of the sample).
"""

from __future__ import annotations

import csv
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from diagnosis import thresholds
from diagnosis.kinds.flows.read.readers.column_names import our_name

THRESHOLDS: Final = thresholds.of("by_values")
LIMITS: Final = thresholds.limits("by_values")

_SEPARATORS: Final = (",", "\t", ";", "|")
_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}:[0-9a-fA-F:]{1,40}")
_FIELD_ENDS: Final = re.compile(r"[,;|\t]")
_DATE: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d")
#: Words of a name that say which end is meant, of the two.
_RECEIVER: Final = re.compile(r"(?i)dst|dest|receiv|recv|target|\bto\b|to_|_to$|remote|server")
_PORT: Final = re.compile(r"(?i)port")
_SPOKEN: Final = {
    "start": "start",
    "end": "end",
    "src": "sender",
    "dst": "receiver",
    "src_port": "port of the sender",
    "dst_port": "port of the receiver",
    "bytes": "bytes",
    "packets": "packets",
}

type Values = Mapping[str, Sequence[str]]


class Taken(NamedTuple):
    """``names``: each column's name, or ours where its values told it; ``note``: what was taken for
    what; ``separator``: of the header, if it ``has_header``.
    """

    names: tuple[str, ...]
    note: str
    separator: str = ","
    has_header: bool = True


def _has_two_addresses(line: str) -> bool:
    """Whether two fields of a line look like addresses, whatever separates them."""
    fields = (field.strip(' "') for field in _FIELD_ENDS.split(line))
    return len(list(filter(_ADDRESS.fullmatch, fields))) > 1


def header_by_values(lines: Sequence[str]) -> Taken | None:
    """The columns of a table by its first lines, the header first, if it has one; None if they are no flows."""
    if len(lines) <= THRESHOLDS.rows or not _has_two_addresses(lines[1][: LIMITS.line_chars]):
        return None
    has_header = not _has_two_addresses(lines[0][: LIMITS.line_chars])
    for separator in _SEPARATORS:
        try:
            header, *rows = csv.reader(lines[: LIMITS.rows], delimiter=separator)
        except (csv.Error, ValueError):
            continue
        if not has_header:
            rows.insert(0, header)
            header = [f"column {number}" for number in range(1, len(header) + 1)]
        whole = [row for row in rows if len(row) == len(header)]
        is_table = len(header) >= THRESHOLDS.columns and len(whole) >= THRESHOLDS.rows
        if is_table and len(set(header)) == len(header):
            taken = take_by_values([name.strip() for name in header], whole)
            if taken is not None:
                return taken._replace(separator=separator, has_header=has_header)
    return None


def take_by_values(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Taken | None:
    """What the columns of a table are, by names where they tell it, else by values."""
    columns = map(_tidy, zip(*rows, strict=True))
    values = dict(zip(names, columns, strict=True))
    known = {our_name(name): name for name in names}
    named = {ours: name for ours, name in known.items() if ours is not None}
    open_names = [name for name in names if name not in named.values()]
    ends, times = _ends(open_names, values, named), _times(open_names, values, named)
    found = dict([*ends, *times, *_ports(open_names, values, named)])
    left = [name for name in open_names if name not in found.values()]
    found.update(_volumes(left, values, named))
    all_known = named | found
    if not {"src", "dst", "start", "bytes"} <= all_known.keys() or not found:
        return None
    if not set(values[all_known["src"]]) & set(values[all_known["dst"]]):
        return None
    ours_of = {name: ours for ours, name in found.items()}
    said = ", ".join(f"{name} as {_SPOKEN[ours]}" for ours, name in found.items())
    note = f"Columns with unknown names were recognised by their values: {said}."
    return Taken(tuple(ours_of.get(name, name) for name in names), note)


def _all_of(is_kind: Callable[[str], bool], names: Sequence[str], values: Values) -> list[str]:
    """The columns of which every value is of one kind."""
    return [name for name in names if all(map(is_kind, values[name]))]


def _missing(named: Mapping[str, str], *ours: str) -> list[str]:
    return [one for one in ours if one not in named]


def _tidy(column: Sequence[str]) -> list[str]:
    return [value.strip(' "') for value in column]


def _ends(names: Sequence[str], values: Values, named: Mapping[str, str]) -> list[tuple[str, str]]:
    """Sender and receiver: the only two columns of addresses, in order unless names say it."""
    found = _all_of(_is_address, names, values)
    wanted = _missing(named, "src", "dst")
    if len(found) != len(wanted):
        return []
    return list(zip(wanted, _sender_first(found), strict=True))


def _sender_first(names: Sequence[str]) -> list[str]:
    """Two names in their order, turned if only the first one speaks of a receiver."""
    speaks = [bool(_RECEIVER.search(name)) for name in names]
    return list(reversed(names)) if speaks == [True, False] else list(names)


def _times(names: Sequence[str], values: Values, named: Mapping[str, str]) -> list[tuple[str, str]]:
    """Begin and end: of two columns of times the earlier and the later one."""
    found = _all_of(_is_time, names, values)
    wanted = _missing(named, "start", "end")[: max(1, len(found))]
    if len(found) != len(wanted):
        return []
    found.sort(key=lambda name: list(map(_sortable, values[name])))
    return list(zip(wanted, found, strict=True))


def _ports(names: Sequence[str], values: Values, named: Mapping[str, str]) -> list[tuple[str, str]]:
    """Two columns whose names speak of ports, with numbers that ports can have."""
    found = _all_of(_is_port, list(filter(_PORT.search, names)), values)
    wanted = _missing(named, "src_port", "dst_port")
    if [len(found), len(wanted)] != [2, 2]:
        return []
    return list(zip(wanted, _sender_first(found), strict=True))


def _volumes(names: Sequence[str], values: Values, named: Mapping[str, str]) -> dict[str, str]:
    """Bytes: the numbers with the largest sum; packets: the fewest that make usual packets."""
    whole = _all_of(str.isdecimal, names, values)
    sums = {name: sum(map(_number, values[name])) for name in whole}
    found: dict[str, str] = {}
    if "bytes" not in named and whole:
        largest = max(whole, key=sums.__getitem__)
        if sums[largest] >= THRESHOLDS.bytes * len(values[largest]):
            found["bytes"] = largest
    of_bytes = named.get("bytes") or found.get("bytes")
    if of_bytes is None or "packets" in named:
        return found
    sizes = list(map(_number, values[of_bytes]))
    for name in sorted(whole, key=sums.__getitem__):
        counts = list(map(_number, values[name]))
        pairs = zip(sizes, counts, strict=True)
        if name != of_bytes and all(_is_packet_size(size, count) for size, count in pairs):
            return found | {"packets": name}
    return found


def _is_packet_size(size: float, count: float) -> bool:
    return count > 0 and THRESHOLDS.least_packet <= size / count <= THRESHOLDS.most_packet


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    """Whether a value is a date with its time of day, or seconds since 1970 in a usual unit."""
    value = _number(text)
    in_units = (value / unit for unit in (1.0, 1e3, 1e6, 1e9))
    is_epoch = any(THRESHOLDS.epoch_from <= one <= THRESHOLDS.epoch_to for one in in_units)
    return is_epoch or _DATE.match(text) is not None


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 <= _number(text) <= LIMITS.port


def _sortable(text: str) -> tuple[float, str]:
    return _number(text), text


def _number(text: str) -> float:
    try:
        return float(text[: LIMITS.number_chars])
    except ValueError:
        return 0.0

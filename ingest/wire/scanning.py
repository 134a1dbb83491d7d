"""Finds the records of a batch in protobuf without an object for each: where their times, texts and attributes are.

Logs of OpenTelemetry and of Loki have one shape: a group of records with common labels has each record in its field 2,
what describes the group in field 1. Fields that nobody asks for are skipped, as in any reader of protobuf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from diagnosis.processing.jit import compiled
from ingest.wire.rows import Budget

type Places = npt.NDArray[np.int64]


def records(data: bytes, tags: Places, budget: Budget) -> tuple[Places, Places] | None:
    """The records of a group and the place of its description (0, 0: it has none); None if it is no message.

    A record has two columns for each of ``tags`` (number of the field * 8 + wire type): begin and end of the field in
    ``data``, of a number its value. The last tag is that of a field which comes often: its columns reach from the first
    to the last with their tags, and one more column says whether these bytes equal those of the record before.
    ``budget``: counts the records before memory is taken for them. O(bytes).
    """
    read, head = np.frombuffer(data, np.uint8), np.zeros(2, np.int64)
    count = scan(read, tags, np.empty((0, 2 * len(tags) + 1), np.int64), head)
    if count < 0:
        return None
    budget.spend(records=count)
    found = np.zeros((count, 2 * len(tags) + 1), np.int64)
    return (found, head) if scan(read, tags, found, head) >= 0 else None


@compiled
def number_of(data: Any, at: int, end: int) -> tuple[int, int]:
    """The number at ``at`` (-1: it has more than 63 bits), and where it ends (-1: beyond the data)."""
    value = 0
    for place in range(9):
        if at + place >= end:
            return 0, -1
        byte = int(data[at + place])
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    if at + 9 < end and int(data[at + 9]) < 128:
        return -1, at + 10
    return 0, -1


@compiled
def field_of(data: Any, at: int, end: int) -> tuple[int, int, int]:
    """Tag, begin and end of the field at ``at``, of a number its value and its end. An end of -1: this is no field."""
    tag, begin = number_of(data, at, end)
    if begin < 0 or tag < 8:
        return 0, 0, -1
    kind = tag & 7
    if kind == 0:
        value, after = number_of(data, begin, end)
        return tag, value, after
    size = -1
    if kind == 1:
        size = 8
    elif kind == 5:
        size = 4
    elif kind == 2:
        size, begin = number_of(data, begin, end)
    if size < 0 or begin < 0 or size > end - begin:
        return 0, 0, -1
    return tag, begin, begin + size


@compiled
def scan(data: Any, tags: Any, found: Any, head: Any) -> int:
    """Fill ``found`` and ``head``; returns the number of records, -1 if this is no message."""
    at, count, size, last = 0, 0, len(data), len(tags) - 1
    before, before_end = 0, 0
    while at < size:
        tag, begin, end = field_of(data, at, size)
        if end < 0:
            return -1
        at = end
        if tag == 10:
            head[0], head[1] = begin, end
        if tag != 18:
            continue
        if count < len(found):
            here, own, own_end = begin, 0, 0
            while here < end:
                tag, first, after = field_of(data, here, end)
                if after < 0:
                    return -1
                for column in range(last):
                    if tags[column] == tag:
                        found[count, 2 * column] = first
                        found[count, 2 * column + 1] = after
                if tag == tags[last]:
                    if own_end == 0:
                        own = here
                    own_end = after
                here = after
            is_like = count > 0 and own_end - own == before_end - before
            step = 0
            while is_like and step < own_end - own:
                is_like = data[own + step] == data[before + step]
                step += 1
            found[count, 2 * last] = own
            found[count, 2 * last + 1] = own_end
            found[count, 2 * last + 2] = 1 if is_like else 0
            before, before_end = own, own_end
        count += 1
    return count


@compiled
def unwrap(data: Any, places: Any) -> int:
    """Replace the places of ``AnyValue`` by those of their strings; returns how many are none: their begin becomes
    negative, and -1 is that of byte 0.
    """
    others = 0
    for row in range(len(places)):
        begin, end = int(places[row, 0]), int(places[row, 1])
        if begin == end:
            continue
        tag, first, last = field_of(data, begin, end)
        if tag == 10 and last == end:
            places[row, 0] = first
        else:
            places[row, 0] = -1 - begin
            others += 1
    return others


@compiled
def moments(data: Any, places: Any) -> int:
    """Replace the places of Loki's times by their seconds and nanoseconds; returns -1 if one is no message."""
    for row in range(len(places)):
        at, end = int(places[row, 0]), int(places[row, 1])
        places[row, 0], places[row, 1] = 0, 0
        while at < end:
            tag, value, at = field_of(data, at, end)
            if at < 0:
                return -1
            if tag == 8:
                places[row, 0] = value
            elif tag == 16:
                places[row, 1] = value
    return 0

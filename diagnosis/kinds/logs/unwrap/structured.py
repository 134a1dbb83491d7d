"""One way from a structured record to lines: its time, level, place, and the lines of its text.

A record is an object of fields as a logging library, a collector or a log store writes it. What
collectors push and the reader of files both come here, so equal records are equal lines. Which
fields say what is data (``knowledge/record_fields.toml``). Imports no column library: the site
calls it for each push.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from diagnosis.kinds.logs.unwrap import measured, verdicts
from diagnosis.knowledge.knowledge_files import parsed
from diagnosis.values.json_values import Json, JsonObject

#: Lines of one record; of more the middle is left out.
MAX_LINES: Final = 1_000
#: Fields of a record that are read, and how deep they are searched.
_MAX_FIELDS: Final = 200
_MAX_DEPTH: Final = 5
#: Combinations of fields that are remembered: records of one writer have the same ones.
_MAX_PLANS: Final = 1_024
_MAX_STAMP_CHARS: Final = 64
_TABLE: Final = Path(__file__).parents[3] / "knowledge" / "record_fields.toml"
_TRACEBACK: Final = "Traceback (most recent call last)"
#: The last parts of what stands before a text: the name of a logger, a level.
_LOGGER: Final = re.compile(r"(?<=\] )\[[^\[\]]*\] $")
_LEVEL: Final = re.compile(r"\[[A-Z]+\] $")
#: How a line of a traceback begins, and the first characters of these: few lines need the longer comparison.
_FRAME_BEGINNINGS: Final = ("  ", "\t", _TRACEBACK)
_FRAME_CHARS: Final = frozenset(beginning[0] for beginning in _FRAME_BEGINNINGS)
#: Levels at which a text is told as it is.
_SEVERE: Final = ("WARN", "ERROR", "FATAL")
#: Numbers that only Python writes so.
_NUMBER_WORDS: Final = (b"NaN", b"Infinity")
_DECODER: Final = msgspec.json.Decoder()
#: Fields that senders name themselves: of the text, the time and the level. Empty: the usual ones.
type Asked = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
NOTHING_ASKED: Final[Asked] = ((), (), ())


class StructuredRecord(NamedTuple):
    """What a record says.

    ``at_ns``: its time in ns UTC, 0 if it states none that is a moment; ``stamp``: the time in
    words, as a line begins with it. ``level``: TRACE to FATAL, or empty. ``node``: a machine, else
    a pod; ``rank``: a number or empty. ``lines``: of its text, then of its exception, without blank
    ones; ``has_text``: whether a field is a text at all. ``fields``: all of them, flat.
    ``is_measured``: it has no text, and its line states a step and what was measured.
    """

    at_ns: int
    stamp: str
    level: str
    node: str
    rank: str
    lines: list[str]
    has_text: bool
    fields: JsonObject
    is_measured: bool = False

    @property
    def head(self) -> str:
        """Rank and level, as they stand before the lines."""
        rank = f"[rank{self.rank}]: " if self.rank else ""
        return f"{rank}[{self.level}] " if self.level else rank


@cache
def known_fields() -> dict[str, Any]:
    """The lists of ``record_fields.toml``."""
    return dict(parsed(_TABLE.read_text()))


@lru_cache(4096)
def name_of(raw: str) -> str:
    """The name of a field or label in lower case, with ``_`` for all other separators."""
    return re.sub(r"[^a-z0-9]+", "_", raw.lower())[:200].strip("_")


def fields_of(text: str | bytes) -> dict[str, Json] | None:
    """The fields of a JSON object; None for anything else."""
    data = document_of(text)
    return data if isinstance(data, dict) else None


def document_of(text: str | bytes) -> Any:
    """The value of a JSON text, NaN and Infinity as in Python; None for anything else."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if not any(word in data for word in _NUMBER_WORDS):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def record_of(data: JsonObject, asked: Asked = NOTHING_ASKED) -> StructuredRecord:
    """The record with these fields. O(characters)."""
    fields = _flat(data) if dict in map(type, data.values()) else data
    plan = _plan_of(tuple(fields), asked)
    message = _text(_first(fields, plan.message))
    stated = _first(fields, plan.time)
    record = StructuredRecord(
        at_ns=nanoseconds(stated),
        stamp=stamp_text(stated),
        level=level_of(_first(fields, plan.level)),
        node=_word(_first(fields, plan.node)) or _word(_first(fields, plan.pod)),
        rank=_rank(_first(fields, plan.rank)),
        lines=[],
        has_text=message is not None,
        fields=fields,
    )
    if message is None:
        line = verdicts.line_of(data)
        return record._replace(lines=[line], has_text=True) if line else _measured(record, plan)
    inner = _inner_record(message)
    if inner is not None:
        return _joined(record, inner)
    return record._replace(lines=_with_numbers(record, _lines(message, fields, plan), plan))


def _with_numbers(record: StructuredRecord, lines: list[str], plan: _FieldPlan) -> list[str]:
    """The one line of a text with the record's numbers: ``step done`` alone says little."""
    if len(lines) != 1 or record.level in _SEVERE:
        return lines
    without = {*plan.time, *plan.level, *plan.node, *plan.pod, *plan.rank, *plan.by_logger}
    step = _first(record.fields, plan.step)
    if step is None:
        line = measured.numbers_of(record.fields, without)
    else:
        stated = record.fields.items()
        numbers = {name: value for name, value in stated if isinstance(value, (int, float))}
        line = measured.line_of(numbers, step, {*plan.step, *without})
    return [f"{lines[0]} {line}"] if line else lines


def _measured(record: StructuredRecord, plan: _FieldPlan) -> StructuredRecord:
    """A record without a text, with the line of what it measures if it states a step."""
    without = {*plan.step, *plan.time, *plan.level, *plan.node, *plan.pod, *plan.rank}
    line = measured.line_of(record.fields, _first(record.fields, plan.step), without)
    return record._replace(lines=[line], has_text=True, is_measured=True) if line else record


def _inner_record(message: str) -> StructuredRecord | None:
    """The record of a structured logger whose line is the text of a container's record."""
    if not message.startswith("{"):
        return None
    data = fields_of(message)
    inner = record_of(data) if data is not None else None
    return inner if inner is not None and inner.has_text else None


def _joined(outer: StructuredRecord, inner: StructuredRecord) -> StructuredRecord:
    """Time and place of the collector; rank and level of the program."""
    has_time = bool(outer.stamp)
    return StructuredRecord(
        at_ns=outer.at_ns if has_time else inner.at_ns,
        stamp=outer.stamp if has_time else inner.stamp,
        level=inner.level or outer.level,
        node=outer.node or inner.node,
        rank=inner.rank or outer.rank,
        lines=inner.lines,
        has_text=True,
        fields={**outer.fields, **inner.fields},
    )


class _FieldPlan(NamedTuple):
    """Which fields of a record say what, by their names."""

    message: tuple[str, ...]
    time: tuple[str, ...]
    level: tuple[str, ...]
    trace: tuple[str, ...]
    exception_type: tuple[str, ...]
    exception_text: tuple[str, ...]
    node: tuple[str, ...]
    pod: tuple[str, ...]
    rank: tuple[str, ...]
    step: tuple[str, ...]
    by_logger: tuple[str, ...]


@lru_cache(_MAX_PLANS)
def _plan_of(names: tuple[str, ...], asked: Asked) -> _FieldPlan:
    known = known_fields()
    wrappers = tuple(f"{name}_" for name in known["wrappers"])
    found: dict[str, list[tuple[int, str]]] = {}
    for raw in names:
        for depth, name in enumerate(_short_names(name_of(raw), wrappers)):
            found.setdefault(name, []).append((depth, raw))
    for places in found.values():
        places.sort(key=lambda place: place[0])

    def those(wanted: Sequence[str]) -> tuple[str, ...]:
        return tuple(raw for name in wanted for _, raw in found.get(name, ()))

    wanted = {name: known[name] for name in _FieldPlan._fields}
    for name, own in zip(("message", "time", "level"), asked, strict=True):
        wanted[name] = own or wanted[name]
    return _FieldPlan(**{name: those(own) for name, own in wanted.items()})


def _short_names(name: str, wrappers: tuple[str, ...]) -> list[str]:
    """A name and what remains of it without its wrappers, one after another."""
    names = [name]
    for _ in range(_MAX_DEPTH):
        wrapper = next((one for one in wrappers if name.startswith(one)), "")
        if not wrapper:
            break
        name = name.removeprefix(wrapper)
        names.append(name)
    return names


def _flat(fields: JsonObject) -> dict[str, Json]:
    flat: dict[str, Json] = {}
    _flatten(fields, "", flat, _MAX_DEPTH)
    return flat


def _flatten(fields: JsonObject, prefix: str, out: dict[str, Json], depth: int) -> None:
    """``{"kubernetes": {"pod_name": …}}`` becomes ``kubernetes_pod_name``."""
    for key, value in fields.items():
        if len(out) >= _MAX_FIELDS:
            return
        name = f"{prefix}{name_of(key)}"
        if not isinstance(value, dict):
            out.setdefault(name, value)
        elif depth > 1:
            _flatten(value, f"{name}_", out, depth - 1)


def _lines(message: str, fields: JsonObject, plan: _FieldPlan) -> list[str]:
    """The lines of a text, then of the exception beside it, unless one holds the other."""
    lines = text_lines(message)
    trace = _first_text(fields, plan.trace)
    if not trace:
        kind, words = _first_text(fields, plan.exception_type), _first_text(fields, plan.exception_text)
        trace = f"{kind}: {words}" if kind and words else ""
    told = text_lines(trace) if _TRACEBACK not in message else []
    lines = told if lines and lines[0] in told else lines + told
    if len(lines) <= MAX_LINES:
        return lines
    first, last = lines[: MAX_LINES // 2], lines[1 - MAX_LINES // 2 :]
    left_out = len(lines) - len(first) - len(last)
    return [*first, f"[{left_out:,} lines of this record were left out]", *last]


def text_lines(text: str) -> list[str]:
    """The lines of a text, without blank ones and blanks at their ends. O(characters)."""
    return [kept for line in text.split("\n") if (kept := line.rstrip())]


def headed(lines: Sequence[str], before: str, head: str) -> list[str]:
    """``lines`` with what stands before each: ``before``, then ``head`` (rank, level, logger).

    The level holds for each line but frames: they are no errors by themselves. Only the first line
    has a logger's name, or frames would not be indented.
    """
    first = f"{before}{head}"
    if len(lines) < 2:
        return [first + line for line in lines]
    level = _LOGGER.sub("", head)
    frame, further = before + _LEVEL.sub("", level), before + level
    told = [(frame if _is_frame(line) else further) + line for line in lines[1:]]
    return [(frame if _is_frame(lines[0]) else first) + lines[0], *told]


def _is_frame(line: str) -> bool:
    return line[:1] in _FRAME_CHARS and line.startswith(_FRAME_BEGINNINGS)


def nanoseconds(value: Any) -> int:
    """ISO 8601, or (milli-, micro-, nano-)seconds since 1970, by their size; 0 for others."""
    if isinstance(value, str):
        if value.replace(".", "", 1).isdecimal() and value.isascii() and len(value) < 30:
            value = float(value) if "." in value else int(value)
        else:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1 << 63:
        return 0
    unit = 10**9
    while value * unit > 1 << 62 and unit > 1:  # in seconds, later than the year 2116
        unit //= 1000
    return round(value * unit)


def _iso(value: str) -> int:
    try:
        moment = datetime.fromisoformat(value[:40])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0, round(moment.timestamp() * 1e6) * 1000)
    except (ValueError, OverflowError):
        return 0


def stamp_text(value: Any) -> str:
    """A time in words as it stands, for the reader of lines; a number as an ISO stamp."""
    if isinstance(value, str) and not value.replace(".", "", 1).isdecimal():
        return " ".join(value[:_MAX_STAMP_CHARS].split())
    at_ns = nanoseconds(value)
    return stamp_of(at_ns) if at_ns else ""


def stamp_of(at_ns: int) -> str:
    """The ISO stamp of a moment, to the microsecond."""
    seconds, rest = divmod(at_ns, 10**9)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def level_of(value: Any) -> str:
    """The word of a level; numbers are those of syslog. Empty for anything else."""
    words: dict[str, str] = known_fields()["level_words"]
    if isinstance(value, str):
        return words.get(value.strip().lower(), "")
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return words.get(str(value), "") if is_number and 0 <= value < 8 else ""


def _rank(value: Any) -> str:
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 8:
        return str(int(value))
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number and 0 <= value < 10**7 else ""


def _word(value: Any) -> str:
    """A name of a machine or a pod: one word."""
    is_word = isinstance(value, str) and 0 < len(value) <= 200 and not re.search(r"[\s/\]]", value)
    return value if is_word else ""


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    # The journal writes messages that are not UTF-8 as lists of bytes.
    if isinstance(value, list) and value and all(isinstance(one, int) and 0 <= one < 256 for one in value):
        return bytes(value).decode("latin-1")
    return None


def _first(fields: JsonObject, names: Sequence[str]) -> Any:
    for name in names:
        if (stated := fields.get(name)) is not None:
            return stated
    return None


def _first_text(fields: JsonObject, names: Sequence[str]) -> str:
    return next((stated for name in names if isinstance(stated := fields.get(name), str) and stated), "")

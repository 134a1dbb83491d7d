"""Unwraps logs that a collector wrapped, as JSON lines or as the journal's export, so that they read like any other
log.

Recognised by their keys, not by their program: container logs (``log``, ``time``), ``journalctl -o json`` (``MESSAGE``,
``__REALTIME_TIMESTAMP``), structured loggers (``msg``, ``level``, ``ts``), torchrun's ``error.json`` (a message within
a message), records of cloud collectors (``textPayload`` or ``jsonPayload`` with ``resource.labels``). ``journalctl -o
export`` writes a record as lines ``FIELD=value`` up to a blank line: its ``MESSAGE`` line takes the record's time, host
and program. Fluentd writes pairs of time and record, syslog servers frames of RFC 5424. Clients of log stores put
labels before each line (``{host="a", rank="3"} …``), tails of pods the names of pod and container
(``pod-7 trainer …``).
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from diagnosis import numbers

_MESSAGE = ("message", "msg", "log", "MESSAGE", "event", "text", "body", "textPayload")
#: Fields that hold a traceback beside the message (logging, structlog, loguru, ECS, OTLP, torchrun's error file).
_TRACE = (
    *("exc_info", "exception", "exc_text", "stack_trace", "stacktrace", "traceback", "error.stack_trace"),
    *("exception.stacktrace", "py_callstack"),
)
_LEVEL = ("level", "levelname", "severity", "lvl", "PRIORITY", "stufe", "niveau")
_TIME = ("time", "ts", "timestamp", "@timestamp", "asctime", "__REALTIME_TIMESTAMP", "t", "zeit", "heure", "hora")
_HOST = (
    *("_HOSTNAME", "hostname", "host", "node", "node_name", "nodename", "compute.googleapis.com/resource_name"),
    *("k8s.node.name", "host.name", "pod", "pod_name", "k8s.pod.name", "instance"),
)
_RANK = ("rank", "global_rank", "rang")
#: Objects whose fields belong to the record, and how deep they are searched.
_INNER_OBJECTS = (
    "message",
    "extraInfo",
    "jsonPayload",
    "resource",
    "labels",
    "attributes",
    "kubernetes",
    "metadata",
    "fields",
)
_MAX_DEPTH = 3
_PRIORITIES = ("FATAL", "FATAL", "FATAL", "ERROR", "WARNING", "INFO", "INFO", "DEBUG")
_LEVELS = {
    "fatal": "FATAL",
    "critical": "FATAL",
    "panic": "FATAL",
    "error": "ERROR",
    "err": "ERROR",
    "warning": "WARNING",
    "warn": "WARNING",
    "info": "INFO",
    "notice": "INFO",
    "debug": "DEBUG",
    "trace": "DEBUG",
}
_LINES_PROBED = 5
#: The line that ends a traceback, and the one that begins it.
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Abort)(?::|$)")
_TRACE_BEGIN = re.compile(r"Traceback \(most recent call last\)")
#: Labels in braces, after the store's time or at once; group 1 is the time, 2 the labels, 3 the line.
_LABELS = re.compile(
    r'(?:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*)\s+)?\{((?:[A-Za-z_][\w.]*="[^"]*"(?:,\s*)?)+)\}\s(.*)', re.DOTALL
)
_LABEL = re.compile(r'([A-Za-z_][\w.]*)="([^"]*)"')
#: A pair of time and record, as Fluentd and Fluent Bit write them.
_TIME_AND_RECORD = re.compile(r"(?:\[\d+\] \S+ )?\[\[?(\d{9,10}(?:\.\d+)?)(?:, \{[^{}]*\}\])?, ?(\{.*\})\]\s*$")
#: Priority, time, host, program, process, message id, structured data, message.
_SYSLOG_FRAME = re.compile(
    r"<\d{1,3}>1 (\d{4}-\S+) (\S+) (\S+) (\S+) \S+ (?:-|(?:\[[^\]]*\])+)(?: \ufeff?(.*))?$", re.DOTALL
)
#: Pod and container before a line; the pod is numbered, the container one word.
_POD_LINE = re.compile(r"([a-z]++(?:[-.][a-z]++)*+[-.]?+\d[\w.-]*+) ([a-z][a-z0-9-]*) (.*)", re.DOTALL)
#: The message of a tail when it finds a pod.
_POD_FOUND = re.compile(r"[+-] \S+ › \S+$")
#: A JSON object behind a header.
_HEADER_AND_OBJECT = re.compile(r'([^{]{1,200}?)(\{\s*".*\})\s*$', re.DOTALL)
#: A name of a machine or a pod in a field of its own. It is written in the form that no message has: "gpu-19:" before a
#: message may be a device.
_WORD = re.compile(r"[^\s/\]]{1,200}")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
#: Number of lines that must all name one container before a file counts as a tail of pods.
_MIN_POD_LINES = 8
#: Share of lines that must have such a header; a line may be cut.
_MIN_POD_SHARE = 0.98
#: A field of an export; without ``=`` its value, of a given length, follows on the next lines.
_FIELD = re.compile(r"([A-Z_][A-Z0-9_]*)(?:=(.*))?$", re.DOTALL)
_EXPORT = ("__CURSOR=", "__REALTIME_TIMESTAMP=")


def is_wrapped(text: str) -> bool:
    """Whether a log that begins with ``text`` holds a JSON object with a message on each line, or is an export. A cut
    last line is ignored.
    """
    if is_export(text):
        return True
    found = [line for line in text.split("\n") if line and not line.isspace()]
    if _unwrapper(found[:-1] if not text.endswith("\n") else found):
        return True
    whole = found[:_LINES_PROBED] if len(found) <= 1 or text.endswith("\n") else found[:-1][:_LINES_PROBED]
    return bool(whole) and all(line.lstrip().startswith("{") and unwrap(line) != line for line in whole)


def is_export(text: str) -> bool:
    """Whether a log that begins with ``text`` was written by ``journalctl -o export``."""
    return text.lstrip("\n").startswith(_EXPORT) and "\n__REALTIME_TIMESTAMP=" in f"\n{text}"


def unwrap_all(lines: Sequence[str]) -> list[str]:
    """Each of the consecutive lines of a wrapped log, unwrapped. O(characters)."""
    if form := _unwrapper([line for line in lines[:2_000] if line.strip()], is_known=True):
        return [form(line) for line in lines]
    if next((line for line in lines if line.strip()), "").lstrip().startswith("{"):
        return [unwrap(line) for line in lines]
    out = [""] * len(lines)
    first = 0
    for at in (*(n for n, line in enumerate(lines) if not line), len(lines)):
        _unwrap_export(lines, first, at, out)
        first = at + 1
    return out


def _unwrapper(lines: Sequence[str], *, is_known: bool = False) -> Callable[[str], str] | None:
    """The function that removes the labels or the pod's name, if all lines have them; None for other lines.
    ``is_known``: the beginning of their file is wrapped.
    """
    for pattern, form in (
        (_LABELS, _without_labels),
        (_TIME_AND_RECORD, _without_pair),
        (_SYSLOG_FRAME, _without_frame),
    ):
        if lines and all(pattern.match(line) for line in lines[:_LINES_PROBED]):
            return form
    return (
        _without_pod
        if _is_tail(lines, is_known=is_known)
        else _without_header
        if _is_headed(lines, is_known=is_known)
        else None
    )


def _is_headed(lines: Sequence[str], *, is_known: bool) -> bool:
    if any(line.startswith(_EXPORT) for line in lines[:_MIN_POD_LINES]):
        return False
    found = [_HEADER_AND_OBJECT.match(line) for line in lines[: _LINES_PROBED * (10 if is_known else 1)]]
    has_message = [bool(match and _message_fields(match[2])) for match in found]
    return any(has_message) if is_known else bool(has_message) and all(has_message)


def _is_tail(lines: Sequence[str], *, is_known: bool) -> bool:
    strange = (line for line in lines if not "a" <= line[:1] <= "z" and line[:1] not in "+-")
    if next(islice(strange, int((1 - _MIN_POD_SHARE) * len(lines)), None), None) is not None:
        return False  # the first characters of the lines exclude nearly every log
    pod_lines = [line for line in lines if not line.startswith(("+", "-")) or not _POD_FOUND.match(line)]
    tailed: list[re.Match[str]] = []
    for number, line in enumerate(pod_lines):
        if match := _POD_LINE.match(line):
            tailed.append(match)
        elif number + 1 - len(tailed) > (1 - _MIN_POD_SHARE) * len(pod_lines):
            return False
    if not tailed or len(tailed) < _MIN_POD_SHARE * len(pod_lines):
        return False
    if is_known:
        return True
    is_announced = len(pod_lines) < len(lines)
    if len(tailed) < _MIN_POD_LINES:
        return False
    containers, pods = {match[2] for match in tailed}, {match[1] for match in tailed}
    # one word after every name is a container, unless there is only one name: then it may be the program's wording
    return len(containers) == 1 and (len(pods) > 1 or is_announced)


def _without_labels(line: str) -> str:
    """``time host: [rankN]: line`` of a line with labels."""
    match = _LABELS.match(line)
    if match is None:
        return line
    labels = dict(_LABEL.findall(match[2]))
    rank = numbers.whole(_first_field(labels, _RANK) or "")
    parts = [match[1] or "", _host(_first_field(labels, _HOST)), _rank(rank)]
    return " ".join([*(part for part in parts if part), _unwrap_object(match[3], has_time=bool(match[1]))])


def _without_pair(line: str) -> str:
    """The record of a pair of time and record, with that time."""
    match = _TIME_AND_RECORD.match(line)
    if match is None:
        return line
    record = unwrap(match[2])
    return line if record == match[2] else f"{_time(match[1])} {record}"


def _without_frame(line: str) -> str:
    """``time host program[process]: message`` of a frame of RFC 5424; ``-`` stands for an unknown field."""
    match = _SYSLOG_FRAME.match(line)
    if match is None:
        return line
    time, host, program, process, message = match.groups()
    number = f"[{process}]" if process.isdigit() else ""
    return f"{time} {host} {program}{number}: {message or ''}"


def _without_header(line: str) -> str:
    """``header [rankN]: [LEVEL] message`` of a line with a JSON object after a header; its own time if the header
    states none.
    """
    match = _HEADER_AND_OBJECT.match(line)
    return match[1] + _unwrap_object(match[2], has_time=bool(_CLOCK.search(match[1]))) if match else line


def _unwrap_object(text: str, *, has_time: bool) -> str:
    """``[rankN]: [LEVEL] message`` of a JSON object after a collector's prefix, with its time before it if the
    collector wrote none; other text is unchanged.
    """
    data = _message_fields(text) if text.startswith("{") else None
    if data is None:
        return text
    time = "" if has_time else _time(_first_field(data, _TIME))
    parts = [
        time,
        _rank(_first_field(data, _RANK)),
        _level(_first_field(data, _LEVEL)),
        _one_line(_text(_first_field(data, _MESSAGE)) or "", data),
    ]
    return " ".join(part for part in parts if part)


def _message_fields(text: str) -> dict[str, Any] | None:
    """The fields of a JSON object with a message; None for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    data = _flatten(data)
    return data if _text(_first_field(data, _MESSAGE)) is not None else None


def _flatten(data: dict[str, Any], depth: int = _MAX_DEPTH) -> dict[str, Any]:
    """The fields of a record with those of its inner objects; an outer field hides an inner one of its name."""
    inner = [key for key in _INNER_OBJECTS if isinstance(data.get(key), dict)] if depth else []
    if not inner:
        return data
    flat = {key: value for key, value in data.items() if key not in inner}
    for key in inner:
        flat = {**_flatten(data[key], depth - 1), **flat}
    return flat


def _without_pod(line: str) -> str:
    """``pod: line`` of a line with the names of pod and container; nothing for a line that reports a found pod."""
    match = _POD_LINE.match(line)
    return (
        f"{match[1]}: {_unwrap_object(match[3], has_time=False)}" if match else "" if _POD_FOUND.match(line) else line
    )


def _unwrap_export(lines: Sequence[str], first: int, last: int, out: list[str]) -> None:
    """Sets the message of ``lines[first:last]``, one record of an export; its other fields become blank lines."""
    data: dict[str, str] = {}
    message_lines: list[int] = []  # lines of the message
    name = ""
    for at in range(first, last):
        field = _FIELD.match(lines[at])
        if field and field[2] is not None:
            name = ""
            data.setdefault(field[1], field[2])
            if field[1] == "MESSAGE":
                message_lines = [at]
        elif field and not name:
            name = field[1]
        elif name == "MESSAGE":
            message_lines.append(at)
    for number, at in enumerate(message_lines):
        out[at] = lines[at].removeprefix("MESSAGE=") if number else _first_line(data, lines[at])


def _first_line(data: dict[str, str], line: str) -> str:
    """The first line of a record's message, with a syslog header. Eight bytes precede a value of given length."""
    text = line.removeprefix("MESSAGE=").rpartition("\0")[2]
    program = data.get("SYSLOG_IDENTIFIER") or data.get("_COMM") or data.get("_TRANSPORT") or ""
    host, time = data.get("_HOSTNAME", ""), _time(data.get("__REALTIME_TIMESTAMP"))
    if not time or not _host(host):
        return " ".join(part for part in (time, _level(data.get("PRIORITY")), text) if part)
    return f"{time} {host} {re.sub(r'[^A-Za-z0-9_./@()-]', '-', program) or 'journal'}: {text}"


def unwrap(line: str) -> str:
    """``time host: [rankN]: [LEVEL] message`` of a JSON line; the line itself if it holds no message."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(data, dict):
        return line
    data = _flatten(data)
    message = _text(_first_field(data, _MESSAGE))
    if message is None:
        return line
    parts = [
        _time(_first_field(data, _TIME)),
        _host(_first_field(data, _HOST)),
        _rank(_first_field(data, _RANK)),
        _level(_first_field(data, _LEVEL)),
    ]
    if message.startswith("{") and (deeper := unwrap(message.rstrip())) != message.rstrip():
        # a container's record of a structured logger's line; the collector's time and host come first
        data = _message_fields(message) or {}
        parts = [
            *parts[:2],
            _rank(_first_field(data, _RANK)) or parts[2],
            _level(_first_field(data, _LEVEL)) or parts[3],
        ]
        message = _text(_first_field(data, _MESSAGE)) or deeper
    return " ".join([part for part in parts if part] + [_one_line(message, data)])


def _one_line(message: str, data: dict[str, Any]) -> str:
    """A record's message as one line. Of a message with a traceback, or a record with one in a field of its own, it is
    the first words and the exception: hints and frames around it are no message of their own.
    """
    trace = _first_field(data, _TRACE)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    traced = trace.splitlines() if isinstance(trace, str) else []
    exceptions = [line for line in (*lines, *map(str.strip, traced)) if _EXCEPTION.match(line)]
    if not exceptions or len(lines) + len(traced) < 2:
        return " ".join(lines)
    is_own = not lines or _TRACE_BEGIN.match(lines[0]) or lines[0] == exceptions[-1]
    return exceptions[-1] if is_own else f"{lines[0]}: {exceptions[-1]}"


def _first_field(data: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((data[key] for key in keys if data.get(key) is not None), None)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    # The journal writes messages that are not UTF-8 as lists of bytes.
    if isinstance(value, list) and value and all(isinstance(one, int) and 0 <= one < 256 for one in value):
        return bytes(value).decode("latin-1")
    return None


def _time(value: Any) -> str:
    """An ISO stamp; numbers are seconds, milli-, micro- or nanoseconds since the epoch, by their size."""
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        return value
    try:
        seconds = float(value)
        if not math.isfinite(seconds):
            return ""
        while seconds > 1e11:  # the year 5138
            seconds /= 1000
        at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"


def _host(value: Any) -> str:
    return f"[pod/{value}]" if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _rank(value: Any) -> str:
    return f"[rank{value}]:" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else ""


def _level(value: Any) -> str:
    if isinstance(value, str) and (number := numbers.whole(value)) is not None:
        value = number
    if isinstance(value, int) and not isinstance(value, bool):
        return f"[{_PRIORITIES[value]}]" if 0 <= value < len(_PRIORITIES) else ""
    name = _LEVELS.get(str(value).lower()) if value is not None else None
    return f"[{name}]" if name else ""

"""Logs that a collector wrapped, as JSON lines or as the journal's export, are unwrapped: they read like any other log.

Known by their keys, not by their program: container logs (``log``, ``time``), ``journalctl -o json`` (``MESSAGE``,
``__REALTIME_TIMESTAMP``), structured loggers
(``msg``, ``level``, ``ts``), torchrun's ``error.json`` (a message within a message). ``journalctl -o export`` writes a
record as lines ``FIELD=value`` up to a blank line: its ``MESSAGE`` line takes the record's time, host and program.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from typing import Any

_MESSAGE = ("message", "msg", "log", "MESSAGE", "event", "text", "body")
_LEVEL = ("level", "levelname", "severity", "lvl", "PRIORITY")
_TIME = ("time", "ts", "timestamp", "@timestamp", "asctime", "__REALTIME_TIMESTAMP", "t")
_HOST = ("_HOSTNAME", "hostname", "host", "node", "pod", "pod_name")
_RANK = ("rank", "global_rank")
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
_PROBED = 5
#: A field of an export; without ``=`` its value, of a given length, follows on the next lines.
_FIELD = re.compile(r"([A-Z_][A-Z0-9_]*)(?:=(.*))?$", re.DOTALL)
_EXPORT = ("__CURSOR=", "__REALTIME_TIMESTAMP=")


def is_wrapped(text: str) -> bool:
    """Whether a log that begins with ``text`` holds a JSON object with a message on each line, or is an export. A
    last, cut line is not asked.
    """
    if is_export(text):
        return True
    found = [line for line in text.split("\n") if line.strip()]
    whole = found[:_PROBED] if len(found) <= 1 or text.endswith("\n") else found[:-1][:_PROBED]
    return bool(whole) and all(line.lstrip().startswith("{") and unwrap(line) != line for line in whole)


def is_export(text: str) -> bool:
    """Whether a log that begins with ``text`` is what ``journalctl -o export`` writes."""
    return text.lstrip("\n").startswith(_EXPORT) and "\n__REALTIME_TIMESTAMP=" in f"\n{text}"


def unwrap_all(lines: Sequence[str]) -> list[str]:
    """Each of the consecutive lines of a wrapped log, unwrapped. O(characters)."""
    if next((line for line in lines if line.strip()), "").lstrip().startswith("{"):
        return [unwrap(line) for line in lines]
    out = [""] * len(lines)
    first = 0
    for at in (*(n for n, line in enumerate(lines) if not line), len(lines)):
        _exported(lines, first, at, out)
        first = at + 1
    return out


def _exported(lines: Sequence[str], first: int, last: int, out: list[str]) -> None:
    """Sets what ``lines[first:last]``, one record of an export, say; its other fields become blank lines."""
    data: dict[str, str] = {}
    said: list[int] = []  # lines of the message
    name = ""
    for at in range(first, last):
        field = _FIELD.match(lines[at])
        if field and field[2] is not None:
            name = ""
            data.setdefault(field[1], field[2])
            if field[1] == "MESSAGE":
                said = [at]
        elif field and not name:
            name = field[1]
        elif name == "MESSAGE":
            said.append(at)
    for number, at in enumerate(said):
        out[at] = lines[at].removeprefix("MESSAGE=") if number else _begun(data, lines[at])


def _begun(data: dict[str, str], line: str) -> str:
    """The first line of a record's message, headed as syslog does. Before a value of given length stand eight bytes."""
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
    inner = data.get("message")
    if isinstance(inner, dict):
        more = inner.get("extraInfo")
        data = {**inner, **(more if isinstance(more, dict) else {})}
    message = _text(_first(data, _MESSAGE))
    if message is None:
        return line
    parts = [
        _time(_first(data, _TIME)),
        _host(_first(data, _HOST)),
        _rank(_first(data, _RANK)),
        _level(_first(data, _LEVEL)),
    ]
    return " ".join([part for part in parts if part] + [message.replace("\n", " ").replace("\r", " ").rstrip()])


def _first(data: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((data[key] for key in keys if data.get(key) is not None), None)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    # The journal gives messages that are no UTF-8 as lists of bytes.
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
    return f"{value}:" if isinstance(value, str) and value and not any(char.isspace() for char in value) else ""


def _rank(value: Any) -> str:
    return f"[rank{value}]:" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else ""


def _level(value: Any) -> str:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"[{_PRIORITIES[value]}]" if 0 <= value < len(_PRIORITIES) else ""
    name = _LEVELS.get(str(value).lower()) if value is not None else None
    return f"[{name}]" if name else ""

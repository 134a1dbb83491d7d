"""Logs whose lines are JSON objects: what a collector wrapped is unwrapped, so that it reads like any other log.

Known by their keys, not by their program: container logs (``log``, ``time``), ``journalctl -o json`` (``MESSAGE``,
``__REALTIME_TIMESTAMP``), structured loggers
(``msg``, ``level``, ``ts``), torchrun's ``error.json`` (a message within a message).
"""

from __future__ import annotations

import datetime
import json
import math
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


def is_wrapped(text: str) -> bool:
    """Whether a log that begins with ``text`` holds a JSON object with a message on each line. A last, cut line is
    not asked.
    """
    found = [line for line in text.split("\n") if line.strip()]
    whole = found[:_PROBED] if len(found) <= 1 or text.endswith("\n") else found[:-1][:_PROBED]
    return bool(whole) and all(line.lstrip().startswith("{") and unwrap(line) != line for line in whole)


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

"""Statements of health monitors about nodes: Alertmanager's webhook, NVSentinel's CloudEvents, and plain JSON.

Each becomes one line of text. A statement that something is over names no error, so that no rule takes it for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from diagnosis.values import plain
from ingest.refusals import Refused

#: statements in one request
MAX_EVENTS: Final = 1000
_MAX_TEXT, _MAX_NAME = 600, 200
#: labels that name a node, in the order in which exporters are specific about it
_NODE_LABELS: Final = ("node", "Hostname", "hostname", "host", "nodename", "kubernetes_node", "node_name", "instance")
_SHOWN_LABELS: Final = ("gpu", "device", "port", "modelName", "pci_bus_id", "err_code")
_LEVELS: Final = {"critical": "ERROR", "error": "ERROR", "page": "ERROR", "warning": "WARN"}
_NVSENTINEL: Final = "com.nvidia.nvsentinel.health"


class NodeEvent(NamedTuple):
    """One statement. ``at`` in ns since 1970, 0 if it is not stated; ``source`` is a plain name of who says it."""

    node: str
    at: int
    level: str
    source: str
    text: str


def events_of(data: bytes) -> tuple[list[NodeEvent], Counter[str]]:
    """The statements of one body, and sentences with the number of those that cannot be read. O(bytes).

    Raises :class:`Refused`: (400) no JSON, (422) none of the forms, (413) too many statements.
    """
    if not data.strip():
        raise Refused("The body is empty.", code="bad_body", status=422)
    try:
        said = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refused(f"The body is no JSON: {str(error)[:200]}.", code="bad_body", status=400) from error
    rows = list(_rows(said))
    if len(rows) > MAX_EVENTS:
        raise Refused(f"One request may have {MAX_EVENTS:,} events: send fewer at a time.", code="too_many", status=413)
    found: list[NodeEvent] = []
    problems: Counter[str] = Counter()
    for read, row in rows:
        event = read(row) if isinstance(row, dict) else None
        if event is None:
            problems["it names no node, or says nothing."] += 1
        else:
            found.append(event)
    return found, problems


type _EventReader = Callable[[Mapping[str, Any]], NodeEvent | None]


def _rows(body: Any) -> Iterator[tuple[_EventReader, Any]]:
    """Each statement with the function that reads it."""
    for one in body if isinstance(body, list) else [body]:
        if isinstance(one, dict) and isinstance(one.get("alerts"), list):
            yield from ((_alert, row) for row in one["alerts"])
        elif isinstance(one, dict) and str(one.get("type", "")).startswith(_NVSENTINEL):
            yield _nvsentinel, _part(_part(one, "data"), "healthEvent")
        elif isinstance(one, dict) and isinstance(one.get("events"), list):
            yield from ((_plain, row) for row in one["events"])
        else:
            sentence = "The body has no “alerts” (Alertmanager), no health event (NVSentinel) and no “events”."
            raise Refused(sentence, code="bad_body", status=422)


def _alert(row: Mapping[str, Any]) -> NodeEvent | None:
    labels, notes = _part(row, "labels"), _part(row, "annotations")
    name = _word(labels.get("alertname")) or "alert"
    node = next((_word(labels[key]) for key in _NODE_LABELS if labels.get(key)), "")
    if row.get("status") == "resolved":
        return _event(node, row.get("endsAt"), "INFO", "alertmanager", f"{name} is resolved")
    where = ", ".join(f"{key} {_word(labels[key])}" for key in _SHOWN_LABELS if labels.get(key))
    what = _line(notes.get("summary") or notes.get("description") or notes.get("message") or "")
    said = f"{name}: {what}" if what else name
    level = _LEVELS.get(_word(labels.get("severity")).lower(), "WARN")
    return _event(node, row.get("startsAt"), level, "alertmanager", f"{said} ({where})" if where else said)


def _nvsentinel(row: Mapping[str, Any]) -> NodeEvent | None:
    check = _word(row.get("checkName")) or "check"
    parts = row.get("entitiesImpacted")
    rows = [one for one in parts if isinstance(one, dict)][:8] if isinstance(parts, list) else []
    where = ", ".join(f"{_word(one.get('entityType'))} {_word(one.get('entityValue'))}" for one in rows)
    at, node = row.get("generatedTimestamp"), _word(row.get("nodeName"))
    if row.get("isHealthy") is True:
        return _event(node, at, "INFO", "nvsentinel", f"{check} is healthy")
    codes = row.get("errorCode")
    words = [_word(one) for one in codes][:8] if isinstance(codes, list) else []
    is_xid = "xid" in check.lower()
    told = " ".join(f"Xid {one}" if is_xid and one.isdecimal() else one for one in words)
    what = ": ".join(part for part in (check, told, _line(row.get("message") or "")) if part)
    level = "ERROR" if row.get("isFatal") is True else "WARN"
    return _event(node, at, level, "nvsentinel", f"{what} ({where})" if where else what)


def _plain(row: Mapping[str, Any]) -> NodeEvent | None:
    level = _LEVELS.get(_word(row.get("severity")).lower(), "INFO" if row.get("severity") else "WARN")
    source = "".join(
        sign for sign in _word(row.get("source")).lower() if sign.isascii() and (sign.isalnum() or sign in "-_")
    )
    return _event(
        _word(row.get("node")), row.get("at"), level, source[:40] or "events", _line(row.get("message") or "")
    )


def _event(node: str, at: Any, level: str, source: str, text: str) -> NodeEvent | None:
    return NodeEvent(node, _ns(at), level, source, text[:_MAX_TEXT]) if node and text else None


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _line(value: Any) -> str:
    """Text of a stranger as one line of visible characters."""
    return " ".join(plain.visible(plain.text(str(value)[: 4 * _MAX_TEXT])).split())[:_MAX_TEXT]


def _word(value: Any) -> str:
    return _line(value)[:_MAX_NAME] if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _ns(value: Any) -> int:
    """RFC 3339 with a zone, or seconds since 1970. 0 for anything else, and for Go's time zero."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1 << 33:
        return round(value * 1e6) * 1000
    try:
        moment = datetime.fromisoformat(str(value)[:40])
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, round(moment.timestamp() * 1e6) * 1000)
    except (ValueError, OverflowError):
        return 0

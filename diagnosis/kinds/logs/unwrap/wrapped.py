"""Unwraps logs that a collector wrapped, as JSON lines or as the journal's export, so that they read like any other
log.

Recognised by their keys, not by their program: container logs (``log``, ``time``), ``journalctl -o json`` (``MESSAGE``,
``__REALTIME_TIMESTAMP``), structured loggers (``msg``, ``level``, ``ts``), torchrun's ``error.json`` (a message within
a message), records of cloud collectors (``textPayload`` or ``jsonPayload`` with ``resource.labels``). ``journalctl -o
export`` writes a record as lines ``FIELD=value`` up to a blank line: its ``MESSAGE`` line takes the record's time, host
and program. Fluentd writes pairs of time and record, syslog servers frames of RFC 5424. Clients of log stores put
labels before each line (``{host="a", rank="3"} …``), tails of pods the names of pod and container
(``pod-7 trainer …``). Lines of pairs (:mod:`logfmt`) hold texts of several lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice

from diagnosis.kinds.logs.unwrap import exported, logfmt, structured
from diagnosis.kinds.logs.unwrap.structured import StructuredRecord
from diagnosis.knowledge.late_patterns import late
from diagnosis.values import log_lines

_LINES_PROBED = 5
#: Labels in braces, after the store's time or at once; group 1 is the time, 2 the labels, 3 the line.
_LABELS = late(
    r'(?:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*)\s+)?\{((?:[A-Za-z_][\w.]*="[^"]*"(?:,\s*)?)+)\}\s(.*)', re.DOTALL
)
_LABEL = late(r'([A-Za-z_][\w.]*)="([^"]*)"')
#: A pair of time and record, as Fluentd and Fluent Bit write them.
_TIME_AND_RECORD = late(r"(?:\[\d+\] \S+ )?\[\[?(\d{9,10}(?:\.\d+)?)(?:, \{[^{}]*\}\])?, ?(\{.*\})\]\s*$")
#: Priority, time, host, program, process, message id, structured data, message.
_SYSLOG_FRAME = late(r"<\d{1,3}>1 (\d{4}-\S+) (\S+) (\S+) (\S+) \S+ (?:-|(?:\[[^\]]*\])+)(?: \ufeff?(.*))?$", re.DOTALL)
#: Pod and container before a line; the pod is numbered, the container one word.
_POD_LINE = late(r"([a-z]++(?:[-.][a-z]++)*+[-.]?+\d[\w.-]*+) ([a-z][a-z0-9-]*) (.*)", re.DOTALL)
#: The message of a tail when it finds a pod.
_POD_FOUND = late(r"[+-] \S+ › \S+$")
#: A JSON object behind a header.
_HEADER_AND_OBJECT = late(r'([^{]{1,200}?)(\{\s*".*\})\s*$', re.DOTALL)
_CLOCK = late(log_lines.CLOCK)
#: Number of lines that must all name one container before a file counts as a tail of pods.
_MIN_POD_LINES = 8
#: Share of lines that must have such a header; a line may be cut.
_MIN_POD_SHARE = 0.98
#: A field of an export; without ``=`` its value, of a given length, follows on the next lines.
_FIELD = late(r"([A-Z_][A-Z0-9_]*)(?:=(.*))?$", re.DOTALL)
_EXPORT = ("__CURSOR=", "__REALTIME_TIMESTAMP=")


def is_wrapped(text: str) -> bool:
    """Whether a log that begins with ``text`` holds a JSON object with a message on each line, or is an export. A cut
    last line is ignored.
    """
    if is_export(text) or exported.begins(text):
        return True
    found = [line for line in text.split("\n") if line and not line.isspace()]
    if _unwrapper(found[:-1] if not text.endswith("\n") else found):
        return True
    whole = found[:_LINES_PROBED] if len(found) <= 1 or text.endswith("\n") else found[:-1][:_LINES_PROBED]
    return bool(whole) and all(line.lstrip().startswith("{") and unwrap(line) != line for line in whole)


def is_export(text: str) -> bool:
    """Whether a log that begins with ``text`` was written by ``journalctl -o export``."""
    return text.lstrip("\n").startswith(_EXPORT) and "\n__REALTIME_TIMESTAMP=" in f"\n{text}"


def unwrap_document(data: bytes) -> list[str]:
    """The lines of an export of a log store; none of anything else. O(bytes)."""
    if len(data) > exported.MAX_BYTES:
        return []
    return [line for record in exported.records(data) for line in _lines(record, "").split("\n")]


def unwrap_all(lines: Sequence[str]) -> list[str]:
    """Each of the consecutive lines of a wrapped log, unwrapped: a record may have several lines. O(characters)."""
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
    if logfmt.is_logfmt(lines[:_LINES_PROBED]):
        return _without_escapes
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
    has_message = [bool(match and _text_record(match[2])) for match in found]
    return any(has_message) if is_known else bool(has_message) and all(has_message)


def _is_tail(lines: Sequence[str], *, is_known: bool) -> bool:
    strange = (line for line in lines if not "a" <= line[:1] <= "z" and line[:1] not in "+-")
    if next(islice(strange, int((1 - _MIN_POD_SHARE) * len(lines)), None), None) is not None:
        return False  # the first characters of the lines exclude nearly every log
    pod_lines = [line for line in lines if not line.startswith(("+", "-")) or not _POD_FOUND.match(line)]
    tailed = _tailed(pod_lines)
    if not tailed or len(tailed) < _MIN_POD_SHARE * len(pod_lines):
        return False
    is_announced = len(pod_lines) < len(lines)
    return is_known or (len(tailed) >= _MIN_POD_LINES and _is_of_pods(tailed, is_announced=is_announced))


def _is_of_pods(tailed: Sequence[re.Match[str]], *, is_announced: bool) -> bool:
    """One word after every name is a container, unless there is only one name: then it may be the program's wording."""
    containers, pods = {match[2] for match in tailed}, {match[1] for match in tailed}
    return len(containers) == 1 and (len(pods) > 1 or is_announced)


def _tailed(pod_lines: Sequence[str]) -> list[re.Match[str]]:
    """The lines with names before them; none as soon as too many have none."""
    found: list[re.Match[str]] = []
    for number, line in enumerate(pod_lines):
        match = _POD_LINE.match(line)
        if match:
            found.append(match)
        elif number + 1 - len(found) > (1 - _MIN_POD_SHARE) * len(pod_lines):
            return []
    return found


def _without_labels(line: str) -> str:
    """``time host: [rankN]: line`` of a line with labels."""
    match = _LABELS.match(line)
    if match is None:
        return line
    labels = structured.record_of(dict(_LABEL.findall(match[2])))
    parts = [match[1] or "", _host(labels.node), _rank(labels.rank)]
    return _with_header("".join(f"{part} " for part in parts if part), match[3], has_time=bool(match[1]))


def _without_pair(line: str) -> str:
    """The record of a pair of time and record, with that time."""
    match = _TIME_AND_RECORD.match(line)
    record = _text_record(match[2]) if match else None
    if match is None or record is None:
        return line
    return _lines(record._replace(stamp=structured.stamp_text(match[1])), "")


def _without_frame(line: str) -> str:
    """``time host program[process]: message`` of a frame of RFC 5424; ``-`` stands for an unknown field."""
    match = _SYSLOG_FRAME.match(line)
    if match is None:
        return line
    time, host, program, process, message = match.groups()
    number = f"[{process}]" if process.isdigit() else ""
    return f"{time} {host} {program}{number}: {message or ''}"


def _without_escapes(line: str) -> str:
    """The record of a line of pairs with a value of several lines; any other line as it is."""
    record = logfmt.record_of(line)
    return line if record is None else _lines(record, "")


def _without_header(line: str) -> str:
    """``header [rankN]: [LEVEL] message`` of a line with a JSON object after a header; its own time if the header
    states none.
    """
    match = _HEADER_AND_OBJECT.match(line)
    return _with_header(match[1], match[2], has_time=bool(_CLOCK.search(match[1]))) if match else line


def _with_header(header: str, text: str, *, has_time: bool) -> str:
    """A collector's header before each line of the record in ``text``, whose time is left out if the collector wrote
    one; before ``text`` if it is no record.
    """
    record = _text_record(text)
    if record is None:
        return f"{header}{text}"
    return _lines(record._replace(stamp="" if has_time else record.stamp, node=""), header)


def _text_record(text: str) -> StructuredRecord | None:
    """The record in a JSON object with a text; None for anything else."""
    data = structured.fields_of(text) if text.lstrip().startswith("{") else None
    record = structured.record_of(data) if data is not None else None
    return record if record is not None and record.has_text else None


def _lines(record: StructuredRecord, header: str) -> str:
    """``header time host: [rankN]: [LEVEL] line`` of each line of a record."""
    parts = [record.stamp, _host(record.node)]
    before = header + "".join(f"{part} " for part in parts if part)
    return "\n".join(structured.headed(record.lines, before, record.head)) or f"{before}{record.head}".rstrip()


def _without_pod(line: str) -> str:
    """``pod: line`` of a line with the names of pod and container; nothing for a line that reports a found pod."""
    match = _POD_LINE.match(line)
    if match is None:
        return "" if _POD_FOUND.match(line) else line
    return _with_header(f"{match[1]}: ", match[3], has_time=False)


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
    record = structured.record_of(data)
    host, time = record.node, record.stamp
    if not time or not host:
        return " ".join(part for part in (time, _level(record.level), text) if part)
    return f"{time} {host} {re.sub(r'[^A-Za-z0-9_./@()-]', '-', program) or 'journal'}: {text}"


def unwrap(line: str) -> str:
    """``time host: [rankN]: [LEVEL] text`` for lines of a JSON record; others unchanged."""
    record = _text_record(line)
    return line if record is None else _lines(record, "")


def _host(name: str) -> str:
    """In the form that no message has: "gpu-19:" before a message may be a device."""
    return f"[pod/{name}]" if name else ""


def _rank(number: str) -> str:
    return f"[rank{number}]:" if number else ""


def _level(word: str) -> str:
    return f"[{word}]" if word else ""

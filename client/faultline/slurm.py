"""What Slurm's commands say of jobs and nodes, in the shapes of all versions: JSON, one-line records, tables of sacct.

Pure: text in, rows out. A record that cannot be read is left out; nothing in the output bounds memory but its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Optional

#: how Faultline names the end of a job in this state; other states have not ended
OUTCOMES = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "TIMEOUT": "failed",
    "DEADLINE": "failed",
    "BOOT_FAIL": "failed",
    "CANCELLED": "cancelled",
    "PREEMPTED": "cancelled",
    "REVOKED": "cancelled",
}
#: a job id: plain, array task or component; not the pending rest of an array (123_[4-9])
_ID = re.compile(r"(\d+)(?:[_+](\d+))?$")
_PAIR = re.compile(r"(?:^| )([A-Za-z][A-Za-z:/_]*)=")
_NOTHING = ("", "(null)", "None", "N/A", "Unknown", "NONE")


class Job(NamedTuple):
    """A job as the scheduler knows it. ``submit``, ``start`` and ``end`` are seconds since 1970; 0: unknown."""

    id: str
    name: str
    state: str
    reason: str
    exit_code: int
    signal: int
    restarts: int
    nodes: str
    failed_node: str
    submit: int
    start: int
    end: int
    partition: str
    user: str

    @property
    def outcome(self) -> Optional[str]:  # noqa: UP045  # Python 3.9
        return OUTCOMES.get(self.state)


class Node(NamedTuple):
    """A node that is down, drained or silent, and why."""

    name: str
    state: str
    reason: str


def jobs_of(text: str) -> list[Job]:
    """Jobs in the output of ``squeue --json``, ``sacct --json``, ``scontrol show job [--json|-o]``, ``sacct -P``."""
    return [job for row in _records(text, "jobs") if (job := _job(row)) is not None]


def nodes_of(text: str) -> list[Node]:
    """Nodes that cannot work, in the output of ``sinfo --json`` or ``scontrol show node -o``."""
    found = []
    for row in _records(text, "nodes"):
        flags = {flag.upper() for flag in _words(_get(row, "state", "State"))} | {
            f.upper() for f in _words(row.get("state_flags"))
        }
        name = str(_get(row, "name", "NodeName", "hostname") or "")
        state = "+".join(sorted(flags))
        if name and any(word in state for word in ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "*", "POWERED_DOWN")):
            found.append(Node(name, state, _plain(_get(row, "reason", "Reason")).split(" [")[0]))
    return found


def hosts_of(text: str, most: int = 20_000) -> list[str]:
    """The names in a host list: ``c[01-03,7],d1`` is c01, c02, c03, c7, d1. At most ``most``."""
    found: list[str] = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?[^,\[\]]*", text)[:most]:
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if not match:
            found.append(part)
            continue
        for piece in match[2].split(","):
            low, _, high = piece.partition("-")
            if not low.isdigit() or (high and not high.isdigit()) or len(low) > 9 or len(high) > 9:
                continue
            for number in range(int(low), min(int(high or low), int(low) + most - len(found)) + 1):
                if len(found) >= most:
                    return found
                found.append(f"{match[1]}{number:0{len(low)}d}{match[3]}")
    return found[:most]


def _records(text: str, of: str) -> Iterator[Mapping[str, Any]]:
    if text.lstrip().startswith("{"):
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        rows = said.get(of) if isinstance(said, dict) else None
        yield from (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
        return
    lines = text.splitlines()
    if lines and "|" in lines[0] and "=" not in lines[0]:
        names = lines[0].split("|")
        yield from (dict(zip(names, line.split("|"))) for line in lines[1:])
        return
    for line in lines:
        marks = list(_PAIR.finditer(line))
        if marks:
            ends = [mark.start() for mark in marks[1:]] + [len(line)]
            yield {mark[1]: line[mark.end() : end].strip() for mark, end in zip(marks, ends)}


def _job(row: Mapping[str, Any]) -> Optional[Job]:  # noqa: UP045
    name_of = str(_get(row, "job_id", "JobId", "JobIDRaw", "JobID") or "")
    if row.get("array_task_id") and _number(row["array_task_id"]) and _number(row.get("array_job_id")):
        name_of = f"{_number(row['array_job_id'])}_{_number(row['array_task_id'])}"
    if not _ID.match(name_of):  # steps of sacct (123.batch) and pending rests of arrays
        return None
    states = _words(_get(row, "job_state", "JobState", "State", "state"))
    if not states:
        return None
    code, signal = exit_of(_get(row, "exit_code", "ExitCode"))
    times = row["time"] if isinstance(row.get("time"), dict) else {}
    reason = row["state"].get("reason") if isinstance(row.get("state"), dict) else None
    return Job(
        id=name_of,
        name=_plain(_get(row, "name", "JobName")),
        state=states[0].upper(),
        reason=_plain(_get(row, "state_reason", "Reason") or reason),
        exit_code=code,
        signal=signal,
        restarts=_number(_get(row, "restart_cnt", "Restarts")),
        nodes=_plain(_get(row, "nodes", "NodeList")),
        failed_node=_plain(_get(row, "failed_node", "FailedNode")),
        submit=_seconds(_get(row, "submit_time", "SubmitTime", "Submit") or times.get("submission")),
        start=_seconds(_get(row, "start_time", "StartTime", "Start") or times.get("start")),
        end=_seconds(_get(row, "end_time", "EndTime", "End") or times.get("end")),
        partition=_plain(_get(row, "partition", "Partition")),
        user=_plain(_get(row, "user_name", "UserId", "User", "user")).split("(")[0],
    )


def exit_of(said: Any) -> tuple[int, int]:
    """Exit code and signal, from any of the shapes: ``"3:0"``, a wait status (768), ``{"set", "number"}`` with one,
    ``{"return_code": 3, "signal": …}`` whose numbers may be wrapped themselves.
    """
    if isinstance(said, dict):
        if "return_code" in said:
            signal = said.get("signal")
            if isinstance(signal, dict):
                signal = signal.get("signal_id", signal.get("id"))
            return _number(said["return_code"]), _number(signal)
        said = _number(said)
    if isinstance(said, str):
        code, _, signal = said.partition(":")
        return _number(code), _number(signal)
    status = _number(said)
    return status >> 8 & 0xFF, status & 0x7F


def _get(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _words(said: Any) -> list[str]:
    """A state: text (``CANCELLED by 1000``, ``DOWN*+DRAIN``), a list, or ``{"current": […]}``."""
    if isinstance(said, dict):
        said = said.get("current")
    if isinstance(said, list):
        return [str(one) for one in said]
    return [word for word in re.split(r"[+ ]", said)[:8] if word] if isinstance(said, str) else []


def _plain(said: Any) -> str:
    text = " ".join(str(said).split())[:2_000] if isinstance(said, (str, int)) else ""
    return "" if text in _NOTHING else text


def _number(said: Any) -> int:
    """A number, plain, as text, or ``{"set": true, "infinite": false, "number": 3}``; 0 for anything else."""
    if isinstance(said, dict):
        said = said.get("number") if said.get("set", True) and not said.get("infinite") else 0
    if isinstance(said, str):
        said = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
    return said if isinstance(said, int) and 0 <= said < 1 << 53 else 0


def _seconds(said: Any) -> int:
    if isinstance(said, str) and "-" in said:
        try:
            return max(0, int(datetime.fromisoformat(said).timestamp()))
        except (ValueError, OverflowError, OSError):
            return 0
    return _number(said)

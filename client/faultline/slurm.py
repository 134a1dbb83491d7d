"""What Slurm's commands say of jobs and nodes, in the shapes of all versions: JSON, one-line records, tables of sacct.

A record that cannot be read is left out; nothing in the output bounds memory but its length.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Callable, Optional

from faultline.scheduled import Job, Node, Snapshot, state_line

#: seconds that a command of Slurm may take
_COMMAND_S = 60.0
_JOB_COMMANDS = (
    ("squeue", "--json", "-t", "all"),
    ("scontrol", "show", "job", "-o"),
    (
        "sacct",
        "-X",
        "-P",
        "-S",
        "now-1hour",
        "--format=JobID,JobIDRaw,JobName,State,ExitCode,Submit,Start,End,NodeList,Restarts",
    ),
)
_NODE_COMMANDS = (("scontrol", "show", "node", "-o"), ("sinfo", "--json"))
#: a job id: plain, or of tables without plain ids an array task or component; not the pending rest of an array
#: (123_[4-9])
_ID = re.compile(r"(\d+)(?:[_+](\d+))?$")
_PAIR = re.compile(r"(?:^| )([A-Za-z][A-Za-z:/_]*)=")
_EMPTY_VALUES = ("", "(null)", "None", "N/A", "Unknown", "NONE")


def jobs_of(text: str) -> list[Job]:
    """Jobs in the output of ``squeue --json``, ``sacct --json``, ``scontrol show job [--json|-o]``, ``sacct -P``."""
    return [job for row in _records(text, "jobs") if (job := _job(row)) is not None]


def nodes_of(text: str) -> list[Node]:
    """Nodes that cannot work, in the output of ``sinfo --json`` or ``scontrol show node -o``."""
    found = []
    for row in _records(text, "nodes"):
        flags = {flag.upper() for flag in _state_words(_get(row, "state", "State"))} | {
            f.upper() for f in _state_words(row.get("state_flags"))
        }
        name = str(_get(row, "name", "NodeName", "hostname") or "")
        state = "+".join(sorted(flags))
        if name and any(word in state for word in ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "*", "POWERED_DOWN")):
            found.append(Node(name, state, _plain_value(_get(row, "reason", "Reason")).split(" [")[0]))
    return found


def hosts_of(text: str, max_hosts: int = 20_000) -> list[str]:
    """The names in a host list: ``c[01-03,7],d1`` is c01, c02, c03, c7, d1. At most ``max_hosts``."""
    found: list[str] = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?[^,\[\]]*", text)[:max_hosts]:
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if not match:
            found.append(part)
            continue
        for piece in match[2].split(","):
            low, _, high = piece.partition("-")
            if not low.isdigit() or (high and not high.isdigit()) or len(low) > 9 or len(high) > 9:
                continue
            for number in range(int(low), min(int(high or low), int(low) + max_hosts - len(found)) + 1):
                if len(found) >= max_hosts:
                    return found
                found.append(f"{match[1]}{number:0{len(low)}d}{match[3]}")
    return found[:max_hosts]


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
    listed = str(_get(row, "job_id", "JobId", "JobID") or "")
    if not _ID.match(listed):  # steps of sacct (123.batch) and pending rests of arrays
        return None
    states = _state_words(_get(row, "job_state", "JobState", "State", "state"))
    if not states:
        return None
    code, signal = exit_of(_get(row, "exit_code", "ExitCode"))
    times = row["time"] if isinstance(row.get("time"), dict) else {}
    reason = row["state"].get("reason") if isinstance(row.get("state"), dict) else None
    return Job(
        id=str(row.get("JobIDRaw") or listed),  # what the job's own scripts have as SLURM_JOB_ID, also in arrays
        name=_plain_value(_get(row, "name", "JobName")),
        state=states[0].upper(),
        reason=_plain_value(_get(row, "state_reason", "Reason") or reason),
        exit_code=code,
        signal=signal,
        restarts=_number(_get(row, "restart_cnt", "Restarts")),
        nodes=_plain_value(_get(row, "nodes", "NodeList")),
        failed_node=_plain_value(_get(row, "failed_node", "FailedNode")),
        submit=_seconds(_get(row, "submit_time", "SubmitTime", "Submit") or times.get("submission")),
        start=_seconds(_get(row, "start_time", "StartTime", "Start") or times.get("start")),
        end=_seconds(_get(row, "end_time", "EndTime", "End") or times.get("end")),
        partition=_plain_value(_get(row, "partition", "Partition")),
        user=_plain_value(_get(row, "user_name", "UserId", "User", "user")).split("(")[0],
    )


def exit_of(value: Any) -> tuple[int, int]:
    """Exit code and signal, from any of the shapes: ``"3:0"``, a wait status (768), ``{"set", "number"}`` with one,
    ``{"return_code": 3, "signal": …}`` whose numbers may be wrapped themselves.
    """
    if isinstance(value, dict):
        if "return_code" in value:
            signal = value.get("signal")
            if isinstance(signal, dict):
                signal = signal.get("signal_id", signal.get("id"))
            return _number(value["return_code"]), _number(signal)
        value = _number(value)
    if isinstance(value, str):
        code, _, signal = value.partition(":")
        return _number(code), _number(signal)
    status = _number(value)
    return status >> 8 & 0xFF, status & 0x7F


def _get(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _state_words(value: Any) -> list[str]:
    """A state: text (``CANCELLED by 1000``, ``DOWN*+DRAIN``), a list, or ``{"current": […]}``."""
    if isinstance(value, dict):
        value = value.get("current")
    if isinstance(value, list):
        return [str(one) for one in value]
    return [word for word in re.split(r"[+ ]", value)[:8] if word] if isinstance(value, str) else []


def _plain_value(value: Any) -> str:
    text = " ".join(str(value).split())[:2_000] if isinstance(value, (str, int)) else ""
    return "" if text in _EMPTY_VALUES else text


def _number(value: Any) -> int:
    """A number, plain, as text, or ``{"set": true, "infinite": false, "number": 3}``; 0 for anything else."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else 0
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 16 else 0
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0


def _seconds(value: Any) -> int:
    if isinstance(value, str) and "-" in value:
        try:
            return max(0, int(datetime.fromisoformat(value).timestamp()))
        except (ValueError, OverflowError, OSError):
            return 0
    return _number(value)


def line_of(job: Job, *, names_node: bool = False) -> str:
    """One line in Slurm's own words, which the engine reads. ``names_node``: another line says which node was lost."""
    state = "ended" if job.state == "NODE_FAIL" and (names_node or job.failed_node) else f"State={job.state}"
    return state_line(f"slurmctld: JobId={job.id} {state}", job)


def node_line_of(node: Node) -> str:
    """One line about a node that a job lost, or soon will."""
    why = f": {node.reason}" if node.reason else ""
    if "*" in node.state or "NOT_RESPONDING" in node.state:
        return f"slurmctld: error: Nodes {node.name} not responding, setting DOWN{why}"
    if "DOWN" in node.state or "FAIL" in node.state:
        return f"slurmctld: error: Node {node.name} went down{why}"
    return f"slurmctld: drain node {node.name} State={node.state}{why}"


class Slurm:
    """Slurm as its commands show it. A look runs two commands."""

    name = "Slurm"
    file = "scheduler/slurm.log"

    def __init__(
        self,
        ask: Optional[Callable[[tuple[str, ...]], str]] = None,  # noqa: UP045
        note: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._ask, self._note = ask or _run, note
        self._noted: set[str] = set()

    def take_snapshot(self, running: list[Job]) -> Snapshot:
        """All jobs, and the nodes that cannot work."""
        return Snapshot(jobs_of(self._first(_JOB_COMMANDS)), nodes_of(self._first(_NODE_COMMANDS)), {})

    def slug_of(self, job: Job) -> str:
        """Slurm's id, without anything else: scripts that have only ``SLURM_JOB_ID``, and collectors that have only the
        label ``slurm_job_id``, find the same job.
        """
        return job.id.replace("_", "-").replace("+", "-")

    def line_of(self, job: Job, *, names_node: bool) -> str:
        return line_of(job, names_node=names_node)

    def node_line_of(self, node: Node) -> str:
        return node_line_of(node)

    def restart_line_of(self, ran: Job) -> str:
        """The last line of an attempt after which the job was queued again."""
        return f"slurmctld: JobId={ran.id} was requeued, NodeList={ran.nodes}"

    def _first(self, commands: tuple[tuple[str, ...], ...]) -> str:
        """The output of the first command that works here."""
        why = ""
        for command in commands:
            try:
                return self._ask(command)
            except (OSError, subprocess.SubprocessError) as error:  # noqa: PERF203
                why = f"{' '.join(command[:2])}: {error}"
        if why not in self._noted:
            self._noted.add(why)
            self._note(f"Slurm says nothing ({why})")
        return ""


def _run(command: tuple[str, ...]) -> str:
    done = subprocess.run(  # noqa: S603  # fixed commands
        list(command),
        capture_output=True,
        timeout=_COMMAND_S,
        check=True,
        env={**os.environ, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"},
    )
    return done.stdout.decode("utf-8", "replace")

"""What schedulers say of jobs, in one shape: :mod:`slurm` and :mod:`kubernetes` make it, :mod:`scheduler` tells it."""

from __future__ import annotations

from typing import NamedTuple, Optional

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


class JobLine(NamedTuple):
    """One more line about a job, told once. ``key`` identifies it; ``at``: seconds since 1970, 0 if not known."""

    key: str
    at: int
    attempt: int
    text: str


class Snapshot(NamedTuple):
    """One look at a scheduler: its jobs, the nodes that cannot work, and lines by the id of their job."""

    jobs: list[Job]
    nodes: list[Node]
    lines: dict[str, list[JobLine]]


def state_line(begin: str, job: Job) -> str:
    """A job's state as one line that the engine reads: ``begin``, then reason, restarts, nodes and how it ended."""
    words = [begin, f"Reason={job.reason.replace(' ', '_') or 'None'}", f"Restarts={job.restarts}"]
    if job.nodes:
        words.append(f"NodeList={job.nodes}")
    line = " ".join(words)
    if job.outcome and job.signal:
        return f"{line}: exited on signal {job.signal}"
    return f"{line}: Exited with exit code {job.exit_code}" if job.outcome and job.exit_code else line

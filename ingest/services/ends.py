"""What the ends of workers say about a run, and about the file that was read when they came.

Whoever ends a worker from outside (an upgrade, an operator, a lost machine) says nothing about the evidence: the run is
repeated, and such an end is counted only so that nothing is repeated for ever. Two ends count against the evidence: the
system ran out of memory meanwhile, or the worker still runs and was silent for longer than its lease. Ends count in a
row: whatever the run records in between forgets them. If they came over one file, that file alone is left out.

The counts are in ``Run.parameters``: ``{"over": an artifact's primary key or None, "own": 2, "outside": 1}``.
"""

from __future__ import annotations

from typing import Any

from ingest import processes
from ingest.isolation import End
from ingest.models import Artifact, Run

#: ends that count against the evidence, in a row, before it is left out
MAX_OWN = 3
#: ends from outside in a row; somebody who kills at random does not meet one file this often
MAX_OUTSIDE = 20

_MEMORY = (
    "The system ran out of memory, or a worker hung, {times} times while this was {done}: it was left out. Send it in "
    "smaller parts, or give the workers more memory, and retry."
)
_OUTSIDE = (
    "The workers that should have {done} this ended {times} times in a row, and nothing says why: it was left out. "
    "Look into the log of the workers, and retry."
)


def with_end(run: Run, end: End) -> dict[str, Any]:
    """The run's parameters after one more end of its worker. It is no try of the run's own."""
    over = _file_being_read(run)
    former = run.parameters.get(Run.ENDS, {})
    ends = former if former.get("over") == over else {}
    ends = {"over": over, **{kind.value: int(ends.get(kind, 0)) + (kind == end) for kind in End}}
    return {**run.parameters, Run.WAITS: int(run.parameters.get(Run.WAITS, 0)) + 1, Run.ENDS: ends}


def at_claim(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a run that is claimed now, with what :func:`was_short_of_memory` compares."""
    return {**parameters, Run.OOM_KILLS: processes.oom_kills()}


def was_short_of_memory(run: Run) -> bool:
    """Whether the system of this machine ended a process for lack of memory since the run was claimed here."""
    before, now = run.parameters.get(Run.OOM_KILLS), processes.oom_kills()
    return before is not None and now is not None and now > before


def after_progress(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a run that has recorded something: what ended or waited before says nothing any more."""
    return {name: value for name, value in parameters.items() if name not in (Run.ENDS, Run.HOLDS)}


def run_refusal(run: Run) -> str:
    """Why the run is not tried again, as a sentence; empty if it is, or if a file of it is the reason."""
    ends = run.parameters.get(Run.ENDS, {})
    return "" if ends.get("over") is not None else _sentence(ends, "done")


def file_refusal(run: Run, artifact: Artifact) -> str:
    """Why this file of the run is not read again, as a sentence; empty if it is."""
    ends = run.parameters.get(Run.ENDS, {})
    return _sentence(ends, "read") if ends.get("over") == artifact.pk else ""


def _sentence(ends: dict[str, Any], done: str) -> str:
    if ends.get(End.OWN, 0) >= MAX_OWN:
        return _MEMORY.format(times=ends[End.OWN], done=done)
    if ends.get(End.OUTSIDE, 0) >= MAX_OUTSIDE:
        return _OUTSIDE.format(times=ends[End.OUTSIDE], done=done)
    return ""


def _file_being_read(run: Run) -> int | None:
    """The file of a unit that its worker was reading. One of several may be meant that were read at once: a repeated
    unit reads and records them one by one.
    """
    reading = run.artifacts.filter(state=Artifact.State.PARSING, settled_at=None, range_runs=None)
    return reading.order_by("pk").values_list("pk", flat=True).first()

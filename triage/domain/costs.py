"""What one failure costs: time without progress, the wait for the next start, and steps computed
twice, times the GPUs.

Pure. The one place where seconds become GPU-hours (definitions: docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from diagnosis.facts.gpu_count import GpuCount, GpuEvidence, Source, count_gpus
from ingest.models import Attempt
from triage import metrics

HOUR_S = metrics.HOUR_S
#: a job that starts again later than this did not keep its machines: the scheduler gave them to
#: others
MAX_WAIT_S = 24 * HOUR_S
_SOURCES: dict[str, Source] = {"stated": "stated", "ranks": "ranks", "devices": "devices"}


@dataclass(frozen=True, slots=True)
class Cost:
    """One incident's cost. None for what is not known; ``is_assumed``: the number of GPUs is."""

    gpu_hours: float | None = None
    waited_gpu_hours: float | None = None
    repeated_gpu_hours: float | None = None
    node_hours: float | None = None
    is_assumed: bool = False


class AttemptFacts(Protocol):
    """What costs need of an attempt: the row of the model, or a tuple with columns of that name."""

    @property
    def number(self) -> int: ...
    @property
    def node_count(self) -> int | None: ...
    @property
    def gpus(self) -> int | None: ...
    @property
    def gpus_from(self) -> str: ...
    @property
    def training_at(self) -> datetime | None: ...
    @property
    def trained_until(self) -> datetime | None: ...
    @property
    def first_step(self) -> int | None: ...
    @property
    def last_step(self) -> int | None: ...


def gpus_of(attempt: AttemptFacts, usual_per_node: int) -> GpuCount | None:
    """The GPUs that the attempt's evidence shows, else nodes times those that a node of the cluster
    usually has.
    """
    if attempt.gpus:
        return GpuCount(attempt.gpus, _SOURCES.get(attempt.gpus_from, "assumed"))
    return count_gpus(GpuEvidence(nodes=attempt.node_count or 0), usual_per_node)


def training_of(timeline: Mapping[str, Any]) -> metrics.Attempt | None:
    """When training ran and which steps it did; None if the timeline of a report does not show
    it.
    """
    rows = timeline.get("iterations") or []
    timed = [row for row in rows if row.get("t") is not None and row.get("n") is not None]
    if not timed:
        return None
    first, last = timed[0], timed[-1]
    begin = first["t"] - (first.get("seconds") or 0.0)
    if last["t"] <= begin:
        return None
    return metrics.Attempt(begin, last["t"], int(first["n"]), int(last["n"]))


def training_of_attempt(attempt: AttemptFacts) -> metrics.Attempt | None:
    """The same as the attempt's row has it."""
    first, last = attempt.first_step, attempt.last_step
    begin, end = attempt.training_at, attempt.trained_until
    if begin is None or end is None or first is None or last is None:
        return None
    return metrics.Attempt(begin.timestamp(), end.timestamp(), first, last)


def waited_s(attempt: Attempt, following: Attempt | None) -> float | None:
    """From the end of an attempt until the next one trains, without the run of a next one that
    never trained: that is lost by itself. None without a next attempt, or if it came so late that
    the machines were not kept.
    """
    if following is None or attempt.ended_at is None:
        return None
    resumed_at = following.training_at or following.started_at
    if resumed_at is None:
        return None
    seconds = _seconds(attempt.ended_at, resumed_at)
    return seconds if 0.0 <= seconds <= MAX_WAIT_S else None


def repeated_s(attempts: Sequence[Attempt]) -> dict[int, float]:
    """By the number of each attempt that trained: seconds of training whose steps a later attempt
    did again.
    """
    trained = {row.number: launch for row in attempts if (launch := training_of_attempt(row))}
    productive = dict(metrics.productive_intervals(list(trained.values())))
    return {
        number: launch.ended_at - productive.get(launch.training_at, launch.training_at)
        for number, launch in trained.items()
    }


def cost_of(
    gpus: GpuCount | None,
    nodes: int | None,
    *,
    lost_s: float | None,
    lost_gpu_hours: float | None = None,
    waited: float | None = None,
    repeated: float | None = None,
) -> Cost:
    """The parts as GPU-hours and their sum; nothing is known without ``lost_s``.
    ``lost_gpu_hours``: the first part as the report states it. Times in seconds.
    """
    if lost_s is None:
        return Cost()
    later_s = (waited or 0.0) + (repeated or 0.0)
    node_hours = (lost_s + later_s) * nodes / HOUR_S if nodes else None
    if gpus is None:
        return Cost(gpu_hours=lost_gpu_hours, node_hours=node_hours)
    lost = lost_gpu_hours if lost_gpu_hours is not None else gpus.gpus * lost_s / HOUR_S
    return Cost(
        gpu_hours=lost + gpus.gpus * later_s / HOUR_S,
        waited_gpu_hours=None if waited is None else gpus.gpus * waited / HOUR_S,
        repeated_gpu_hours=None if repeated is None else gpus.gpus * repeated / HOUR_S,
        node_hours=node_hours,
        is_assumed=gpus.source == "assumed" and lost_gpu_hours is None,
    )


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()

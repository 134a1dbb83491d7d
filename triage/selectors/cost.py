"""The cost of failures of one job: effective training time, outages and their phases (definitions: docs/metrics.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diagnosis import metrics
from ingest.models import Job
from triage.models import Diagnosis, Incident
from triage.selectors.statistics import MIN_RUN_S


@dataclass(frozen=True, slots=True)
class OutageRow:
    """One incident as an outage; ``outage`` is None if it only slowed the job."""

    incident: Incident
    outage: metrics.Outage | None

    @property
    def phases(self) -> dict[str, float | None]:
        """Seconds of each phase; None if its end is not known."""
        if self.outage is None:
            return dict.fromkeys(("detect", "localise", "fail_over", "recompute"))
        ends = {"detect": self.outage.detected_at, "localise": self.outage.localised_at}
        ends |= dict.fromkeys(("fail_over", "recompute"), self.outage.resumed_at)
        return {name: None if ends[name] is None else spent for name, spent in self.outage.phases_s().items()}

    @property
    def gpu_hours(self) -> float | None:
        """What the outage cost; of a slowdown what the conclusion says. None if unknown."""
        return self.incident.gpu_hours if self.outage is None else self.outage.gpu_hours


@dataclass(frozen=True, slots=True)
class JobCost:
    """What the Cost tab shows. Ratios in [0, 1], times in seconds; None if the evidence does not show it.

    ``productive`` has the spans (from, to) in which each step was done for the first time.
    """

    started_at: float
    ended_at: float
    ettr: float | None
    productive_s: float
    recompute_s: float
    outages: list[OutageRow]
    mttr_s: float | None
    mtbf_h: float | None
    productive: list[tuple[float, float]]

    @property
    def gpu_hours(self) -> float:
        return sum(row.gpu_hours or 0.0 for row in self.outages)


def job_cost(job: Job) -> JobCost | None:
    """None if no attempt's logs have iterations with times. Three queries; linear in attempts and curve points."""
    newest = _newest_diagnoses(job)
    launches = {number: _launch(row.timeline or {}) for number, row in sorted(newest.items())}
    attempts = [row for row in launches.values() if row is not None]
    if not attempts:
        return None
    started_at = min(row.training_at for row in attempts)
    # a job that hangs after its last step costs time until it ends
    ends = [row.attempt.ended_at.timestamp() for row in newest.values() if row.attempt.ended_at]
    ended_at = max([*(row.ended_at for row in attempts), *ends])
    productive = metrics.productive_intervals(attempts)
    incidents = list(job.incidents.filter(is_withdrawn=False).select_related("attempt").order_by("happened_at"))
    outages = [
        OutageRow(one, None if one.condition == "degraded" else _outage(one, launches, job.cluster.gpus_per_node))
        for one in incidents
    ]
    failures = [row.outage for row in outages if row.outage is not None]
    ran_s = sum(row.ended_at - row.training_at for row in attempts)
    return JobCost(
        started_at=started_at,
        ended_at=ended_at,
        ettr=metrics.ettr_cumulative(productive, started_at, ended_at),
        productive_s=sum(b - a for a, b in productive),
        recompute_s=metrics.recompute_s(attempts),
        outages=outages,
        mttr_s=metrics.mttr_s(failures),
        mtbf_h=metrics.mtbf_h(ran_s, len(failures)) if ran_s >= MIN_RUN_S else None,
        productive=productive,
    )


def _newest_diagnoses(job: Job) -> dict[int, Diagnosis]:
    """The latest diagnosis of each attempt by the attempt's number."""
    newest: dict[int, Diagnosis] = {}
    for row in (
        job.diagnoses.select_related("attempt")
        .only("attempt__number", "attempt__ended_at", "timeline", "revision")
        .order_by("revision")
    ):
        newest[row.attempt.number] = row
    return newest


def _launch(timeline: dict[str, Any]) -> metrics.Attempt | None:
    """When training ran and which steps it did; None if the logs do not show it."""
    timed = [row for row in timeline.get("iterations") or [] if row.get("t") is not None and row.get("n") is not None]
    if not timed:
        return None
    first, last = timed[0], timed[-1]
    begin = first["t"] - (first.get("seconds") or 0.0)
    return metrics.Attempt(begin, last["t"], int(first["n"]), int(last["n"])) if last["t"] > begin else None


def _outage(incident: Incident, launches: dict[int, metrics.Attempt | None], gpus_per_node: int) -> metrics.Outage:
    """Detected when the attempt ended, localised when a person judged it, over when the next attempt trains."""
    launch = launches.get(incident.attempt.number)
    later = [row for number, row in launches.items() if number > incident.attempt.number and row]
    following = min(later, key=lambda row: row.training_at) if later else None
    failed_at = launch.ended_at if launch else incident.happened_at.timestamp()
    ended_at = incident.attempt.ended_at.timestamp() if incident.attempt.ended_at else None
    resumed_at = following.training_at if following else None
    judged_at = incident.reviewed_at.timestamp() if incident.reviewed_at else None
    if judged_at and resumed_at and judged_at > resumed_at:  # judged after training ran again: it delayed nothing
        judged_at = ended_at or failed_at
    redone = 0.0
    if launch and following and following.first_step <= launch.last_step:
        share = (launch.last_step - following.first_step + 1) / max(1, launch.steps)
        redone = min(1.0, share) * (launch.ended_at - launch.training_at)
    return metrics.Outage(
        failed_at=failed_at,
        detected_at=ended_at,
        localised_at=judged_at,
        resumed_at=resumed_at,
        recompute_s=redone,
        gpus=(incident.node_count or 0) * gpus_per_node,
    )

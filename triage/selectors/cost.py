"""The cost of failures of one job: effective training time, outages and their phases (definitions: docs/metrics.md)."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.models import Attempt, Job
from triage import metrics
from triage.domain.costs import repeated_s, training_of_attempt, waited_s
from triage.models import Incident
from triage.selectors.period_figures import mtbf_s


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
    #: mean seconds from failure until training ran again
    recovery_s: float | None
    mtbf_s: float | None
    productive: list[tuple[float, float]]

    @property
    def gpu_hours(self) -> float:
        return sum(row.incident.gpu_hours or 0.0 for row in self.outages)


def job_cost(job: Job) -> JobCost | None:
    """None if no attempt's logs have iterations with times. Two queries; linear in attempts."""
    attempts = {row.number: row for row in job.attempts.order_by("number")}
    found = {number: training_of_attempt(row) for number, row in attempts.items()}
    trained = {number: launch for number, launch in found.items() if launch}
    if not trained:
        return None
    launches = list(trained.values())
    started_at = min(row.training_at for row in launches)
    # a job that hangs after its last step costs time until it ends
    ends = [attempts[number].ended_at for number in trained]
    ended_at = max([*(row.ended_at for row in launches), *(end.timestamp() for end in ends if end)])
    productive = metrics.productive_intervals(launches)
    incidents = list(job.incidents.filter(is_withdrawn=False).select_related("attempt").order_by("happened_at"))
    outages = [OutageRow(one, _outage(one, attempts)) for one in incidents]
    failures = [row.outage for row in outages if row.outage is not None]
    diagnosed = [one for one in incidents if not one.is_imported and one.duplicate_of_id is None]
    ran_s = sum(row.ran_s or 0.0 for row in attempts.values() if row.duplicate_of_id is None)
    return JobCost(
        started_at=started_at,
        ended_at=ended_at,
        ettr=metrics.ettr_cumulative(productive, started_at, ended_at),
        productive_s=sum(b - a for a, b in productive),
        recompute_s=metrics.recompute_s(launches),
        outages=outages,
        recovery_s=metrics.recovery_s(failures),
        mtbf_s=mtbf_s(ran_s, len(diagnosed)),
        productive=productive,
    )


def _outage(incident: Incident, attempts: dict[int, Attempt]) -> metrics.Outage | None:
    """Detected when the attempt ended, localised when a person judged it, over when the next
    attempt trains.

    Without a next attempt nobody knows that the machines were kept: then nothing counts after the
    attempt's end.
    """
    if incident.condition == "degraded":  # it interrupted nothing
        return None
    attempt = attempts[incident.attempt.number]
    later = [number for number in attempts if number > attempt.number]
    following = attempts[min(later)] if later else None
    failed_at = attempt.trained_until or incident.happened_at
    waited = waited_s(attempt, following)
    judged_at, resumed_at = None, None
    if waited is not None and attempt.ended_at:
        resumed_at = attempt.ended_at.timestamp() + waited
        judged_at = _judged_at(incident, attempt.ended_at.timestamp(), resumed_at)
    return metrics.Outage(
        failed_at=failed_at.timestamp(),
        detected_at=attempt.ended_at.timestamp() if attempt.ended_at else None,
        localised_at=judged_at,
        resumed_at=resumed_at,
        recompute_s=repeated_s(list(attempts.values())).get(attempt.number, 0.0),
    )


def _judged_at(incident: Incident, ended_at: float, resumed_at: float) -> float | None:
    """When a person named the cause; after training ran again that delayed nothing."""
    if incident.reviewed_at is None:
        return None
    judged_at = incident.reviewed_at.timestamp()
    return judged_at if judged_at <= resumed_at else ended_at

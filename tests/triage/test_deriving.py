"""All that follows from a report is written again with each report: as if the whole had been diagnosed at once."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from django.forms.models import model_to_dict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingest.models import Attempt, Job
from tests.factories import make_attempt, make_cluster, make_incident, make_job
from tests.triage.report import LOG, T0, healthy, sample
from triage.models import Incident
from triage.search.word_rules import entry
from triage.selectors.sums import Period, in_period
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 25, tzinfo=UTC)
#: columns that name the row or the diagnosis
_OWN = {"id", "job", "attempt", "diagnosis", "incident", "slug", "name"}


def test_the_end_of_an_attempt_follows_the_newest_report():
    attempt = make_attempt()
    early = sample()
    early["logs"]["timeline"]["t1"] = T0 + 600
    diagnosis_store(attempt=attempt, revision=1, report=early)
    diagnosis_store(attempt=attempt, revision=2, report=sample())
    attempt.refresh_from_db()
    assert attempt.ended_at == datetime.fromtimestamp(T0 + 1100, UTC)
    assert attempt.ran_s == 1100, "a job of 20 minutes costs 20 minutes"


@st.composite
def reports(draw: Any) -> dict[str, Any]:
    """A report as it could be of any part of the evidence: with or without a failure, times, nodes, a framework."""
    report = draw(st.sampled_from([sample, healthy]))()
    logs = report["logs"]
    logs["outcome"] = draw(st.sampled_from(["failed", "succeeded", "running", "cancelled", "unknown"]))
    logs["timeline"]["iterations"] = logs["timeline"]["iterations"][:2]
    logs["fingerprint"] = draw(st.sampled_from(["", "aa" * 8, "bb" * 8]))
    logs["stage"], logs["iteration"] = draw(st.sampled_from([("training", 4), ("launch", None)]))
    logs["id"] = draw(st.sampled_from(["hardware.gpu.ecc", "network.link.down"])) if logs["is_failure"] else logs["id"]
    if logs["events"]:
        logs["events"][0]["first_at"] = draw(st.sampled_from([None, T0 - 900_000, T0 + 500]))
        logs["events"][0]["example"] = draw(st.sampled_from(["Xid 79", "link down"]))
    times = [None, T0, T0 + 300, T0 + 1100]
    logs["timeline"] |= {"t0": draw(st.sampled_from(times[:2])), "t1": draw(st.sampled_from(times))}
    report["job"] |= {"nodes": draw(st.sampled_from([None, 4, 8])), "framework": draw(st.sampled_from(["", "nemo"]))}
    report["suspects"] = report["suspects"][: draw(st.integers(0, 2))]
    return report


def bare() -> dict[str, Any]:
    """A failure of which nothing else is known."""
    return {"headline": "It failed.", "logs": {"is_failure": True, "outcome": "failed", "id": "unknown"}}


def derived(job: Job) -> dict[str, Any]:
    """Every column that follows from the reports of the job, and the sums over them."""
    job.refresh_from_db()
    standing = Incident.objects.filter(job=job, is_withdrawn=False).order_by("attempt__number")
    return {
        "job": {name: getattr(job, name) for name in ("outcome", "found_outcome", "framework")},
        "attempts": [_columns(row) for row in Attempt.objects.filter(job=job).order_by("number")],
        "incidents": [_columns(row) for row in standing],
        "findings": [_columns(row) for incident in standing for row in incident.findings.all()],
        "suspects": [_columns(row) for incident in standing for row in incident.suspects.all()],
        "entries": [
            (row.search_entry.said, row.search_entry.places, row.search_entry.about.replace(_words(job), ""))
            for row in standing
        ],
        "sums": sorted(str((row.week, row.gpu_hours, row.lost_s)) for row in in_period(standing, *_ALL)),
    }


_PERIOD = Period.between(datetime(2026, 1, 1).date(), datetime(2027, 1, 1).date())  # days
_ALL = (_PERIOD.starts_at, _PERIOD.ends_at)


def _columns(row: Any) -> dict[str, Any]:
    return {name: value for name, value in model_to_dict(row).items() if name not in _OWN}


def _words(job: Job) -> str:
    return entry([job.name, job.slug])


def _diagnose(job: Job, attempts: list[list[dict[str, Any]]]) -> None:
    """Store each generation of reports, a report of each attempt."""
    for revision, generation in enumerate(attempts, 1):
        launches = [make_attempt(job, number=number) for number in range(len(generation))]
        for attempt, report in zip(launches, generation, strict=True):
            diagnosis_store(attempt=attempt, revision=revision, report=report, now=NOW)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    generations=st.lists(st.lists(reports(), min_size=1, max_size=2), min_size=1, max_size=3),
    whole=st.lists(reports(), min_size=2, max_size=2),
    said=st.sampled_from(["unknown", "running", "succeeded", "failed", "cancelled"]),
)
@example(generations=[[sample(), sample()]], whole=[bare(), bare()], said="unknown")
@example(generations=[[bare()], [healthy()]], whole=[sample(), sample()], said="succeeded")
def test_parts_and_then_the_whole_leave_what_the_whole_alone_leaves(generations, whole, said):
    Job.objects.all().delete()
    cluster = make_cluster()
    earlier = make_incident(make_job("earlier"), fingerprint="aa" * 8, state=Incident.State.RESOLVED)
    earlier.set_resolved(datetime.fromtimestamp(T0, UTC))
    earlier.save()
    stepwise = make_job("stepwise", cluster=cluster, declared_outcome=said)
    _diagnose(stepwise, [*generations, whole])
    told = derived(stepwise)
    stepwise.delete()  # else the other one is its duplicate
    fresh = make_job("fresh", cluster=cluster, declared_outcome=said)
    _diagnose(fresh, [whole])
    assert told == derived(fresh)


def test_a_later_launch_without_evidence_takes_the_end_of_the_former_one_back():
    job = make_job()
    _diagnose(job, [[sample()]])
    make_attempt(job, number=1)
    diagnosis_store(attempt=make_attempt(job, number=0), revision=2, report=sample())
    job.refresh_from_db()
    assert job.outcome == "unknown"


def test_a_resolved_incident_whose_moment_moves_has_another_time_to_repair():
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=sample(), now=NOW)
    incident = attempt.incidents.get()
    incident.set_resolved(NOW)
    incident.save()
    moved = sample()
    moved["conclusion"]["moment"]["t"] = T0 + 100
    diagnosis_store(attempt=attempt, revision=2, report=moved, now=NOW)
    again = attempt.incidents.get()
    assert again.repaired_s == incident.repaired_s + 400


def test_findings_name_the_lines_of_the_newest_report_alone():
    attempt = make_attempt()
    lines = [{"file": LOG, "line": random.Random(7).randrange(900)}]
    for revision, events in enumerate(([], lines), 1):
        report = sample()
        report["logs"]["events"][0]["lines"] = events
        diagnosis_store(attempt=attempt, revision=revision, report=report)
    assert attempt.incidents.get().findings.first().lines == lines

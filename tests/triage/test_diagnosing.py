"""From a report to rows: what a diagnosis makes, and what it leaves alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db.models import F
from django.utils import timezone

from ingest.isolation import End, ReaderLost
from ingest.models import Node, Run, RunLog
from ingest.services import Work, run_do
from tests.factories import make_attempt, make_cluster, make_job, make_user
from tests.triage.report import T0, healthy, sample
from triage.domain.report_facts import incident_of, is_steady, week_of
from triage.models import Activity, Diagnosis, Group, GroupRule, Incident
from triage.services import diagnosing
from triage.services.diagnosing import diagnosis_store
from triage.services.reviewing import decision_make, incident_act

pytestmark = pytest.mark.django_db


def store(attempt, revision=1, report=None, now=None):
    diagnosis_store(attempt=attempt, revision=revision, report=report or sample(), now=now)
    return attempt.incidents.get()


def test_a_report_makes_one_incident_with_its_findings_and_suspects():
    incident = store(make_attempt())
    assert incident.headline.startswith("GPU 5 of gpu-0412")
    assert (incident.category, incident.standing_category) == ("hardware.gpu.off_bus",) * 2
    assert [f.role for f in incident.findings.all()] == ["root", "cascade"]
    assert incident.findings.first().indicators[0]["text"] == "GPU has fallen off the bus"
    assert [(s.entity, s.is_accused) for s in incident.suspects.all()] == [("gpu-0412", True), ("gpu-0413", False)]
    assert incident.accused == ["gpu-0412"]
    assert incident.happened_at == datetime.fromtimestamp(T0 + 500, UTC)
    assert incident.week == week_of(incident.happened_at)


def test_lost_time_runs_from_the_last_iteration_to_the_end():
    incident = store(make_attempt())
    assert incident.lost_s == pytest.approx(1100 - 499)
    assert incident.node_hours == pytest.approx(601 / 3600 * 4)
    assert incident.gpu_hours == pytest.approx(incident.node_hours * incident.cluster.gpus_per_node)


def test_the_age_of_a_recording_is_no_time_to_detection():
    happened_at = store(make_attempt()).happened_at
    live = store(make_attempt(), now=happened_at + timedelta(hours=20))
    assert live.detected_s == 20 * 3600
    assert store(make_attempt(), now=happened_at + timedelta(days=7)).detected_s is None, "uploaded a week later"
    recording = store(make_attempt(job=make_job(cluster=make_cluster("demonstration"))))
    assert recording.detected_s is None


def test_the_same_revision_stored_twice_doubles_nothing():
    attempt = make_attempt()
    store(attempt)
    store(attempt)
    assert Diagnosis.objects.count() == Incident.objects.count() == 1
    assert Activity.objects.filter(kind="diagnosed").count() == 1


def test_a_worker_that_wakes_after_its_run_was_given_away_stores_nothing(monkeypatch):
    attempt = make_attempt()
    run = Run.objects.create(job=attempt.job, kind="diagnose", parameters={"revision": 1})

    def frozen_meanwhile(*_args, **_said):
        Run.objects.filter(pk=run.pk).update(tries=F("tries") + 1, worker="another")
        return sample()

    monkeypatch.setattr(diagnosing.evidence, "parsed_for", lambda *_: [SimpleNamespace(bytes=0, lines=0)])
    monkeypatch.setattr(diagnosing, "engine_call", frozen_meanwhile)
    run_do(run.pk, diagnosing.job_diagnose)

    run.refresh_from_db()
    assert (run.state, run.worker) == ("running", "another")
    assert not Diagnosis.objects.exists()
    assert not Activity.objects.filter(kind="diagnosed").exists()


def test_the_report_comes_back_whole_though_its_timeline_is_kept_apart():
    attempt = make_attempt()
    store(attempt)
    diagnosis = Diagnosis.objects.get()
    assert "timeline" not in diagnosis.report["logs"]
    assert diagnosis.whole_report == sample()


def test_nodes_are_made_when_evidence_first_names_them():
    store(make_attempt())
    assert set(Node.objects.values_list("name", flat=True)) == {"gpu-0411", "gpu-0412", "gpu-0413", "gpu-0414"}


def test_a_healthy_report_makes_no_incident_but_concludes_the_job():
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=healthy())
    attempt.job.refresh_from_db()
    assert not Incident.objects.exists()
    assert attempt.job.outcome == "succeeded"


def test_a_job_that_is_called_failed_is_an_incident_although_its_log_ends_well():
    attempt = make_attempt(job=make_job(declared_outcome="failed"))
    incident = store(attempt, report=healthy())
    assert incident.headline == "Reported as failed: The job completed; no failure found."
    assert (incident.category, incident.confidence, incident.lost_s) == ("unknown", 0, None)
    assert (incident.runner_up, incident.accused, incident.state) == ("", [], Incident.State.AWAITING_REVIEW)
    attempt.job.refresh_from_db()
    assert (attempt.job.outcome, attempt.job.found_outcome) == ("failed", "succeeded")  # both are shown


@pytest.mark.parametrize("said", ["unknown", "succeeded", "cancelled", "running"])
def test_a_log_that_ends_well_is_no_incident_where_nobody_says_that_it_failed(said):
    diagnosis_store(attempt=make_attempt(job=make_job(declared_outcome=said)), revision=1, report=healthy())
    assert not Incident.objects.exists()


def test_what_people_say_is_of_the_last_launch_and_its_correction_withdraws_the_incident():
    job = make_job(declared_outcome="failed")
    first, last = make_attempt(job=job, number=0), make_attempt(job=job, number=1)
    diagnosis_store(attempt=first, revision=1, report=healthy())
    incident = store(last, report=healthy())
    assert Incident.objects.get() == incident
    job.declared_outcome = "succeeded"
    job.save()
    assert store(last, revision=2, report=healthy()).is_withdrawn


def test_an_incident_that_a_later_diagnosis_denies_is_withdrawn_and_comes_back():
    attempt = make_attempt()
    first = store(attempt)
    diagnosis_store(attempt=attempt, revision=2, report=healthy())
    first.refresh_from_db()
    assert first.is_withdrawn
    again = store(attempt, revision=3)
    assert again.pk == first.pk
    assert not again.is_withdrawn


def test_a_decision_survives_re_diagnosis_and_its_word_stands():
    attempt = make_attempt()
    incident, user = store(attempt), make_user("ada", "engineer")
    decision_make(incident=incident, claim="category", word="correct", value="hardware.gpu.ecc", by=user)
    report = sample()
    report["conclusion"]["id"] = "network.link.down"
    again = store(attempt, revision=2, report=report)
    assert again.pk == incident.pk
    assert again.category == "network.link.down"
    assert again.standing_category == "hardware.gpu.ecc"
    assert again.state == Incident.State.CORRECTED
    assert again.decisions.count() == 1


def test_an_unreviewed_incident_follows_the_machine():
    attempt = make_attempt()
    store(attempt)
    report = sample()
    report["conclusion"]["id"] = "hardware.gpu.ecc"
    assert store(attempt, revision=2, report=report).standing_category == "hardware.gpu.ecc"


def test_a_fingerprint_seen_again_after_its_resolution_is_a_regression():
    first, user = store(make_attempt()), make_user("ada", "engineer")
    decision_make(incident=first, claim="category", word="confirm", by=user)
    incident_act(incident=first, act="resolved", by=user)
    second = store(make_attempt())
    assert second.regressed_from_id == first.pk
    assert second.activities.filter(kind="regressed").exists()
    first.refresh_from_db()
    assert first.state == Incident.State.RESOLVED


def test_a_new_incident_joins_the_group_of_its_fingerprint_unless_it_was_split():
    user = make_user("ada", "engineer")
    group = Group.objects.create(title="Bus", made_by=user)
    fingerprint = sample()["logs"]["fingerprint"]
    said = {"cluster": make_cluster(), "fingerprint": fingerprint, "made_by": user}
    GroupRule.objects.create(group=group, **said)
    assert store(make_attempt()).group == group
    GroupRule.objects.create(group=None, **said)
    assert store(make_attempt()).group is None


def test_without_times_the_incident_happened_when_it_was_first_known():
    report = sample()
    report["logs"]["timeline"] = {}
    report["conclusion"]["moment"]["t"] = None
    began = timezone.now()
    incident = store(make_attempt(), report=report)
    assert not incident.is_time_known
    assert began <= incident.happened_at <= timezone.now()
    assert incident.lost_s is None


def test_odd_reports_are_read_without_complaint():
    assert incident_of({}) is None
    assert incident_of({"logs": {"is_failure": True}}) is None
    assert incident_of({"conclusion": {"condition": "failed"}}).category == "unknown"
    report = sample()
    report["logs"]["timeline"]["t1"] = 1e300
    report["conclusion"]["moment"]["t"] = 1e300
    assert incident_of(report).happened_at is None


SLOW = {"first": 25, "last": 32, "count": 8, "factor": 2.05, "lost_s": 40.0, "lost_gpu_s": 320.0}


def concluded(condition: str, **fields: object) -> dict[str, object]:
    told = {
        "condition": condition,
        "id": "performance.network",
        "confidence": 0.6,
        "sentence": "The job completed, but steps 25 to 32 took 2.05 times as long as usual. gpu-0413 held them up.",
        "alternatives": [{"id": "performance.network", "p": 0.6}, {"id": "performance.step", "p": 0.4}],
        "moment": {"t": T0 + 70, "until": T0 + 110, "stage": "training", "iteration": 25},
        "slowdowns": [SLOW],
        "fault": [{"kind": "node", "name": "gpu-0413", "p": 0.8, "reasons": ["answered late"]}],
    }
    return {**healthy(), "version": 2, "headline": told["sentence"], "conclusion": {**told, **fields}}


def test_a_completed_job_that_was_slow_is_an_incident_that_costs_the_time_beyond_the_usual():
    incident = store(make_attempt(), report=concluded("degraded"))
    assert (incident.category, incident.symptom, incident.iteration) == ("performance.network", "slow", 25)
    assert (incident.runner_up, incident.runner_up_confidence) == ("performance.step", 0.4)
    assert incident.happened_at == datetime.fromtimestamp(T0 + 70, UTC)
    assert incident.lost_s == 40.0
    assert incident.gpu_hours == pytest.approx(320 / 3600), "the headline's cost, not the cluster's usual GPUs a node"


@pytest.mark.parametrize("condition", ["healthy", "recovered", "running", "unknown"])
def test_a_conclusion_that_nothing_is_wrong_makes_no_incident(condition):
    assert incident_of(concluded(condition)) is None


def test_only_steady_jobs_teach_what_is_normal():
    assert is_steady(concluded("healthy"))
    assert not is_steady(concluded("degraded"))
    assert not is_steady(concluded("recovered"))


def lost_in(stages, monkeypatch, end=None):
    """The engine's report; each try ends in the first of these stages that is not left out."""

    def call(work, name, handlers, *, left_out):
        for stage in stages:
            handlers["step"](stage)
            if stage not in left_out:
                raise ReaderLost("The process crashed.", end)
        return {"left out": left_out}

    monkeypatch.setattr(diagnosing, "engine_call", call)
    run = Run.objects.create(job=make_job(), kind=Run.Kind.DIAGNOSE, state=Run.State.RUNNING, tries=1)
    return diagnosing._report_of(Work(run, None), {})


def test_a_stage_that_ends_its_process_is_left_out_of_the_next_try(monkeypatch):
    assert lost_in(["pace", "network flows"], monkeypatch) == {"left out": ("pace", "network flows")}
    assert [row.message for row in RunLog.objects.order_by("pk")] == [
        "The diagnosis began again without one stage (pace). The process crashed.",
        "The diagnosis began again without one stage (network flows). The process crashed.",
    ]


@pytest.mark.parametrize(("stages", "end"), [(["a", "b", "c", "d"], None), ([""], None), (["a"], End.OUTSIDE)])
def test_an_end_that_no_stage_explains_ends_the_diagnosis(stages, end, monkeypatch):
    with pytest.raises(ReaderLost):
        lost_in(stages, monkeypatch, end)

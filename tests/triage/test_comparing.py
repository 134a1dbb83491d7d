"""Two runs side by side."""

from __future__ import annotations

import pytest

from ingest.models import Attempt, Run, RunLog, Upload
from ingest.services.history import may_be_healthy
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from tests.triage.report import healthy, sample
from triage.charts.iterations import iteration_curves
from triage.models import Diagnosis
from triage.selectors.comparing import comparison
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


def run(slug, report, **fields):
    attempt = make_attempt(make_job(slug, family=fields.pop("family", "llama"), **fields))
    return diagnosis_store(attempt=attempt, revision=1, report=report)


def test_a_failed_run_is_compared_with_the_latest_healthy_one_of_its_family():
    failed, good = run("failed", sample()), run("good", healthy())
    run("other-failed", sample())
    run("stranger", healthy(), family="bert")
    found = comparison(make_user("ada", "engineer"), failed.job, failed)
    assert found.other == good.job
    assert {row.template[:4] for row in found.only_here} == {"NVRM", "Watc"}
    assert found.only_there == []
    differing = {row.name for row in found.rows if row.differs}
    assert "Outcome" in differing
    assert "Nodes" not in differing


def test_a_slow_run_and_a_cut_archive_are_no_healthy_runs(client):
    """Before, a degraded run with an open incident was offered as the latest healthy run, and so was one whose
    archive was cut off.
    """
    failed, good = run("failed", sample()), run("good", healthy())
    slow, cut = run("slow", healthy(), outcome="succeeded"), run("cut", healthy(), outcome="succeeded")
    make_incident(slow.job, attempt=slow.attempt, condition="degraded")
    upload = Upload.objects.create(job=cut.job, attempt=cut.attempt, path="logs.tar", is_archive=True)
    work = Run.objects.create(job=cut.job, kind=Run.Kind.UNPACK, upload=upload)
    RunLog.objects.create(run=work, path="logs.tar", level="warning", message="The archive breaks off after 3 members.")
    found = comparison(make_user("ada", "engineer"), failed.job, failed)
    assert (found.other, found.healthy) == (good.job, {good.job_id})
    assert "latest healthy run" in found.why
    assert may_be_healthy(good.job) and not may_be_healthy(cut.job)


def test_any_run_of_the_family_can_be_named_and_shared_events_are_reported():
    failed, again = run("failed", sample()), run("again", sample())
    run("good", healthy())
    found = comparison(make_user("ada", "engineer"), failed.job, failed, "again")
    assert found.other == again.job
    assert len(found.in_both) == 2
    assert found.only_here == []


def test_runs_of_clusters_that_one_may_not_see_are_not_offered(client):
    ada = make_user("ada", "engineer")
    make_team("red", clusters=[make_cluster("private")])
    failed = run("failed", sample())
    run("hidden", healthy(), cluster=make_cluster("private"))
    found = comparison(ada, failed.job, failed, "hidden")
    assert found.candidates == []
    client.force_login(ada)
    assert client.get("/jobs/failed/curves/hidden/").status_code == 404
    assert "Nothing to compare with" in page_text(client.get("/jobs/failed/compare/"))


def test_curves_keep_the_slowest_iteration_of_each_step():
    report = sample()
    rows = [{"n": n, "t": float(n), "seconds": 50.0 if n == 4321 else 1.0} for n in range(9000)]
    report["logs"]["timeline"]["iterations"] = rows
    long, short = run("long", report), run("short", healthy())
    figure = iteration_curves(Diagnosis.objects.get(pk=long.pk), Diagnosis.objects.get(pk=short.pk), ("long", "short"))
    assert len(figure["data"][0]["x"]) <= 600
    assert 50.0 in figure["data"][0]["y"]
    assert figure["data"][1]["name"] == "short"


def test_the_page_shows_both_runs(client):
    client.force_login(make_user("ada", "engineer"))
    run("failed", sample())
    run("good", healthy())
    page = page_text(client.get("/jobs/failed/compare/"))
    assert "Only in this run" in page
    assert "/jobs/failed/curves/good/" in page


def test_the_comparison_begins_with_what_became_of_both_runs(client):
    """The pace is compared from a twentieth on."""
    ada = make_user("ada", "engineer")
    slow, equal = sample(), sample()
    slow["logs"]["timeline"]["iterations"] = [{"n": 1, "t": 1.0, "seconds": 1.5}]
    good = run("good", healthy())
    said = " ".join(comparison(ada, make_job("x", family="llama"), run("slow", slow), "good").summary)
    assert said.startswith("This run: failed, iteration 18,204. The other: healthy")
    assert "This run took 1.50 times as long for an iteration." in said
    assert "2 messages are in this run alone." in said
    again = comparison(ada, good.job, good, run("equal", equal).job.slug).summary
    assert "Both took about as long for an iteration." in again
    assert again[-1] == "This run printed no message that the other did not."


def test_outcome_and_nodes_are_those_that_the_head_of_the_page_shows():
    (here, there) = run("here", {"engine": "made up"}), run("there", {"engine": "made up"})
    Attempt.objects.filter(pk=there.attempt_id).update(outcome="running", node_count=256)
    rows = {row.name: row for row in comparison(make_user("ada", "engineer"), here.job, here).rows}
    assert (rows["Outcome"].there, rows["Nodes"].there, rows["Nodes"].here) == ("running", "256", "–")


def of_shape(report, *, world_size, **layout):
    return {**report, "job": {**report["job"], "world_size": world_size, "layout": layout}}


def test_by_default_the_run_of_the_same_layout_and_world_size_is_picked_and_the_page_says_why(client):
    client.force_login(make_user("ada", "engineer"))
    run("failed", sample())
    run("same", healthy())
    run("wider", of_shape(healthy(), world_size=64, tp=8, pp=2, dp=4))
    run("other-layout", of_shape(healthy(), world_size=32, tp=4, pp=4, dp=2))
    page = client.get("/jobs/failed/compare/")
    assert page.context["comparison"].other.slug == "same"
    said = "Picked as the latest healthy run of the family “llama” with the same layout and world size."
    assert said in page_text(page)
    assert 'data-testid="why"' not in page_text(client.get("/jobs/failed/compare/?with=wider"))


def test_a_failed_run_of_the_same_shape_tells_more_than_a_healthy_one_of_another():
    failed = run("failed", sample())
    run("failed-too", sample())
    run("healthy", of_shape(healthy(), world_size=8, dp=8))
    found = comparison(make_user("ada", "engineer"), failed.job, failed)
    assert found.other.slug == "failed-too"
    assert found.why.startswith("Picked as the latest run of the family")


def test_a_run_of_which_nothing_is_known_says_so_where_it_is_compared_with_any():
    """Before, the page said "of the same framework and model" of runs of which neither was known."""
    failed = run("failed", sample(), family="", framework="", model="")
    run("bert", healthy(), family="bert")
    failed.job.framework = failed.job.model = ""
    why = comparison(make_user("ada", "engineer"), failed.job, failed).why
    assert why.startswith("Picked as the latest healthy run that you may see")
    assert why.endswith("; name its family to compare it with its own kind.")


def test_where_no_run_is_similar_the_page_says_what_differs():
    failed = run("failed", sample())
    run("healthy", of_shape(healthy(), world_size=8, dp=8))
    found = comparison(make_user("ada", "engineer"), failed.job, failed)
    assert found.why.endswith("; none has the same layout or world size.")

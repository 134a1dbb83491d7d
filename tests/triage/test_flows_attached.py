"""Captures that belong to a job: proposed, attached, taken out, brought to the right attempt."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from ingest import storage
from ingest.models import Artifact, Blob
from tests.factories import make_attempt, make_job, make_user
from tests.pages import page_text
from triage.models import Activity

pytestmark = pytest.mark.django_db


def test_a_capture_that_came_alone_proposes_its_job_and_a_click_attaches_it(client, flow_job, flow_capture):
    report = flow_job.stored.report["flows"]["jobs"][0]
    target = make_job("trained", nodes_text=" ".join([*report["members"], *report.get("nodes", [])]))
    make_job("elsewhere", nodes_text="other-1 other-2")
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    shown = page.partition('data-testid="proposals"')[2].partition("</table>")[0]
    assert "trained" in shown
    assert "machines; when that job ran is not known" in shown
    assert "elsewhere" not in shown
    sha256 = add_flows(flow_job)
    response = client.post(reverse("flow-attach", args=["seen"]), {"job": "trained"})
    assert response["Location"] == reverse("job-flows", args=["trained"])
    attached = Artifact.objects.get(attempt__job=target)
    assert (attached.path, attached.blob_id) == ("flows.csv", sha256)
    assert Activity.objects.get(kind="capture_attached").data["subject"] == "seen"


def test_a_capture_is_proposed_to_jobs_of_its_own_time_only(client, flow_job, flow_capture):
    seen = flow_job.stored.report["flows"]["jobs"][0]
    began = datetime.fromtimestamp(seen["steps"][0]["start"], UTC) - timedelta(minutes=5)
    machines = " ".join([*seen["members"], *seen.get("nodes", [])])
    hour = timedelta(hours=1)
    make_job("meanwhile", nodes_text=machines, started_at=began, ended_at=began + hour)
    make_job("day-before", nodes_text=machines, started_at=began - 24 * hour, ended_at=began - 23 * hour)
    make_attempt(make_job("day-after", nodes_text=machines), started_at=began + 24 * hour, ended_at=began + 25 * hour)
    page = page_text(client.get(reverse("job-flows", args=["seen"])))
    shown = page.partition('data-testid="proposals"')[2].partition("</table>")[0]
    assert "meanwhile" in shown
    assert "day-" not in shown
    assert f"{len(seen['nodes'] or seen['members'])} of " in shown
    assert f"{began + timedelta(minutes=5):%Y-%m-%d %H:%M}" in shown


def test_what_was_attached_by_mistake_is_taken_out_again(client, flow_job):
    target = make_job("wrong")
    earlier = storage_of(b"start_time,duration,src,dst,bytes\n1,0.1,10.0.0.1,10.0.0.2,7\n")
    own = Artifact.objects.create(
        attempt=make_attempt(target), path="flows.csv", blob_id=earlier, kind="flow", state="parsed"
    )
    add_flows(flow_job)
    client.post(reverse("flow-attach", args=["seen"]), {"job": "wrong"})
    files = Artifact.objects.filter(attempt__job=target, is_superseded=False)
    assert sorted(files.values_list("path", flat=True)) == ["flows.csv", "seen/flows.csv"]
    page = page_text(client.get(reverse("job-flows", args=["wrong"])))
    assert "1 file by eng" in page.partition('data-testid="attached"')[2]
    url = reverse("flow-detach", args=["wrong", Activity.objects.get(kind="capture_attached").pk])
    assert client.post(url)["Location"] == reverse("job-flows", args=["wrong"])
    assert list(Artifact.objects.filter(attempt__job=target)) == [own]
    assert 'data-testid="attached"' not in page_text(client.get(reverse("job-flows", args=["wrong"])))
    assert Activity.objects.get(kind="capture_detached").data == {"subject": "seen", "before": 1}
    client.post(url)
    assert Activity.objects.filter(kind="capture_detached").count() == 1
    assert Artifact.objects.filter(attempt__job=flow_job, path="flows.csv").exists()


def test_a_capture_is_brought_to_the_attempt_that_ran_meanwhile(client, flow_job):
    target = make_job("thrice")
    began = datetime.fromtimestamp(flow_job.stored.report["flows"]["captures"][0]["t0"], UTC)
    for number, hours in enumerate((-9, -1, 5)):
        start = began + timedelta(hours=hours)
        make_attempt(target, number=number, started_at=start, ended_at=start + timedelta(hours=2))
    add_flows(flow_job)
    client.post(reverse("flow-attach", args=["seen"]), {"job": "thrice"})
    assert Artifact.objects.get(attempt__job=target).attempt.number == 1


def add_flows(job):
    sha256 = storage_of(b"start_time,duration,src,dst,bytes\n1,0.1,10.0.0.1,10.0.0.2,5\n")
    Artifact.objects.create(attempt=make_attempt(job), path="flows.csv", blob_id=sha256, kind="flow", state="parsed")
    return sha256


def storage_of(data):
    """The digest of ``data``, kept as a blob."""
    with storage.Part() as part:
        part.write(data)
        sha256 = part.finish()
        Blob.objects.create(sha256=sha256, size_bytes=len(data))
        storage.blob_put(part.path, sha256)
    return sha256


def test_a_viewer_does_not_attach_captures(client, flow_job):
    client.force_login(make_user("view", "viewer"))
    assert client.post(reverse("flow-attach", args=["seen"]), {"job": "seen"}).status_code == 403
    assert client.post(reverse("flow-detach", args=["seen", 1])).status_code == 403


def test_an_act_that_attached_nothing_here_cannot_be_taken_back_here(client, flow_job):
    act = Activity.objects.create(job=make_job("other"), kind="capture_attached", data={"subject": "x"})
    assert client.post(reverse("flow-detach", args=["seen", act.pk])).status_code == 404

"""Health monitors say something about a node: it becomes evidence of the jobs that ran there then, once."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from ingest import services
from ingest.models import Job, Upload
from ingest.refusals import Refused
from ingest.services import node_events as storing
from ingest.services import resuming
from ingest.wire.node_events import events_of
from tests.factories import make_cluster, make_job, make_team, make_user
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]
NOW = timezone.now().replace(microsecond=0)


def alert(node: str = "gpu-7:9400", name: str = "GpuXid", at: Any = NOW, **more: Any) -> dict[str, Any]:
    labels = {"alertname": name, "instance": node, "severity": "critical", "gpu": "3"}
    notes = {"summary": "Xid 79, GPU has fallen off the bus."}
    said = {"status": "firing", "labels": labels, "annotations": notes, "startsAt": at.isoformat()}
    return {**said, "endsAt": "0001-01-01T00:00:00Z", "fingerprint": "a1", **more}


def webhook(*alerts: Any) -> dict[str, Any]:
    return {"version": "4", "groupKey": "{}", "status": "firing", "receiver": "f", "alerts": list(alerts)}


def nvsentinel(**more: Any) -> dict[str, Any]:
    event = {
        "version": 1,
        "agent": "syslog-health-monitor",
        "componentClass": "GPU",
        "checkName": "SysLogsXIDError",
        "isFatal": True,
        "isHealthy": False,
        "message": "GPU has fallen off the bus",
        "recommendedAction": 24,
        "errorCode": ["79"],
        "entitiesImpacted": [{"entityType": "PCI", "entityValue": "0000:3b:00"}],
        "generatedTimestamp": NOW.isoformat(),
        "nodeName": "gpu-7",
        **more,
    }
    return {
        "specversion": "1.0",
        "type": "com.nvidia.nvsentinel.health.v1",
        "source": "nvsentinel://a/healthevents",
        "id": "1",
        "time": NOW.isoformat(),
        "data": {"metadata": {"cluster": "a"}, "healthEvent": event},
    }


@pytest.fixture
def job(db: None) -> Job:
    return make_job("run", nodes_text="gpu-6\ngpu-7", declared_outcome="running", started_at=NOW - timedelta(hours=1))


@pytest.fixture
def user(db: None) -> Any:
    return make_user("monitor", "engineer")


@pytest.fixture
def api(user: Any) -> APIClient:
    client = APIClient()
    _, secret = services.token_create(user=user, name="monitor", scopes=["upload"])
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def send(api: APIClient, said: Any, **headers: str) -> Any:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return api.post("/api/v1/node-events/", body, content_type="application/json", headers=headers)


def lines_of(path: str) -> list[str]:
    return resuming.part_path_of(Upload.objects.get(path=path)).read_text().splitlines()


def test_an_alert_becomes_a_line_of_the_job_that_ran_on_the_node(api: APIClient, job: Job) -> None:
    assert send(api, webhook(alert())).json() == {"stored": 1, "repeated": 0, "refused": 0, "sentence": ""}
    (line,) = lines_of("gpu-7/health/alertmanager.log")
    said = "ERROR alertmanager: GpuXid: Xid 79, GPU has fallen off the bus. (gpu 3)"
    assert line == f"{NOW:%Y-%m-%dT%H:%M:%S}.000000Z {said}"


def test_an_alert_that_is_sent_again_is_stored_once_and_its_end_names_no_error(api: APIClient, job: Job) -> None:
    send(api, webhook(alert()))
    assert send(api, webhook(alert(), alert("gpu-6"))).json()["repeated"] == 1
    over = alert(status="resolved", endsAt=(NOW - timedelta(seconds=1)).isoformat())
    send(api, webhook(over))
    assert len(lines_of("gpu-7/health/alertmanager.log")) == 2
    assert lines_of("gpu-7/health/alertmanager.log")[1].endswith("INFO alertmanager: GpuXid is resolved")


def test_nvsentinels_events_name_the_xid_as_the_driver_does(api: APIClient, job: Job) -> None:
    healthy = nvsentinel(isHealthy=True, generatedTimestamp=(NOW - timedelta(minutes=1)).isoformat())
    send(api, [healthy, nvsentinel()])
    first, second = lines_of("gpu-7/health/nvsentinel.log")
    assert first.endswith("INFO nvsentinel: SysLogsXIDError is healthy")
    said = "SysLogsXIDError: Xid 79: GPU has fallen off the bus (PCI 0000:3b:00)"
    assert second.endswith(f"ERROR nvsentinel: {said}")


def test_a_plain_event_has_a_monitor_of_its_own(api: APIClient, job: Job) -> None:
    event = {
        "node": "GPU-7.cluster.local",
        "at": NOW.timestamp(),
        "severity": "warning",
        "source": "../IB mon",
        "message": "x",
    }
    assert send(api, {"events": [event]}).json()["stored"] == 1
    assert lines_of("gpu-7/health/ibmon.log")[0].endswith("WARN ibmon: x")


@pytest.mark.parametrize(
    ("nodes", "said", "is_there"),
    [
        ("gpu-7", "gpu-7.a.example", True),
        ("gpu-7.a.example", "gpu-7", True),
        ("gpu-7.a.example", "gpu-7.b.example", False),
        ("gpu-7.a.example gpu-7.b.example", "gpu-7", False),
        ("gpu-7.a.example gpu-7.b.example", "gpu-7.b.example:9100", True),
        ("10.0.0.1", "10.9.9.9:9100", False),
        ("10.0.0.1", "10.0.0.1:9100", True),
        ("fe80::1", "[fe80::1]:9100", True),
    ],
)
def test_two_nodes_are_never_taken_for_one(api: APIClient, job: Job, nodes: str, said: str, is_there: bool) -> None:
    Job.objects.update(nodes_text=nodes)
    assert send(api, webhook(alert(said))).json()["stored"] == int(is_there)


def test_a_job_whose_nodes_nobody_listed_is_found_by_its_files(api: APIClient, job: Job, user: Any) -> None:
    Job.objects.update(nodes_text="")
    assert send(api, webhook(alert())).json()["stored"] == 0
    Upload.objects.create(job=job, attempt=services.attempt_get(job=job), path="gpu-7/logs/a.log", created_by=user)
    assert send(api, webhook(alert())).json()["stored"] == 1


def test_a_node_without_a_job_gets_a_sentence_and_nothing_is_made(api: APIClient, job: Job) -> None:
    answer = send(api, webhook(alert("gpu-99"), alert(), alert(at=NOW - timedelta(hours=3)))).json()
    assert (answer["stored"], answer["refused"]) == (1, 2)
    assert "no job of the cluster default ran then on gpu-99, gpu-7:9400" in answer["sentence"]
    assert Job.objects.count() == 1


def test_a_job_that_ended_long_before_is_not_touched(api: APIClient, job: Job) -> None:
    Job.objects.update(declared_outcome="failed", ended_at=NOW - timedelta(minutes=30))
    assert send(api, webhook(alert())).json()["stored"] == 0
    Job.objects.update(ended_at=NOW - timedelta(minutes=5))
    assert send(api, webhook(alert())).json()["stored"] == 1, "a monitor is slower than a crash"


def test_nothing_reaches_another_teams_jobs(api: APIClient, job: Job) -> None:
    closed = make_cluster("closed")
    make_team("others", clusters=[closed])
    theirs = make_job("theirs", cluster=closed, nodes_text="gpu-7", declared_outcome="running")
    assert send(api, webhook(alert())).json()["stored"] == 1
    assert not Upload.objects.filter(job=theirs).exists()
    refused = send(api, webhook(alert()), **{"Faultline-Cluster": "closed"})
    assert refused.status_code == 422 and not Upload.objects.filter(job=theirs).exists()


def test_a_token_that_may_not_upload_is_refused(user: Any, job: Job) -> None:
    client = APIClient()
    _, secret = services.token_create(user=user, name="r", scopes=["read"])
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert send(client, webhook(alert())).status_code == 403
    assert send(APIClient(), webhook(alert())).status_code == 401


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[" * 90_000, b"7", b'"x"', b"{}", b'{"alerts": 7}', b"\xff", b'[{"type": "x"}]']
)
def test_a_body_of_no_known_form_is_refused_with_a_sentence(api: APIClient, said: bytes) -> None:
    answer = send(api, said)
    assert answer.status_code in (400, 422) and answer.json()["detail"].startswith("The body")


def test_hostile_values_become_one_line_of_plain_text() -> None:
    bad = "a\nb\x1b[31m\u202e\0" + "x" * 5000
    rows = [
        alert(labels={"alertname": bad, "node": bad}, annotations={"summary": bad}),
        alert(labels={"alertname": ["x"], "node": {"a": 1}}, annotations=7, startsAt={"x": 1}),
        alert(labels=None, annotations=None),
        7,
    ]
    found, problems = events_of(json.dumps(webhook(*rows)).encode())
    assert [len(one.text) <= 600 and one.text.isprintable() for one in found] == [True]
    assert problems.total() == 3
    with pytest.raises(Refused, match="1,000 events"):
        events_of(json.dumps({"events": [{}] * 1001}).encode())
    strange = nvsentinel(errorCode={"a": 1}, entitiesImpacted=[7, {"entityType": None}], message=["x"], checkName=None)
    assert events_of(json.dumps(strange).encode())[0][0].node == "gpu-7"


def test_a_flood_about_one_node_is_cut_with_a_sentence(api: APIClient, job: Job, monkeypatch: Any) -> None:
    monkeypatch.setattr(storing, "_MAX_EVENTS_A_NODE", 3)
    rows = [alert(at=NOW - timedelta(seconds=n)) for n in range(5)]
    answer = send(api, webhook(*rows)).json()
    assert (answer["stored"], answer["refused"]) == (3, 2) and "send fewer" in answer["sentence"]


@pytest.fixture
def alertmanager(tmp_path: Path, live_server: Any, user: Any) -> Iterator[str]:
    """Debian's Alertmanager, which tells this site."""
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        pytest.skip("prometheus-alertmanager is not installed (Debian has it)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, secret = services.token_create(user=user, name="alertmanager", scopes=["upload"])
    (tmp_path / "token").write_text(secret)
    config = tmp_path / "alertmanager.yml"
    config.write_text(
        "route: {receiver: faultline, group_wait: 0s}\n"
        f"receivers: [{{name: faultline, webhook_configs: [{{url: '{live_server.url}/api/v1/node-events/', "
        f"http_config: {{authorization: {{credentials_file: {tmp_path}/token}}}}}}]}}]\n"
    )
    argv = [program, f"--config.file={config}", f"--storage.path={tmp_path}", "--cluster.listen-address="]
    argv.append(f"--web.listen-address=127.0.0.1:{port}")
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            return bool(urlopen(f"{url}/-/ready", timeout=1).status == 200)
        except OSError:
            return False

    wait_for(is_ready)
    yield url
    process.terminate()
    process.wait()


def test_a_real_alertmanager_tells_the_site_about_a_node(alertmanager: str, job: Job) -> None:
    row = {key: value for key, value in alert().items() if key in ("labels", "annotations", "startsAt")}
    request = Request(f"{alertmanager}/api/v2/alerts", json.dumps([row]).encode(), {"Content-Type": "application/json"})
    urlopen(request, timeout=PATIENCE_S).read()
    wait_for(lambda: Upload.objects.filter(path="gpu-7/health/alertmanager.log", offset_bytes__gt=0).exists())
    assert "Xid 79" in lines_of("gpu-7/health/alertmanager.log")[0]

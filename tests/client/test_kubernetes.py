"""``faultline watch kubernetes``: objects that validate become jobs, attempts, ends, lost nodes and lines."""

from __future__ import annotations

import http.server
import json
import random
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diagnosis.__main__ import main as engine
from faultline import main as program
from faultline import options
from faultline.kube_api import KINDS, Cluster, parse_objects
from faultline.kubernetes import Kubernetes, slug_of, snapshot_of
from faultline.scheduled import Job
from faultline.scheduler import Watcher
from faultline.site import Site
from ingest import services
from ingest.models import Job as SiteJob
from ingest.wire.routing import slug_of as site_slug_of
from tests import yamls
from tests.client import kube_objects as kube
from tests.client.told import told
from tests.patience import PATIENCE_S

OOM = [
    kube.job("llama", kube.condition("Failed", "BackoffLimitExceeded")),
    kube.pod("llama-0", "gpu-1", labels={"batch.kubernetes.io/job-name": "llama"}),
    kube.pod(
        "llama-1", "gpu-2", "Failed", labels={"batch.kubernetes.io/job-name": "llama"}, **kube.died(137, "OOMKilled")
    ),
]
LOST = [
    kube.job_set("llama", restarts=1),
    kube.pod(
        "llama-w-0-0",
        "gpu-1",
        "Failed",
        labels=kube.of_set("llama"),
        **kube.taken("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
    ),
    kube.pod("llama-w-0-0-r1", "gpu-3", labels=kube.of_set("llama", 1)),
    kube.node("gpu-1", "Unknown"),
    kube.node("gpu-3"),
]
PREEMPTED = [
    kube.job_set("llama", kube.condition("Suspended", "SuspendedJobs")),
    kube.workload("llama", "Preempted", "Preempted to accommodate a workload of higher priority"),
]
UNPLACED = [
    kube.job("llama"),
    kube.pod("llama-0", "", "Pending", labels={"batch.kubernetes.io/job-name": "llama"}),
    kube.event("FailedScheduling", "0/64 nodes are available: 64 Insufficient nvidia.com/gpu.", "llama-0"),
]
ALL = (OOM, LOST, PREEMPTED, UNPLACED)


def the_job(objects: list[Any]) -> Job:
    (found,) = snapshot_of(objects).jobs
    return found


def test_the_objects_of_these_tests_are_such_as_the_api_gives() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    checked = 0
    for one in (one for objects in ALL for one in objects):
        if one["apiVersion"] in ("v1", "batch/v1", "events.k8s.io/v1"):
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
            checked += 1
    assert checked > 8


def test_a_job_that_ran_out_of_memory_has_its_signal_and_its_container() -> None:
    job = the_job(OOM)
    assert (job.id, job.state, job.reason, job.outcome) == ("ml/llama", "FAILED", "BackoffLimitExceeded", "failed")
    assert (job.exit_code, job.signal, job.nodes, job.end - job.start) == (0, 9, "gpu-1,gpu-2", 310)
    (line,) = snapshot_of(OOM).lines["ml/llama"]
    assert line.text == (
        "Warning ContainerDied pod/llama-1 on node gpu-2: container train Terminated Reason: OOMKilled Exit Code: 137"
    )


def test_a_restart_of_a_jobset_is_an_attempt_and_the_lost_node_belongs_to_the_one_before() -> None:
    look = snapshot_of(LOST)
    (job,) = look.jobs
    assert (job.state, job.restarts, job.nodes, job.failed_node) == ("RUNNING", 1, "gpu-3", "")
    assert [(node.name, node.state) for node in look.nodes] == [("gpu-1", "NotReady")]
    (line,) = look.lines["ml/llama"]
    assert (line.attempt, "TaintManagerEviction pod/llama-w-0-0 on node gpu-1" in line.text) == (0, True)


def test_a_trainjob_its_jobset_and_its_jobs_are_one_job() -> None:
    top = {**kube.job_set("llama", kube.condition("Complete", "AllJobsCompleted")), "kind": "TrainJob"}
    under = kube.job_set("llama", owner=("TrainJob", "llama"), restarts=2)
    part = kube.job("llama-w-0", owner=("JobSet", "llama"))
    objects = [part, under, top, kube.pod("llama-w-0-0", "gpu-1", "Succeeded", labels=kube.of_set("llama", 2))]
    job = the_job(objects)
    assert (job.partition, job.state, job.restarts) == ("TrainJob", "COMPLETED", 2)
    assert the_job(objects[:2]).partition == "JobSet"


def test_pods_of_a_kind_that_is_not_known_tell_how_their_job_fares() -> None:
    labels = {"training.kubeflow.org/job-name": "bert"}
    one, two = kube.pod("a", "n1", "Running", labels=labels), kube.pod("b", "n2", "Succeeded", labels=labels)
    assert the_job([one, two]).state == "RUNNING"
    assert the_job([two]).state == "COMPLETED"
    assert the_job([two, kube.pod("c", "n2", "Failed", labels=labels, **kube.died(3))]).exit_code == 3


def test_an_event_that_comes_again_is_told_again_only_when_it_grew_tenfold() -> None:
    def key(count: int) -> str:
        return (
            snapshot_of([*UNPLACED[:2], kube.event("BackOff", "Back-off", "llama-0", count=count)])
            .lines["ml/llama"][0]
            .key
        )

    assert key(1) == key(9) != key(10) == key(99)


def test_a_job_is_named_as_collectors_name_it() -> None:
    for name in ("ml/llama", "ml/llama.v2", "a/b", "team-x/" + "long-" * 30, "ml/--x--"):
        assert slug_of(name) == site_slug_of(name)


@pytest.mark.parametrize("seed", range(8))
def test_odd_objects_are_left_out_and_never_end_the_look(seed: int) -> None:
    dice = random.Random(seed)
    odd: list[Any] = [None, 5, "x", [], {}, [None], {"a": None}, "²", -1, 10**30, True, "2026-13-45T99:00:00Z"]

    def spoil(said: Any) -> Any:
        if dice.random() < 0.08:
            return dice.choice(odd)
        if isinstance(said, dict):
            return {key: spoil(value) for key, value in said.items()}
        return [spoil(one) for one in said] if isinstance(said, list) else said

    for _ in range(60):
        objects = [spoil(one) for objects in ALL for one in objects]
        snapshot_of([one for one in objects if dice.random() < 0.9])


@pytest.mark.parametrize(
    ("objects", "category"),
    [
        (OOM, "hardware.host.oom"),
        (LOST, "hardware.host.lost"),
        (PREEMPTED, "platform.scheduler.preemption"),
        (UNPLACED, "platform.scheduler.error"),
    ],
)
def test_what_kubernetes_says_is_evidence_for_the_conclusion(
    objects: list[Any], category: str, tmp_path: Path, capsys: Any
) -> None:
    source, look = Kubernetes(parse_objects), snapshot_of(objects)  # type: ignore[arg-type]
    (job,) = look.jobs
    lines = [line.text for line in look.lines[job.id] if line.attempt == 0 or not job.restarts]
    lines += [source.node_line_of(node) for node in look.nodes] + [source.line_of(job, names_node=bool(look.nodes))]
    path = tmp_path / "scheduler" / "kubernetes.log"
    path.parent.mkdir()
    path.write_text("".join(f"2026-11-22T03:{n:02d}:00Z {line}\n" for n, line in enumerate(lines)))
    engine([str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["conclusion"]["id"] == category


class Recording:
    """An API whose objects a test sets."""

    def __init__(self) -> None:
        self.now: list[Any] = []
        self.is_complete = True

    def objects(self) -> list[Any]:
        return self.now


@pytest.mark.django_db(transaction=True)
def test_a_job_is_told_from_its_start_over_a_restart_to_its_deletion(live_server: Any, token: str) -> None:
    api = Recording()
    watch = Watcher(Site(live_server.url, token, retry_for_s=PATIENCE_S), Kubernetes(api), is_all=True)
    api.now = [kube.job_set("llama"), kube.pod("llama-w-0-0", "gpu-1", labels=kube.of_set("llama"))]
    assert (watch.tell_changes(), watch.tell_changes()) == (1, 0)
    job = SiteJob.objects.get()
    assert (job.slug, job.declared_outcome, job.nodes_text) == (slug_of("ml/llama"), "running", "gpu-1")
    api.now = LOST
    assert (watch.tell_changes(), watch.tell_changes()) == (1, 0)
    lines = told()
    assert sum("TaintManagerEviction" in line for line in lines) == 1
    assert any("was restarted, NodeList=gpu-1" in line for line in lines)
    assert list(job.attempts.order_by("number").values_list("number", flat=True)) == [0, 1]
    api.now, api.is_complete = [], False
    assert watch.tell_changes() == 0, "nobody deletes what could not be read"
    api.is_complete = True
    assert watch.tell_changes() == 1
    job.refresh_from_db()
    assert job.declared_outcome == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_objects_that_kubectl_wrote_are_read_from_a_file(tmp_path: Path, live_server: Any, token: str) -> None:
    services.job_create(name="ml/llama", slug=slug_of("ml/llama"))
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"kind": "List", "items": OOM[:1]}) + "\n" + json.dumps({"items": OOM[1:]}))
    assert program.main(["watch", "kubernetes", "--objects", str(path), "--once"]) == 0
    assert SiteJob.objects.get().declared_outcome == "failed"
    assert any("OOMKilled" in line for line in told())


@pytest.fixture
def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """An API with a certificate of its own; a function that sets its answers and gives the folder of the account."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "ca.crt")]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run(
        [openssl, "req", "-x509", *key, "-nodes", "-days", "2", *files, *names], check=True, capture_output=True
    )
    answers: dict[str, Any] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = answers.get(self.path, answers.get(self.path.partition("?")[0], 404))
            is_known = self.headers["Authorization"] == "Bearer secret"
            status, body = (401, {}) if not is_known else (said, {}) if isinstance(said, int) else (200, said)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "ca.crt", tmp_path / "key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_address[1]))

    def serve(token: str = "secret\n", **said: Any) -> Path:
        answers.update({f"/{path.replace('__', '/')}": value for path, value in said.items()})
        (tmp_path / "token").write_text(token)
        return tmp_path

    yield serve
    server.shutdown()
    server.server_close()


def test_a_pod_reads_the_api_page_by_page_with_its_service_account(api_server: Callable[..., Path]) -> None:
    first = {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}}
    account = api_server(api__v1__namespaces__ml__pods=first, api__v1__nodes=403)
    second = {"/api/v1/namespaces/ml/pods?limit=500&continue=next": {"items": [{"metadata": {"name": "b"}}]}}
    api_server(**{path.lstrip("/").replace("/", "__"): value for path, value in second.items()})
    notes: list[str] = []
    cluster = Cluster("ml", notes.append, account)
    for _ in range(2):
        assert [(one["kind"], one["metadata"]["name"]) for one in cluster.objects()] == [("Pod", "a"), ("Pod", "b")]
    assert not cluster.is_complete
    assert notes == ["Nodes of the cluster cannot be read (the API answers 403)"], (
        "said once; what is missing is no error"
    )


def test_a_token_that_changed_is_read_again(api_server: Callable[..., Path]) -> None:
    account = api_server(token="old", api__v1__pods={"items": [{"metadata": {"name": "a"}}]})
    cluster = Cluster("", lambda words: None, account)
    assert cluster.objects() == []
    api_server()
    assert len(cluster.objects()) == 1


def test_outside_a_cluster_kubectl_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kubectl"
    body = json.dumps({"items": [kube.job("llama")]})
    program.write_text(
        f"#!/bin/sh\n[ \"$2\" = jobs.v1.batch ] && {{ echo '{body}'; exit; }}\n"
        'echo "error: the server doesn\'t have a resource type \\"$2\\"" >&2; exit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster = Cluster("ml", pytest.fail)
    assert [one["metadata"]["name"] for one in cluster.objects()] == ["llama"]
    assert cluster.is_complete


def test_the_manifests_of_the_guide_are_valid_and_give_the_rights_that_are_needed() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    text = Path("docs/live.md").read_text(encoding="utf-8")
    block = text[text.index("```yaml\napiVersion: v1\nkind: ServiceAccount") :].split("```")[1].removeprefix("yaml\n")
    documents = yamls.read_all(block)
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    block = text[text.index("```yaml\napiVersion: v1\nkind: Pod") :].split("```")[1].removeprefix("yaml\n")
    pod = yamls.read(block)
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    (sidecar,) = pod["spec"]["initContainers"]
    asked = options.parser().parse_args([*sidecar["command"][2:], *sidecar["args"]])
    assert asked.state.removeprefix("/logs/") in asked.exclude, "its own state is no log"
    rules = next(document for document in documents if document["kind"] == "ClusterRole")["rules"]
    allowed = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    needed = {("/".join(group.split("/")[1:-1]), plural) for versions in KINDS for group, _, plural in versions}
    assert needed == allowed

"""The Helm chart: what it makes is valid, runs nothing as root, and starts what `faultline serve` knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from triage.places import ROOT
from triage.serve.parts import PARTS

helm = pytest.importorskip("helm_python", reason="Helm's library is not there for this platform")

CHART = ROOT / "deploy" / "helm"
#: everything that values can switch on
ALL: dict[str, Any] = {
    "secrets": {"store": "s3"},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
    "serviceMonitor": {"enabled": True},
    "parts": {
        "web": {"scale": {"minimum": 2, "maximum": 8, "cpuPercent": 60}},
        "parse": {"scale": {"minimum": 1, "maximum": 50, "oldestSeconds": 30}},
    },
    "data": {"storageClass": "fast"},
    "nodeSelector": {"pool": "cpu"},
    "tolerations": [{"key": "cpu", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "pull"}],
    "podAnnotations": {"team": "triage"},
}


def rendered(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    chart = helm.Chart.load(CHART)
    files = chart.render(values=values, name="fl", namespace="triage")
    return [document for text in files.values() for document in yaml.safe_load_all(text) if document]


def of_kind(kind: str, documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return rendered(ALL)


def pods(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for document in documents
        if document["kind"] in ("Deployment", "Job")
    }


def test_helm_finds_no_fault() -> None:
    found = helm.lint(CHART, values=ALL)
    messages = found if isinstance(found, list) else found.get("messages", [])
    assert [message for message in messages if "icon" not in json.dumps(message)] == []


LESS = {"data": {"existingClaim": "mine"}, "networkPolicy": {"enabled": False}}


@pytest.mark.parametrize("values", [None, ALL, LESS], ids=["as it is", "everything", "less"])
def test_every_document_is_valid_for_the_oldest_and_the_newest_kubernetes(values: dict[str, Any] | None) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in rendered(values):
        if document["apiVersion"].startswith("monitoring.coreos.com"):  # a custom resource, with no schema here
            continue
        for version in ("1.27", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)


def test_nothing_runs_as_root_or_can_become_root(everything: list[dict[str, Any]]) -> None:
    assert len(pods(everything)) == 6
    for name, pod in pods(everything).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] == 10001, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["allowPrivilegeEscalation"] is False, name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["limits"]["memory"], name


def test_each_part_is_one_that_the_command_knows(everything: list[dict[str, Any]]) -> None:
    parts = {pod["containers"][0]["args"][1] for name, pod in pods(everything).items() if not name.endswith("migrate")}
    assert parts == set(PARTS) - {"worker"}


def test_a_lost_database_takes_servers_out_of_service_but_restarts_none(everything: list[dict[str, Any]]) -> None:
    for part in ("web", "uploads"):
        container = pods(everything)[f"fl-{part}"]["containers"][0]
        assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"


def test_the_database_is_migrated_before_a_version_starts(everything: list[dict[str, Any]]) -> None:
    (job,) = of_kind("Job", everything).values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["manage", "prepare"]
    assert all("persistentVolumeClaim" not in volume for volume in pod["volumes"]), "the claim is made after the hook"
    (settings,) = of_kind("ConfigMap", everything).values()
    hooks = [document["metadata"]["annotations"]["helm.sh/hook-weight"] for document in (settings, job)]
    assert hooks == ["-2", "-1"], "the migration reads the settings"


def test_workers_scale_by_the_age_of_their_queue_and_servers_by_cpu(everything: list[dict[str, Any]]) -> None:
    scalers = of_kind("HorizontalPodAutoscaler", everything)
    assert set(scalers) == {"fl-web", "fl-parse"}
    metric = scalers["fl-parse"]["spec"]["metrics"][0]["external"]
    assert metric["metric"]["selector"]["matchLabels"] == {"queue": "parse"}
    assert metric["target"]["value"] == "30"
    deployments = of_kind("Deployment", everything)
    assert "replicas" not in deployments["fl-parse"]["spec"], "an upgrade would undo the scaler"
    assert deployments["fl-diagnose"]["spec"]["replicas"] == 1


def test_secrets_are_the_sites_own(everything: list[dict[str, Any]]) -> None:
    assert of_kind("Secret", everything) == {}
    for pod in pods(everything).values():
        names = [source["secretRef"]["name"] for source in pod["containers"][0]["envFrom"] if "secretRef" in source]
        assert names == ["faultline", "s3"]


def test_uploads_have_receivers_of_their_own(everything: list[dict[str, Any]]) -> None:
    (rule,) = of_kind("Ingress", everything)["fl"]["spec"]["rules"]
    backends = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}
    assert backends["/"] == "fl-web"
    assert backends["/api/v1/uploads"] == backends["/v1/logs"] == "fl-uploads"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"parts": {"beat": {"replicas": 1, "resources": {}}}}, "beat"),
        ({"image": {"repository": "x", "digest": "latest"}}, "digest"),
        ({"netwrkPolicy": {}}, "netwrkPolicy"),
        ({"settings": {"FAULTLINE_TLS": 1}}, "FAULTLINE_TLS"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, Any], why: str) -> None:
    with pytest.raises(helm.HelmError, match=why):
        helm.Chart.load(CHART).validate_schema(values)

"""The Helm chart: what it makes is valid, runs nothing as root, and starts what `faultline serve` knows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.urls import URLPattern, get_resolver

from tests import yamls
from tests.patience import PATIENCE_S
from triage.places import ROOT
from triage.serve.parts import PARTS

helm = pytest.importorskip("helm_python", reason="Helm's library is not there for this platform")

CHART = ROOT / "deploy" / "helm"
#: everything that values can switch on
ALL: dict[str, Any] = {
    "secrets": {"store": "s3"},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "backup": {"enabled": True, "withoutParsed": True, "storageClass": "cold"},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}},
    "parts": {
        "web": {"scale": {"minimum": 2, "maximum": 8, "cpuPercent": 60}, "priorityClassName": "high"},
        "diagnose": {"nodeSelector": {"memory": "much"}, "extraEnv": [{"name": "POLARS_MAX_THREADS", "value": "4"}]},
        "parse": {"scale": {"minimum": 1, "maximum": 50, "oldestSeconds": 30}},
    },
    "data": {"storageClass": "fast"},
    "nodeSelector": {"pool": "cpu"},
    "tolerations": [{"key": "cpu", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "pull"}],
    "podAnnotations": {"team": "triage"},
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64"]}]}]}}},
    "priorityClassName": "usual",
    "extraEnv": [{"name": "HTTPS_PROXY", "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "url"}}}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/certs/ca-certificates.crt", "subPath": "ca.crt"}],
}  # fmt: skip


def rendered(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    texts = [text for name, text in _files(values).items() if name.endswith(".yaml")]
    return [document for text in texts for document in yamls.read_all(text) if document]


def _files(values: dict[str, Any] | None) -> dict[str, str]:
    files: dict[str, str] = helm.Chart.load(CHART).render(values=values, name="fl", namespace="triage")
    return files


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ({}, "http://localhost:8000/ after:"),
        ({"ingress": {"enabled": True, "tlsSecret": "tls", "host": "fl.example"}}, "https://fl.example/"),
    ],
)
def test_the_notes_lead_to_the_first_sign_in(values: dict[str, Any], address: str) -> None:
    notes = next(text for name, text in _files(values).items() if name.endswith("NOTES.txt"))
    assert "kubectl exec --namespace triage deploy/fl-web -- faultline manage ensure --admin admin" in notes
    assert f"Sign in at {address}" in notes


def of_kind(kind: str, documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return rendered(ALL)


def pods(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The template's specification of each workload."""
    found = {}
    for document in documents:
        name, spec = document["metadata"]["name"], document.get("spec", {})
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if document["kind"] in ("CronJob", "Deployment", "Job"):
            found[name] = spec["template"]["spec"]
    return found


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row.get("value", row.get("valueFrom")) for row in container.get("env", ())}


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
    assert len(pods(everything)) == 7
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
    given = [pod["containers"][0]["args"] for pod in pods(everything).values()]
    assert {rest[0] for command, *rest in given if command == "serve"} == set(PARTS) - {"worker"}
    assert [arguments for arguments in given if arguments[0] != "serve"] == [
        ["backup", "/backup", "--without-parsed"],
        ["manage", "prepare"],
    ]


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


def test_settings_are_objects_of_the_release_so_that_a_rollback_restores_them(
    everything: list[dict[str, Any]],
) -> None:
    """A hook is not rolled back. The migration runs before the release's objects are made and needs none of them."""
    hooks = [row["kind"] for row in everything if "helm.sh/hook" in row["metadata"].get("annotations", {})]
    assert hooks == ["Job"]
    (settings,) = of_kind("ConfigMap", everything).values()
    made = {row["metadata"]["name"] for row in everything if row["kind"] != "Job"}
    migration = pods(everything)["fl-migrate"]
    (container,) = migration["containers"]
    assert [source for source in container["envFrom"] if "configMapRef" in source] == []
    assert settings["data"].items() <= variables(container).items()
    assert migration.get("serviceAccountName", "default") not in made
    for name, pod in pods(everything).items():
        named = [row["configMapRef"]["name"] for row in pod["containers"][0]["envFrom"] if "configMapRef" in row]
        assert named == ([] if name == "fl-migrate" else [settings["metadata"]["name"]]), name


def test_changed_settings_restart_each_part() -> None:
    def annotations(values: dict[str, Any]) -> dict[str, str]:
        deployment = of_kind("Deployment", rendered(values))["fl-web"]
        found: dict[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
        return found

    one = annotations({"settings": {"FAULTLINE_TLS": "1"}})
    assert one == annotations({"settings": {"FAULTLINE_TLS": "1"}}) != annotations({"settings": {"FAULTLINE_TLS": "0"}})
    assert "checksum/secret-faultline" in one, "helm reads the Secret from the cluster"


def test_every_worker_is_asked_whether_it_works(everything: list[dict[str, Any]]) -> None:
    for part in ("parse", "diagnose", "notify"):
        container = pods(everything)[f"fl-{part}"]["containers"][0]
        for probe in ("livenessProbe", "startupProbe"):
            assert container[probe]["exec"]["command"] == ["faultline", "alive", part]


def test_a_part_has_its_own_place_and_variables_or_the_common_ones(everything: list[dict[str, Any]]) -> None:
    found = pods(everything)
    assert (found["fl-web"]["priorityClassName"], found["fl-parse"]["priorityClassName"]) == ("high", "usual")
    assert found["fl-diagnose"]["nodeSelector"] == {"memory": "much"}
    assert found["fl-migrate"]["nodeSelector"] == found["fl-web"]["nodeSelector"] == {"pool": "cpu"}
    environment = {name: variables(pod["containers"][0]) for name, pod in found.items()}
    assert environment["fl-diagnose"] == {"FAULTLINE_WORKER_PROCESSES": "2", "POLARS_MAX_THREADS": "4"}
    for name in set(found) - {"fl-diagnose"}:
        assert "HTTPS_PROXY" in environment[name], name
    for name, pod in found.items():
        assert "nodeAffinity" in pod["affinity"], name
        assert "ca" in [volume["name"] for volume in pod["volumes"]], name
        assert "ca" in [mount["name"] for mount in pod["containers"][0]["volumeMounts"]], name


def test_pods_of_one_part_are_kept_apart(everything: list[dict[str, Any]]) -> None:
    for part in set(PARTS) - {"worker"}:
        (rule,) = pods(everything)[f"fl-{part}"]["topologySpreadConstraints"]
        assert rule["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == part


def test_the_release_has_an_account_without_rights(everything: list[dict[str, Any]]) -> None:
    (account,) = of_kind("ServiceAccount", everything)
    assert {pod.get("serviceAccountName") for pod in pods(everything).values()} == {account, None}
    mine = pods(rendered({"serviceAccount": {"create": False, "name": "mine"}}))
    assert mine["fl-web"]["serviceAccountName"] == "mine"
    assert of_kind("Role", everything) == of_kind("RoleBinding", everything) == {}


def test_the_backup_reads_the_data_and_writes_to_a_volume_that_stays(everything: list[dict[str, Any]]) -> None:
    claims = {row["name"]: row["persistentVolumeClaim"] for row in pods(everything)["fl-backup"]["volumes"][:2]}
    assert {name: claim["claimName"] for name, claim in claims.items()} == {"backup": "fl-backup", "data": "fl-data"}
    assert of_kind("CronJob", everything)["fl-backup"]["spec"]["concurrencyPolicy"] == "Forbid"
    kept = of_kind("PersistentVolumeClaim", everything)["fl-backup"]
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    mine = rendered({"backup": {"enabled": True, "existingClaim": "mine"}})
    assert "fl-backup" not in of_kind("PersistentVolumeClaim", mine)


def test_the_page_restores_from_where_the_backup_is(everything: list[dict[str, Any]]) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    (place, arguments) = re.findall(r"jq '\.spec\.template(\S+) = (\[.*\])'", page)[0]
    assert place == ".spec.containers[0].args"
    container = pods(everything)["fl-backup"]["containers"][0]
    directory = json.loads(arguments)[-1]
    assert directory == container["args"][1]
    assert directory in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_the_alerts_ask_for_the_job_that_the_monitor_makes(everything: list[dict[str, Any]], tmp_path: Path) -> None:
    (monitor,) = of_kind("ServiceMonitor", everything).values()
    (service,) = (row for name, row in of_kind("Service", everything).items() if name == "fl-web")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    (rule,) = of_kind("PrometheusRule", everything).values()
    asked = {row["alert"]: row["expr"] for group in rule["spec"]["groups"] for row in group["rules"]}
    assert asked["FaultlineDown"] == f'up{{job="{job}",namespace="triage"}} == 0'
    here = yamls.read((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert list(asked) == [row["alert"] for row in here]
    if promtool := shutil.which("promtool"):
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule["spec"]["groups"]}))
        subprocess.run([promtool, "check", "rules", tmp_path / "rules.yaml"], check=True, timeout=PATIENCE_S)


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
    assert backends["/api/v1/uploads"] == backends["/v1/logs"] == backends["/api/v1/node-events"] == "fl-uploads"
    (rule,) = of_kind("Ingress", rendered({"ingress": {"enabled": True, "regexPaths": True}}))["fl"]["spec"]["rules"]
    (pattern,) = (row["path"] for row in rule["http"]["paths"] if row["pathType"] == "ImplementationSpecific")
    assert re.match(pattern, f"/api/v1/jobs/run-17/artifacts/{'0' * 64}")
    assert re.match(pattern, "/api/v1/jobs/run-17/files/train.log")


def test_every_address_that_takes_large_bodies_is_one_of_the_receivers() -> None:
    (rule,) = of_kind("Ingress", rendered({"ingress": {"enabled": True, "regexPaths": True}}))["fl"]["spec"]["rules"]
    patterns = [row["path"] for row in rule["http"]["paths"] if row["path"] != "/"]
    addresses = list(receiving_addresses(get_resolver().url_patterns, "/"))
    assert len(addresses) > 5
    for address in addresses:
        assert any(re.match(pattern, address) for pattern in patterns), address


def receiving_addresses(patterns: list[Any], prefix: str) -> Iterator[str]:
    """The addresses of views that receive bytes, with a word for each parameter."""
    for pattern in patterns:
        address = prefix + re.sub(r"<[^>]+>", "x", str(pattern.pattern))
        if isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "cls", pattern.callback)
            yield from [address] if getattr(view, "takes_bytes", ()) else ()
        else:
            yield from receiving_addresses(pattern.url_patterns, address)


def test_nginx_takes_bodies_of_any_size_and_passes_them_on_at_once(everything: list[dict[str, Any]]) -> None:
    annotations = of_kind("Ingress", everything)["fl"]["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == "0"
    assert annotations["nginx.ingress.kubernetes.io/proxy-request-buffering"] == "off"
    assert annotations["a"] == "b", "the site's own are kept"


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

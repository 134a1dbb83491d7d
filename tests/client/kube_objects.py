"""Objects of a Kubernetes cluster as its API gives them; those of built-in kinds are checked against its schema."""

from __future__ import annotations

from typing import Any

SPACE = "ml"
CONTAINER = {"name": "train", "image": "registry.example/train:1"}


def at(second: int) -> str:
    return f"2026-11-22T03:{second // 60:02d}:{second % 60:02d}Z"


def meta(name: str, owner: tuple[str, str] | None = None, **labels: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"name": name, "namespace": SPACE, "uid": f"uid-{name}", "creationTimestamp": at(0)}
    if labels:
        said["labels"] = labels
    if owner:
        api = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "TrainJob": "trainer.kubeflow.org/v1alpha1"}
        row = {"apiVersion": api[owner[0]], "kind": owner[0], "name": owner[1], "uid": f"uid-{owner[1]}"}
        said["ownerReferences"] = [{**row, "controller": True, "blockOwnerDeletion": True}]
    return said


def pod(name: str, node: str, phase: str = "Running", *, labels: dict[str, str], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, None, **labels),
        "spec": {"containers": [CONTAINER], "nodeName": node, "restartPolicy": "Never"},
        "status": {"phase": phase, "startTime": at(10), **status},
    }


def died(code: int, reason: str = "Error", second: int = 300, **more: Any) -> dict[str, Any]:
    """The status of a pod whose container ended so."""
    ended = {"exitCode": code, "reason": reason, "startedAt": at(12), "finishedAt": at(second), **more}
    row = {"name": "train", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
    return {"containerStatuses": [{**row, "state": {"terminated": ended}}]}


def taken(reason: str, message: str, second: int = 300) -> dict[str, Any]:
    """The status of a pod that others than itself end."""
    row = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {"conditions": [{**row, "lastTransitionTime": at(second)}]}


def condition(kind: str, reason: str, second: int = 320, message: str = "m") -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": at(second),
        "lastTransitionTime": at(second),
    }


def job(name: str, *conditions: dict[str, Any], owner: tuple[str, str] | None = None, **status: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name, owner),
        "spec": {"template": template},
        "status": {"startTime": at(5), "conditions": list(conditions), **status},
    }


def job_set(name: str, *conditions: dict[str, Any], restarts: int = 0, owner: Any = None) -> dict[str, Any]:
    rows = [{key: value for key, value in row.items() if key != "lastProbeTime"} for row in conditions]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta(name, owner),
        "spec": {"replicatedJobs": []},
        "status": {"restarts": restarts, "conditions": rows},
    }


def of_set(name: str, attempt: int = 0) -> dict[str, str]:
    """The labels of a pod of a JobSet."""
    return {
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-name": f"{name}-w-0",
    }


def node(name: str, ready: str = "True", *, is_cordoned: bool = False) -> dict[str, Any]:
    row = condition("Ready", "NodeStatusUnknown", message="Kubelet stopped posting node status.")
    row = {key: value for key, value in row.items() if key != "lastProbeTime"} | {"status": ready}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"unschedulable": True} if is_cordoned else {},
        "status": {"conditions": [row]},
    }


def event(reason: str, note: str, about: str, kind: str = "Pod", count: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": meta(f"{about}.{reason.lower()}"),
        "eventTime": "2026-11-22T03:04:00.000000Z",
        "action": "Binding",
        "reportingController": "kubelet",
        "reportingInstance": "kubelet-1",
        "regarding": {"kind": kind, "namespace": SPACE, "name": about, "apiVersion": "v1"},
        "reason": reason,
        "note": note,
        "type": "Warning",
        "series": {"count": count, "lastObservedTime": "2026-11-22T03:05:00.000000Z"},
    }


def workload(owner: str, reason: str, message: str) -> dict[str, Any]:
    """Kueue's object for a JobSet."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": meta(f"jobset-{owner}-1a2b3", ("JobSet", owner)),
        "spec": {},
        "status": {"conditions": [condition("Evicted", reason, 200, message), condition("QuotaReserved", "x", 10)]},
    }

"""What Kubernetes' objects say of jobs: Pods, Events, Nodes, Jobs, JobSets, TrainJobs, Kueue's Workloads.

Objects are dictionaries as the API gives them. A job is what the collectors' labels name: a JobSet, TrainJob, training
operator's job, Volcano job or Job, called ``namespace/name``. Whatever an object lacks, or has in another type, counts
as not said.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Callable, Optional

from faultline.kube_api import Api, Cluster, RecordedObjects
from faultline.scheduled import OUTCOMES, Job, JobLine, Node, Snapshot, state_line

#: labels of pods that name their job, in the order of ``ingest/wire/routes.toml``
LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "trainer.kubeflow.org/trainjob-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
#: kinds of jobs, from whole to part
_KINDS = ("TrainJob", "JobSet", "Job")
#: conditions that end a job, and the state that they are
_END_STATES = {
    "Complete": "COMPLETED",
    "Completed": "COMPLETED",
    "SuccessCriteriaMet": "COMPLETED",
    "Failed": "FAILED",
    "FailureTarget": "FAILED",
}
#: reasons for which pods are taken from a job by others than itself
_TAKEN = ("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "TerminationByKubelet")
_NODE_LOST_REASONS = ("DeletionByTaintManager", "NodeLost", "DeletionByPodGC")
#: reasons of a pod that was taken away without a condition that says so
_TAKEN_AWAY = ("Evicted", "NodeLost", "Preempting", "Terminated", "NodeAffinity")
#: events, terminated containers and nodes of one job that are told
_MAX_LINES = 400
_NOT_STATED = "not said"


class Kubernetes:
    """A cluster, as its API or recorded objects show it."""

    name = "Kubernetes"
    file = "scheduler/kubernetes.log"

    def __init__(self, api: Api) -> None:
        self._api = api

    @classmethod
    def of(cls, objects: Optional[str], namespace: str, note: Callable[[str], None]) -> Kubernetes:  # noqa: UP045
        """From a file of objects (``-``: standard input), the pod's service account, or kubectl."""
        return cls(RecordedObjects(objects) if objects else Cluster(namespace, note))

    def take_snapshot(self, running: list[Job]) -> Snapshot:
        """All jobs; one that runs and is gone was deleted."""
        objects = self._api.objects()
        snapshot = snapshot_of(objects)
        if self._api.is_complete:
            present = {job.id for job in snapshot.jobs}
            for job in running:
                if job.id not in present and "/" in job.id:
                    snapshot.jobs.append(job._replace(state="CANCELLED", reason="Deleted"))
        return snapshot

    def slug_of(self, job: Job) -> str:
        return slug_of(job.id)

    def line_of(self, job: Job, *, names_node: bool) -> str:
        """One line in the form of ``kubectl get events``, which the engine reads."""
        return state_line(f"kubernetes: {job.partition.lower() or 'job'}/{job.id} State={job.state}", job)

    def node_line_of(self, node: Node) -> str:
        why = f": {node.reason}" if node.reason else ""
        if node.state == "NotReady":
            return f"Warning NodeNotReady node/{node.name} Node {node.name} is not ready{why}"
        return f"Normal NodeNotSchedulable node/{node.name} Node {node.name} is cordoned{why}"

    def restart_line_of(self, ran: Job) -> str:
        return f"kubernetes: {ran.partition.lower()}/{ran.id} was restarted, NodeList={ran.nodes}"


def slug_of(name: str) -> str:
    """The id that the site gives to a job of this name: as :func:`ingest.wire.routing.slug_of`."""
    slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", name.encode("ascii", "ignore").decode().lower()))
    slug = re.sub("-{2,}", "-", slug.strip("-_")[:90].strip("-"))
    return slug if slug == name else f"{slug or 'job'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def snapshot_of(objects: Iterable[Any]) -> Snapshot:
    """Jobs, bad nodes and lines in a list of objects of any kinds. Linear in them."""
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for object_ in objects:
        if isinstance(object_, Mapping) and isinstance(object_.get("metadata"), Mapping):
            by_kind[str(object_.get("kind"))].append(object_)
    pods: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for pod in by_kind["Pod"]:
        if name := _job_of(pod):
            pods[name].append(pod)
    owners = _objects_of_jobs(by_kind)
    jobs = [_job(name, owners.get(name), pods.get(name, [])) for name in sorted(owners.keys() | pods.keys())]
    nodes = [node for object_ in by_kind["Node"] if (node := _node(object_)) is not None]
    lines = {job.id: _containers(pods.get(job.id, []))[:_MAX_LINES] for job in jobs}
    _add_evictions(lines, by_kind["Workload"])
    _add_warnings(lines, by_kind["Event"], _jobs_of_objects(by_kind, pods))
    return Snapshot(jobs, nodes, {job.id: _in_order(lines[job.id], job.restarts) for job in jobs})


def _objects_of_jobs(by_kind: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """By job, the object that describes it: of a job and its parts the job, if it can be read."""
    owners = {}
    for kind in reversed(_KINDS):
        for object_ in by_kind.get(kind, ()):
            if not _is_of_cron_job(object_):
                owners[_owner_id(object_) or _id(object_)] = object_
    return owners


def _jobs_of_objects(
    by_kind: Mapping[str, list[Mapping[str, Any]]], pods: Mapping[str, list[Mapping[str, Any]]]
) -> dict[str, str]:
    """The job of each object that an event may be about, by the object's kind and id."""
    jobs: dict[str, str] = {}
    for name, own_pods in pods.items():
        jobs.update((f"Pod/{_id(pod)}", name) for pod in own_pods)
    for kind in _KINDS:
        for object_ in by_kind.get(kind, ()):
            jobs[f"{kind}/{_id(object_)}"] = _owner_id(object_) or _id(object_)
    return jobs


def _add_evictions(lines: Mapping[str, list[JobLine]], workloads: Iterable[Mapping[str, Any]]) -> None:
    for workload in workloads:
        owner = _owner_id(workload, kinds=(*_KINDS, "PyTorchJob", "MPIJob", "RayJob", "RayCluster"))
        if owner in lines:
            lines[owner].extend(_evictions(workload, owner))


def _add_warnings(
    lines: Mapping[str, list[JobLine]], events: Iterable[Mapping[str, Any]], jobs: Mapping[str, str]
) -> None:
    for event in events:
        about = _map(event.get("regarding")) or _map(event.get("involvedObject"))
        owner = jobs.get(f"{about.get('kind')}/{about.get('namespace')}/{about.get('name')}", "")
        if owner in lines and event.get("type") == "Warning" and len(lines[owner]) < 2 * _MAX_LINES:
            lines[owner].append(_event(event, about))


def _in_order(rows: list[JobLine], attempt: int) -> list[JobLine]:
    """Lines in order of time, none of a later attempt than the present one."""
    ordered = sorted(rows, key=lambda row: row.at)
    return _with_attempt([row._replace(attempt=min(row.attempt, attempt)) for row in ordered], attempt)


def _with_attempt(rows: list[JobLine], attempt: int) -> list[JobLine]:
    """Lines whose attempt nothing says are of the present one."""
    return [row._replace(attempt=attempt) if row.attempt < 0 else row for row in rows]


def _job(name: str, owner: Optional[Mapping[str, Any]], pods: list[Mapping[str, Any]]) -> Job:  # noqa: UP045
    status = _map(owner.get("status")) if owner else {}
    phases = [_text(_map(pod.get("status")).get("phase")) for pod in pods]
    restarts = _number(status.get("restarts"))
    restarts = max([restarts, *(_number(_labels(pod).get(_ATTEMPT)) for pod in pods)])
    newest = [pod for pod in pods if _number(_labels(pod).get(_ATTEMPT)) == restarts] or pods
    state, reason, end = _state(status, phases)
    code = _first_exit_code(newest)
    lost_node = next((_text(_map(pod.get("spec")).get("nodeName")) for pod in newest if _is_node_lost(pod)), "")
    if state == "FAILED" and lost_node:
        state = "NODE_FAIL"
    meta = _map((owner or (pods[0] if pods else {})).get("metadata"))
    starts = [_seconds(_map(pod.get("status")).get("startTime")) for pod in newest]
    nodes = sorted({node for pod in newest if (node := _text(_map(pod.get("spec")).get("nodeName")))})
    return Job(
        id=name,
        name=name.rpartition("/")[2],
        state=state,
        reason=reason,
        exit_code=0 if code > 128 else code,
        signal=code - 128 if 128 < code < 193 else 0,
        restarts=restarts,
        nodes=",".join(nodes),
        failed_node=lost_node,
        submit=_seconds(meta.get("creationTimestamp")),
        start=min([start for start in starts if start], default=0) or _seconds(status.get("startTime")),
        end=end if state in OUTCOMES else 0,
        partition=str((owner or {}).get("kind") or "Pods"),
        user="",
    )


def _first_exit_code(pods: list[Mapping[str, Any]]) -> int:
    """Of the container that failed first; containers without a time come last. 0 if none failed."""
    failed = []
    for pod in pods:
        failed += [(at or 1 << 60, code) for at, _, code, *_ in _terminated(pod) if code]
    return min(failed, key=lambda row: row[0], default=(0, 0))[1]


def _state(status: Mapping[str, Any], phases: list[str]) -> tuple[str, str, int]:
    """State, reason and end, from the conditions; of a kind that is not known from its pods."""
    conditions = [row for row in _list(status.get("conditions")) if isinstance(row, Mapping)]
    true_conditions = {_text(row.get("type")): row for row in conditions if _text(row.get("status")) == "True"}
    for kind, state in _END_STATES.items():
        if kind in true_conditions:
            row = true_conditions[kind]
            ended = _seconds(status.get("completionTime")) or _seconds(row.get("lastTransitionTime"))
            return state, _text(row.get("reason")), ended
    if "Suspended" in true_conditions:
        return "SUSPENDED", _text(true_conditions["Suspended"].get("reason")), 0
    if "Running" in phases or _number(status.get("active")):
        return "RUNNING", "", 0
    if not conditions and phases and all(phase in ("Succeeded", "Failed") for phase in phases):
        return ("FAILED", "PodFailed", 0) if "Failed" in phases else ("COMPLETED", "", 0)
    return "PENDING", "", 0


def _terminated(pod: Mapping[str, Any]) -> list[tuple[int, str, int, str, str]]:
    """Ended containers of a pod: when, container, exit code (128 and the signal), reason, message."""
    containers = []
    status = _map(pod.get("status"))
    for row in [*_list(status.get("initContainerStatuses")), *_list(status.get("containerStatuses"))]:
        for state in ("lastState", "state"):
            terminated = _map(_map(_map(row).get(state)).get("terminated"))
            if terminated:
                code = _number(terminated.get("exitCode")) or (
                    128 + _number(terminated.get("signal")) if terminated.get("signal") else 0
                )
                words = (_text(terminated.get("reason")), _text(terminated.get("message")))
                containers.append((_seconds(terminated.get("finishedAt")), _text(_map(row).get("name")), code, *words))
    return containers


def _containers(pods: list[Mapping[str, Any]]) -> list[JobLine]:
    """A line for each container that ended badly, and for each pod that was taken away."""
    lines = []
    for pod in pods:
        meta, status, spec = _map(pod.get("metadata")), _map(pod.get("status")), _map(pod.get("spec"))
        attempt = _number(_labels(pod)[_ATTEMPT]) if _ATTEMPT in _labels(pod) else -1
        where = f"pod/{_text(meta.get('name'))} on node {_text(spec.get('nodeName')) or _NOT_STATED}"
        uid = _text(meta.get("uid")) or where
        for at, container, code, reason, message in _terminated(pod):
            if code:
                text = (
                    f"Warning ContainerDied {where}: container {container} Terminated Reason: {reason or _NOT_STATED} "
                )
                text += f"Exit Code: {code}" + (f" Message: {message}" if message else "")
                lines.append(JobLine(f"{uid} {container} {at}", at, attempt, text))
        for reason, message, at in _disruptions(status):
            word = {"PreemptionByScheduler": "Preempted", "Preempting": "Preempted"}.get(reason, "Evicted")
            word = "TaintManagerEviction" if reason in _NODE_LOST_REASONS else word
            lines.append(JobLine(f"{uid} {reason}", at, attempt, f"Warning {word} {where}: {reason}: {message}"))
    return lines


def _disruptions(status: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Why a pod was taken away: reason, message, when (0: not stated)."""
    found = []
    for row in map(_map, _list(status.get("conditions"))):
        if row.get("type") == "DisruptionTarget" and row.get("status") == "True":
            at = _seconds(row.get("lastTransitionTime"))
            found.append((_text(row.get("reason")), _text(row.get("message")), at))
    if not found and status.get("reason") in _TAKEN_AWAY:
        found.append((_text(status.get("reason")), _text(status.get("message")), 0))
    return found


def _evictions(workload: Mapping[str, Any], owner: str) -> list[JobLine]:
    """What Kueue did with the job's workload."""
    lines = []
    for row in map(_map, _list(_map(workload.get("status")).get("conditions"))):
        if row.get("type") in ("Evicted", "Preempted") and row.get("status") == "True":
            reason, message, at = _text(row.get("reason")), _text(row.get("message")), row.get("lastTransitionTime")
            word = "Preempted" if "Preempt" in f"{row['type']}{reason}" else "Evicted"
            text = f"Warning {word} workload/{owner} {reason}: {message}"
            lines.append(JobLine(f"{_id(workload)} {row['type']} {at}", _seconds(at), -1, text))
    return lines


def _event(event: Mapping[str, Any], about: Mapping[str, Any]) -> JobLine:
    """An event of either API group. One that comes again is told again when its count grows tenfold."""
    series = _map(event.get("series"))
    count = max(_number(event.get("deprecatedCount")), _number(event.get("count")), _number(series.get("count")), 1)
    times = (series.get("lastObservedTime"), event.get("eventTime"), event.get("deprecatedLastTimestamp"))
    at = next((seconds for stated in (*times, event.get("lastTimestamp")) if (seconds := _seconds(stated))), 0)
    text = _text(event.get("note")) or _text(event.get("message"))
    key = f"{_id(event)} {len(str(count))}"
    kind, name = _text(about.get("kind")).lower(), _text(about.get("name"))
    return JobLine(key, at, -1, f"Warning {_text(event.get('reason'))} {kind}/{name} {text}")


def _node(node: Mapping[str, Any]) -> Optional[Node]:  # noqa: UP045
    name = _text(_map(node.get("metadata")).get("name"))
    for row in map(_map, _list(_map(node.get("status")).get("conditions"))):
        if row.get("type") == "Ready" and row.get("status") in ("False", "Unknown"):
            return Node(name, "NotReady", f"{_text(row.get('reason'))}: {_text(row.get('message'))}")
    if _map(node.get("spec")).get("unschedulable") is True:
        taints = [_text(_map(row).get("key")) for row in _list(_map(node.get("spec")).get("taints"))]
        why = [key for key in taints if key and key != "node.kubernetes.io/unschedulable"]
        return Node(name, "Cordoned", ", ".join(why))
    return None


def _is_node_lost(pod: Mapping[str, Any]) -> bool:
    status = _map(pod.get("status"))
    rows = [row for row in map(_map, _list(status.get("conditions"))) if row.get("type") == "DisruptionTarget"]
    return status.get("reason") == "NodeLost" or any(row.get("reason") in _NODE_LOST_REASONS for row in rows)


def _job_of(pod: Mapping[str, Any]) -> str:
    labels = _labels(pod)
    name = next((_text(labels[label]) for label in LABELS if labels.get(label)), "")
    return f"{_text(_map(pod['metadata']).get('namespace')) or 'default'}/{name}" if name else ""


def _is_of_cron_job(job: Mapping[str, Any]) -> bool:
    """Whether the job is made by a timetable."""
    return any(row.get("kind") == "CronJob" for row in _owners(job))


def _owner_id(part: Mapping[str, Any], kinds: tuple[str, ...] = _KINDS) -> str:
    space = _text(_map(part["metadata"]).get("namespace")) or "default"
    names = [_text(row.get("name")) for row in _owners(part) if row.get("kind") in kinds]
    if not names:
        return ""
    top = _labels(part).get(LABELS[0])
    return f"{space}/{top if isinstance(top, str) and top else names[0]}"


def _owners(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in _list(_map(part["metadata"]).get("ownerReferences")) if isinstance(row, Mapping)]


def _id(object_: Mapping[str, Any]) -> str:
    meta = _map(object_["metadata"])
    return f"{_text(meta.get('namespace')) or 'default'}/{_text(meta.get('name'))}"


def _labels(object_: Mapping[str, Any]) -> Mapping[str, Any]:
    return _map(_map(object_["metadata"]).get("labels"))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return " ".join(value.split())[:1_000] if isinstance(value, str) else ""


def _number(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else 0


def _seconds(value: Any) -> int:
    """A time of the API; 0 if it says none."""
    try:
        return max(0, int(datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()))
    except (AttributeError, ValueError, OverflowError, TypeError):
        return 0

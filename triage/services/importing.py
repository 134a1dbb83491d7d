"""Imports faults from other records as resolved incidents, so that statistics have a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched
from typing import Any

from django.db import transaction

from ingest.models import Attempt, Cluster, Job, Node
from triage.domain.costs import cost_of, gpus_of
from triage.domain.report_facts import week_of
from triage.models import Activity, Diagnosis, Incident, Suspect
from triage.services.indexing import search_entries_make

#: words of a fault's description, in lower case, and their category; the first match wins
_WORDS = (
    ("silent data corruption", "hardware.gpu.sdc"),
    ("ecc", "hardware.gpu.ecc"),
    ("remap", "hardware.gpu.row_remap"),
    ("nvlink", "hardware.gpu.nvlink"),
    ("p2p", "hardware.gpu.nvlink"),
    ("nvswitch", "hardware.gpu.nvswitch"),
    ("gpu lost", "hardware.gpu.off_bus"),
    ("gpu device not found", "hardware.gpu.off_bus"),
    ("nvidia-smi timeout", "hardware.gpu.gsp"),
    ("xid", "hardware.gpu.kernel"),
    ("gpu temperature", "hardware.gpu.thermal"),
    ("fan", "hardware.gpu.thermal"),
    ("pci", "hardware.host.pcie"),
    ("riser", "hardware.host.pcie"),
    ("raid", "hardware.disk.io"),
    ("gpu", "hardware.gpu.kernel"),
    ("machine check", "hardware.host.memory"),
    ("kernel panic", "hardware.host.panic"),
    ("link down", "network.link_down"),
    ("optical", "network.link_down"),
    ("cable", "network.link_down"),
    ("nic", "hardware.network.adapter"),
    ("file system", "hardware.disk.io"),
    ("disk", "hardware.disk.io"),
    ("power", "hardware.host.lost"),
    ("motherboard", "hardware.host.lost"),
    ("cpu", "hardware.host.lost"),
    ("server down", "hardware.host.lost"),
    ("kubelet", "platform.scheduler.error"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One node out of service from ``started_at`` to ``ended_at`` (None: not repaired within the record)."""

    node: str
    started_at: datetime
    ended_at: datetime | None
    description: str
    category: str = ""

    @property
    def standing(self) -> str:
        """The given category, else the one that matches the description's words, else ``unknown``."""
        text = self.description.lower()
        return self.category or next((category for word, category in _WORDS if word in text), "unknown")


class ImportRefused(ValueError):
    """The record cannot be read; the message says where and why."""


def faults_of_trace(rows: Any, *, epoch: datetime) -> Iterator[Fault]:
    """Pairs the ``fault_start`` and ``fault_end`` events of a node-fault trace, times in days since ``epoch``.

    An event has ``node_id``, ``event_time``, ``event_type`` and ``fault_type`` (``Level``, ``Class``, ``Desc``).
    """
    if not isinstance(rows, list):
        raise ImportRefused("The trace is not a JSON list of events.")
    started: dict[tuple[str, str], float] = {}
    for n, row in enumerate(rows, 1):
        try:
            kind, node, days = row["event_type"], str(row["node_id"]), float(row["event_time"])
            description = " › ".join(str(row["fault_type"][name]) for name in ("Class", "Desc"))
        except (KeyError, TypeError, ValueError) as error:
            raise ImportRefused(f"Event {n} of the trace lacks or garbles {error}.") from error
        if kind == "fault_start":
            started.setdefault((node, description), days)
        elif (node, description) in started:
            start = started.pop((node, description))
            yield Fault(node, epoch + timedelta(days=start), epoch + timedelta(days=days), description)
    for (node, description), start in started.items():
        yield Fault(node, epoch + timedelta(days=start), None, description)


@transaction.atomic
def faults_import(*, cluster: Cluster, slug: str, faults: Iterable[Fault], user: Any = None) -> int:
    """Create one attempt and one resolved incident per fault, in the job ``slug``; importing again adds nothing.

    Returns the number of new incidents. Linear, in batches of a thousand rows.
    """
    job, is_new = Job.objects.get_or_create(
        slug=slug, defaults={"name": f"Recorded faults of {cluster}", "cluster": cluster, "created_by": user}
    )
    if not is_new:
        return 0
    created = 0
    ordered = sorted(faults, key=lambda fault: (fault.started_at, fault.node, fault.description))
    names = {fault.node for fault in ordered}
    Node.objects.bulk_create([Node(cluster=cluster, name=name) for name in sorted(names)], ignore_conflicts=True)
    nodes = {node.name: node for node in Node.objects.filter(cluster=cluster, name__in=names)}
    for batch in batched(enumerate(ordered), 1000):
        created += _batch_import(job, batch, nodes)
    Activity.objects.create(job=job, kind="imported", actor=user, data={"after": created})
    return created


def _batch_import(job: Job, batch: tuple[tuple[int, Fault], ...], nodes: dict[str, Node]) -> int:
    attempts = Attempt.objects.bulk_create(
        Attempt(job=job, number=n, node_count=1, outcome="failed", started_at=fault.started_at, ended_at=fault.ended_at)
        for n, fault in batch
    )
    diagnoses = Diagnosis.objects.bulk_create(
        Diagnosis(job=job, attempt=attempt, revision=1, engine="imported", report={"headline": fault.description})
        for attempt, (_, fault) in zip(attempts, batch, strict=True)
    )
    incidents = Incident.objects.bulk_create(
        _incident(job, diagnosis, fault) for diagnosis, (_, fault) in zip(diagnoses, batch, strict=True)
    )
    Suspect.objects.bulk_create(
        Suspect(
            incident=incident,
            position=0,
            entity=fault.node,
            kind="node",
            node=nodes[fault.node],
            score=1.0,
            reasons=[fault.description],
            sources=["imported"],
        )
        for incident, (_, fault) in zip(incidents, batch, strict=True)
    )
    search_entries_make(incidents)
    return len(incidents)


def _incident(job: Job, diagnosis: Diagnosis, fault: Fault) -> Incident:
    lost_s = (fault.ended_at - fault.started_at).total_seconds() if fault.ended_at else None
    cost = cost_of(gpus_of(diagnosis.attempt, job.cluster.gpus_per_node), 1, lost_s=lost_s)
    headline = f"{fault.node[:40]} out of service: {fault.description}"
    return Incident(
        job=job,
        cluster=job.cluster,
        team_id=job.team_id,
        attempt=diagnosis.attempt,
        diagnosis=diagnosis,
        state=Incident.State.RESOLVED if fault.ended_at else Incident.State.ACTIONED,
        headline=headline,
        category=fault.standing,
        standing_category=fault.standing,
        is_imported=True,
        symptom="crash",
        node_count=1,
        accused=[fault.node],
        happened_at=fault.started_at,
        opened_at=fault.started_at,
        reviewed_at=fault.started_at,
        resolved_at=fault.ended_at,
        week=week_of(fault.started_at),
        lost_s=lost_s,
        repaired_s=lost_s,
        node_hours=cost.node_hours,
        gpu_hours=cost.gpu_hours,
        is_cost_assumed=cost.is_assumed,
    )

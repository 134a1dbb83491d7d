"""The ``job`` object of a report: what all evidence together tells of the job itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from diagnosis.evidence import Fact, FlowFinding, FlowJob
from diagnosis.evidence.inventory import Inventory
from diagnosis.facts.gpu_count import GpuCount, GpuEvidence, count_gpus, devices_of
from diagnosis.model import JobHints
from diagnosis.records.report_records import JobRow
from diagnosis.records.result import NO_LOGS, LogDiagnosis
from diagnosis.values.json_values import JsonObject

#: Nodes that a report names.
MAX_NODE_NAMES: Final = 4096
#: Characters of the name of a switch.
MAX_SWITCH_NAME: Final = 100


def describe_job(
    known: Inventory,
    hints: JobHints,
    logs: LogDiagnosis | None,
    shown_layout: JsonObject | None,
    flow_finding: FlowFinding,
    stated: Sequence[tuple[str, Fact]],
) -> JobRow:
    """What is stated of the job, else what its evidence shows.

    ``shown_layout``: that of the stacks; ``stated``: the facts of all files, with their paths.
    """
    from_logs = logs or NO_LOGS
    names = list(known.nodes or hints.nodes or from_logs.node_names)
    count = _gpus(known, from_logs, flow_finding, stated, nodes=len(names))
    return JobRow(
        id=known.job_id,
        name=hints.name,
        family=hints.family,
        framework=known.framework or from_logs.framework or "unknown",
        nodes=len(names),
        node_names=names[:MAX_NODE_NAMES],
        world_size=known.world_size or from_logs.world_size,
        gpus_per_node=known.gpus_per_node,
        gpus=count.gpus if count else None,
        gpus_from=count.source if count else None,
        layout=dict(known.layout) or shown_layout or None,
        scheduler=from_logs.scheduler,
        said_outcome=hints.outcome or None,
        switch_of=_switches(known, names) or UNSET,
        attempts=from_logs.attempts,
    )


def _switches(known: Inventory, names: Sequence[str]) -> dict[str, str]:
    """The switch of each machine that the report names."""
    named = names[:MAX_NODE_NAMES]
    return {name: known.leaf_of[name][:MAX_SWITCH_NAME] for name in named if name in known.leaf_of}


def _gpus(
    known: Inventory,
    from_logs: LogDiagnosis,
    flow_finding: FlowFinding,
    stated: Sequence[tuple[str, Fact]],
    *,
    nodes: int,
) -> GpuCount | None:
    """The job's GPUs. An inventory may list more machines than those whose flows are the job's."""
    only_job = flow_finding.jobs[0] if len(flow_finding.jobs) == 1 else FlowJob()
    own_nodes = len(only_job.nodes) or nodes
    return count_gpus(
        GpuEvidence(
            nodes=own_nodes,
            stated=known.world_size or 0,
            per_node=known.gpus_per_node or 0,
            ranks=from_logs.world_size or 0,
            devices=devices_of(stated, own_nodes) or len(only_job.members),
        )
    )

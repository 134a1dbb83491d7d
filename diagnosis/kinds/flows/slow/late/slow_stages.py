"""Phase 4, the stages of a pipeline: which one computed longer than before, and which has more work
than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.arrays import runs
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.layout.group_numbers import group_numbers
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow import slowness
from diagnosis.kinds.flows.slow.slowness import SlowReport, group_of, names_of, slow_steps
from diagnosis.kinds.flows.steps.stage_times import (
    StageTimes,
    slower_than_before,
    unbalanced_stages,
)
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values.plain import duration, times_as_long
from diagnosis.values.stats import is_minority

THRESHOLDS: Final = thresholds.of("slow_stages")


def without_explained(
    found: list[SlowReport], workers: list[SlowReport], layout: Layout, times: StageTimes, steps: Steps
) -> list[SlowReport]:
    """The late members that waited for no slow worker of their own replica at the same time. Who is
    late from the first step to the last while no stage of its replica computes longer waits for its
    transfers.
    """
    replica = group_numbers(layout.pp_groups)
    lasted = THRESHOLDS.whole * (float(steps.end[-1]) - float(steps.start[0]))
    known = {replica.get(int(member)) for member in times.nodes} - {None}

    def is_explained(slow: SlowReport) -> bool:
        explained = known if slow.t1 - slow.t0 >= lasted else _replicas_of(workers, slow, replica)
        return {replica.get(member) for member in slow.culprits} <= explained

    return [slow for slow in found if not is_explained(slow)]


def _replicas_of(workers: list[SlowReport], slow: SlowReport, replica: Mapping[int, int]) -> set[int | None]:
    """The replicas that had a slow worker while something was slow."""
    found: set[int | None] = set()
    for worker in workers:
        if worker.t0 < slow.t1 and worker.t1 > slow.t0:
            found.update(map(replica.get, worker.culprits))
    return found


def narrow_to_stage(
    found: list[SlowReport], times: StageTimes, steps: Steps, layout: Layout, capture: Capture
) -> list[SlowReport]:
    """In a pipeline a slow stage delays all stages of its replica: the culprit is the member that
    computed longer than before, among the late ones and those that they wait for.
    """
    replica = group_numbers(layout.pp_groups)
    for slow in found:
        late = {replica.get(m) for m in slow.culprits}
        first, last = (
            int(k) for k in np.clip(steps.of(np.array([slow.t0, slow.t1])) + np.array([1, 0]), 0, len(steps) - 1)
        )
        guilty = [x for x in slower_than_before(times, first, last) if replica.get(x[0]) in late]
        if guilty:
            members = [m for m, _ in guilty]
            nodes, who = names_of(members, capture)
            slow.reason = f"{who} computed {times_as_long(guilty[0][1])} as before; {slow.reason}"
            slow.culprits, slow.nodes = members, nodes
    return found


def uneven_stages(times: StageTimes, steps: Steps, capture: Capture) -> list[SlowReport]:
    """Stages slower in every step: an uneven split of the model, no broken machine."""
    found: list[SlowReport] = []
    for stage, seconds, others in unbalanced_stages(times):
        members = [int(m) for m in times.nodes[times.stage == stage]]
        nodes, who = names_of(members, capture)
        reason = (
            f"Pipeline stage {stage + 1} of {times.stages} ({who}) needs {duration(seconds)} a micro-batch "
            f"in every step, the other stages {duration(others)}: the model may be split unevenly."
        )
        found.append(
            SlowReport(
                "slow_group",
                float(steps.start[0]),
                float(steps.end[-1]),
                reason,
                members=members,
                culprits=members,
                nodes=nodes,
                factor=seconds / others,
                measure="uneven",
                confidence=THRESHOLDS.uneven,
            )
        )
    return found


def lasting_slow_stages(
    steps: Steps, known: list[SlowReport], layout: Layout, times: StageTimes | None, capture: Capture
) -> list[SlowReport]:
    """Runs of unexplained slow steps: finds the stage that computed longer than before."""
    mask, usual, _ = slow_steps(steps)
    found: list[SlowReport] = []
    for first, last in runs(mask):
        t0, t1 = float(steps.start[first]), float(steps.end[last])
        explained = any(s.t0 < t1 and s.t1 > t0 and s.t1 - s.t0 < THRESHOLDS.whole * capture.span_s for s in known)
        if last - first + 1 < slowness.THRESHOLDS.steps or explained or times is None:
            continue
        guilty = slower_than_before(times, first, last)
        if is_minority(len(guilty), len(times.nodes)):  # if all are slower, none of them is at fault
            members = [m for m, _ in guilty]
            nodes, who = names_of(members, capture)
            reason = f"{who} computed {times_as_long(guilty[0][1])} as before in steps {first + 1} to {last + 1}."
            factor = float(np.median(steps.normalised_s[first : last + 1])) / usual
            group = group_of(members[0], layout)
            found.append(
                SlowReport(
                    "slow_group",
                    t0,
                    t1,
                    reason,
                    members=group,
                    culprits=members,
                    nodes=nodes,
                    factor=factor,
                    measure="late",
                    confidence=THRESHOLDS.slower,
                )
            )
    return found

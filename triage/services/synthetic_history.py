"""A year of generated training history on 400 nodes, for the demonstration: pure; equal end times give equal histories.

Four parts of the machine park each run one job after the other. Failures are random, in proportion to nodes and hours.
A failure ends an attempt; the next attempt continues from the last checkpoint. All figures of the statistics page
follow from these rows, so that they add up like real ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

#: all of them are in the “last 365 days” on the day of the end
DAYS = 364
NODES = tuple(f"demo-{number:03d}" for number in range(1, 401))
STEP_S = 20.0
CHECKPOINT_STEPS = 180
#: machines that fail more often than others, as in every park
_LEMONS = {"demo-017": 25.0, "demo-118": 40.0, "demo-203": 15.0, "demo-371": 20.0}
_SEED = 7


@dataclass(frozen=True, slots=True)
class Park:
    """A part of the park: its program, its number of nodes, and the hours of training per job."""

    model: str
    framework: str
    nodes: int
    hours: tuple[float, float]


_PARKS = (
    Park("gpt-70b", "megatron", 256, (400.0, 900.0)),
    Park("gpt-8b", "megatron", 64, (120.0, 300.0)),
    Park("llava-13b", "deepspeed", 48, (24.0, 90.0)),
    Park("research", "torchrun", 32, (40.0, 200.0)),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure: its frequency, what the machine may take it for, its headline."""

    category: str
    weight: float
    symptom: str
    headline: str
    reason: str = ""
    confused_with: str = "unknown"
    stage: str = "training"

    @property
    def is_of_a_node(self) -> bool:
        return bool(self.reason)


_KINDS = (
    Kind(
        "hardware.gpu.ecc", 20, "crash", "{node}: an uncorrectable memory error of a GPU", "Xid 94 on this node alone"
    ),
    Kind("hardware.gpu.off_bus", 16, "crash", "{node}: a GPU fell off the bus", "Xid 79 on this node alone"),
    Kind("hardware.gpu.nvlink", 9, "crash", "{node}: an NVLink failed", "Xid 74 first here", "hardware.gpu.off_bus"),
    Kind("hardware.host.lost", 9, "crash", "{node} went silent: no word of it after its last step", "silent first"),
    Kind(
        "hardware.network.adapter", 6, "crash", "{node}: its network adapter reset", "adapter reset in its kernel log"
    ),
    Kind("hardware.gpu.thermal", 3, "slow", "{node} slowed down: a GPU is too hot", "its ranks were waited for"),
    Kind("network.link_down", 8, "hang", "{node}: a link to its switch went down", "link down in its kernel log"),
    Kind("network.rdma_timeout", 7, "hang", "A transfer between nodes ran out of retries", "", "network.link_down"),
    Kind("framework.collective.timeout", 6, "hang", "A collective did not finish in time", "", "network.rdma_timeout"),
    Kind("framework.checkpoint", 3, "crash", "Saving a checkpoint failed", "", "unknown", "checkpoint_save"),
    Kind("framework.dataloader", 3, "hang", "The data loader stopped on {node}", "its loader waits for storage"),
    Kind("user.memory.cuda_oom", 6, "crash", "A rank ran out of GPU memory", "", "user.code.exception"),
    Kind("user.code.exception", 5, "crash", "The training program raised an exception"),
    Kind("user.numerics", 3, "crash", "The loss became NaN", "", "hardware.gpu.sdc"),
    Kind("platform.storage.outage", 3, "hang", "The shared storage did not answer"),
    Kind(
        "performance.straggler",
        3,
        "slow",
        "{node} held the others back",
        "its ranks were waited for",
        "performance.network",
    ),
)

#: what the machine says of a failure that it takes for another one
_MISTAKEN_HEADLINES = {
    "unknown": "The job stopped, cause unknown",
    "hardware.gpu.off_bus": "{node}: a GPU fell off the bus",
    "hardware.gpu.sdc": "A GPU computed wrong numbers",
    "network.link_down": "A link between nodes went down",
    "network.rdma_timeout": "A transfer between nodes ran out of retries",
    "performance.network": "Transfers with {node} were slow",
    "user.code.exception": "The training program raised an exception",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended an attempt. ``machine_category`` is the machine's category, ``state`` the later ``Incident.State``."""

    kind: Kind
    node: str
    at: datetime
    detected_s: float
    step: int
    machine_category: str
    confidence: float
    state: str
    judged_at: datetime | None
    resolved_at: datetime | None
    is_suspect_judged: bool

    @property
    def is_understood(self) -> bool:
        return self.machine_category == self.kind.category

    @property
    def headline(self) -> str:
        headline = self.kind.headline if self.is_understood else _MISTAKEN_HEADLINES[self.machine_category]
        return headline.format(node=self.node)

    @property
    def reason(self) -> str:
        """Why the node is accused."""
        return self.kind.reason if self.is_understood else "its last lines differ from those of all others"


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt: it did steps ``first`` to ``last`` from ``trains_at`` on; ``ended_at`` is None while it runs."""

    started_at: datetime
    trains_at: datetime
    last_step_at: datetime
    ended_at: datetime | None
    first: int
    last: int
    failure: Failure | None = None


@dataclass(slots=True)
class SyntheticJob:
    """One job with its attempts; ``is_over`` unless it runs at the end of the year."""

    park: Park
    number: int
    launches: list[Launch] = field(default_factory=list)
    is_over: bool = True


def history(end: datetime) -> Iterator[SyntheticJob]:
    """The jobs of the year that ends at ``end``, park by park. O(jobs + failures), a few hundred of each."""
    start, first = end - timedelta(days=DAYS), 0
    for park in _PARKS:
        dice = random.Random(f"{_SEED} {park.model}")  # noqa: S311  # random figures, not secrets
        names = NODES[first : first + park.nodes]
        first += park.nodes
        at, number = start, 0
        while at < end:
            number += 1
            job = SyntheticJob(park, number)
            at = _run(job, names, at, start, end, dice)
            yield job
            at += timedelta(hours=2 + dice.expovariate(1 / 8))


def _run(
    job: SyntheticJob, names: tuple[str, ...], at: datetime, start: datetime, end: datetime, dice: random.Random
) -> datetime:
    """Add attempts to the job until its steps are done or the year is over; returns when it ended."""
    needed, done_steps = int(dice.uniform(*job.park.hours) * 3600 / STEP_S), 0
    while True:
        trains_at = at + timedelta(minutes=dice.uniform(3, 9))
        rate = _failures_per_node_day((at - start) / timedelta(days=DAYS)) * job.park.nodes
        lives_s = dice.expovariate(rate / 86_400)
        steps = min(needed - done_steps, int(lives_s / STEP_S))
        last_at = trains_at + timedelta(seconds=steps * STEP_S)
        if last_at >= end or trains_at >= end:
            steps = int(max(0.0, (end - trains_at).total_seconds()) / STEP_S)
            if steps:
                last_at = trains_at + timedelta(seconds=steps * STEP_S)
                job.launches.append(Launch(at, trains_at, last_at, None, done_steps + 1, done_steps + steps))
            job.is_over = False
            return end
        if done_steps + steps >= needed:
            job.launches.append(Launch(at, trains_at, last_at, last_at, done_steps + 1, needed))
            return last_at
        failure = _failure(names, last_at, done_steps + steps, at - start, end, dice)
        ended_at = min(last_at + timedelta(seconds=failure.detected_s), end)
        if steps:
            job.launches.append(Launch(at, trains_at, last_at, ended_at, done_steps + 1, done_steps + steps, failure))
            done_steps += steps - steps % CHECKPOINT_STEPS
        at = max(ended_at, failure.resolved_at or ended_at) + timedelta(minutes=1)


def _failures_per_node_day(year: float) -> float:
    """Falls over the year, except for a quarter with a bad batch of optics."""
    return 0.0030 if 0.4 < year < 0.6 else 0.0023 - 0.0009 * year


def _failure(
    names: tuple[str, ...], at: datetime, step: int, age: timedelta, end: datetime, dice: random.Random
) -> Failure:
    year = age / timedelta(days=DAYS)
    weights = [kind.weight * (5 if kind.category == "network.link_down" and 0.4 < year < 0.6 else 1) for kind in _KINDS]
    kind = dice.choices(_KINDS, weights)[0]
    node = dice.choices(names, [_LEMONS.get(name, 1.0) for name in names])[0]
    detected_s = dice.uniform(900, 2400) if kind.symptom == "hang" else dice.uniform(40, 300)
    machine_category = kind.confused_with if dice.random() < 0.2 - 0.08 * year else kind.category
    repaired_s = detected_s + dice.lognormvariate(7.6 - 0.7 * year, 0.6)
    resolved_at = at + timedelta(seconds=repaired_s)
    judged_at = at + timedelta(seconds=detected_s + dice.lognormvariate(8.2, 0.9))
    state = _state(machine_category, machine_category == kind.category, end - at, dice)
    return Failure(
        kind=kind,
        node=node,
        at=at,
        detected_s=detected_s,
        step=step,
        machine_category=machine_category,
        confidence=round(
            dice.uniform(0.72, 0.97) if machine_category == kind.category else dice.uniform(0.38, 0.66), 2
        ),
        state=state,
        judged_at=judged_at if state != "awaiting_review" and judged_at < end else None,
        resolved_at=resolved_at if resolved_at < end else None,
        is_suspect_judged=dice.random() < 0.8,
    )


def _state(machine_category: str, is_right: bool, age: timedelta, dice: random.Random) -> str:
    """The incident's state; recent ones may still await review. An unnamed cause is named or left inconclusive."""
    if age < timedelta(days=6) and dice.random() < 0.6:
        return "awaiting_review"
    if age < timedelta(days=2):
        return "confirmed" if is_right else "corrected"
    if not is_right:
        weights = [7, 0, 3] if machine_category == "unknown" else [7, 2, 1]
        return dice.choices(["corrected", "rejected", "inconclusive"], weights)[0]
    return dice.choices(["resolved", "confirmed", "actioned"], [6, 3, 1])[0]

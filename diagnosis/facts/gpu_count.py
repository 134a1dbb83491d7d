"""How many GPUs a job has: the one answer for headlines, costs, statistics and plans."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from diagnosis.evidence import Fact
from diagnosis.values import numbers

#: "assumed": nodes times what machines of the cluster usually have; no evidence says so
type Source = Literal["stated", "ranks", "devices", "assumed"]
#: the part of a report about one accelerator: "GPU 00000000:9B:00.0", "GPU[3]", "device 0"
_DEVICE: Final = re.compile(r"(?:gpu|npu|device)[ \[]?([0-9a-f:.]{1,20})", re.IGNORECASE)


class GpuCount(msgspec.Struct, frozen=True):
    """``gpus`` of all nodes together, and the ``source`` of the number."""

    gpus: int
    source: Source


class GpuEvidence(msgspec.Struct, frozen=True):
    """What is known of a job's GPUs; 0 for what is not. ``stated``: of the whole job, ``per_node``:
    stated of one node, ``ranks``: the highest rank that was seen and one more, ``devices``: seen by
    reports of nodes or by flows.
    """

    nodes: int = 0
    stated: int = 0
    per_node: int = 0
    ranks: int = 0
    devices: int = 0


def count_gpus(known: GpuEvidence, assumed_per_node: int = 0) -> GpuCount | None:
    """The GPUs as stated, else the ranks, else the devices seen, else nodes times
    ``assumed_per_node``; None if nothing tells. Fewer ranks than nodes are not the ranks of the
    job: each node has at least one.
    """
    ranks = known.ranks if known.ranks >= known.nodes else 0
    candidates: tuple[tuple[int, Source], ...] = (
        (known.stated or known.per_node * known.nodes, "stated"),
        (ranks, "ranks"),
        (known.devices, "devices"),
        (assumed_per_node * known.nodes, "assumed"),
    )
    for gpus, source in candidates:
        if 0 < gpus <= numbers.MAX_RANKS:
            return GpuCount(gpus, source)
    return None


def devices_of(facts: Iterable[tuple[str, Fact]], nodes: int) -> int:
    """The accelerators of ``nodes`` nodes: as many each as on the place that shows most. Linear in
    facts.
    """
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for path, fact in facts:
        if found := _DEVICE.match(fact.part):
            seen[fact.place.name or path].add(found[1].lower())
    most = max(map(len, seen.values()), default=0)
    return most * max(nodes, len(seen))

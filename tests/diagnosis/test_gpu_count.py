"""The GPUs of a job: stated, else ranks, else devices seen, else an assumption."""

from __future__ import annotations

import pytest

from diagnosis.evidence import Fact, Place
from diagnosis.facts.gpu_count import GpuCount, GpuEvidence, count_gpus, devices_of


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (GpuEvidence(nodes=2, stated=12, ranks=16, devices=8), GpuCount(12, "stated")),
        (GpuEvidence(nodes=2, per_node=4, ranks=16), GpuCount(8, "stated")),
        (GpuEvidence(nodes=2, ranks=16, devices=8), GpuCount(16, "ranks")),
        (GpuEvidence(nodes=2, devices=8), GpuCount(8, "devices")),
        (GpuEvidence(nodes=2), GpuCount(16, "assumed")),
        (GpuEvidence(nodes=4, ranks=1), GpuCount(32, "assumed")),  # the log of one rank alone
        (GpuEvidence(stated=10**9, ranks=4), GpuCount(4, "ranks")),
        (GpuEvidence(), None),
    ],
)
def test_the_best_evidence_tells_the_number(known: GpuEvidence, found: GpuCount | None) -> None:
    assert count_gpus(known, assumed_per_node=8) == found


def test_nodes_have_as_many_devices_as_the_one_that_shows_most() -> None:
    parts = {"n1": ("GPU 00000000:9B:00.0", "GPU 00000000:BB:00.0", "GPU 00000000:bb:00.0"), "n2": ("GPU[0]", "mlx5_0")}
    facts = [("smi", Fact(Place("node", node), "ecc", "0", part=part)) for node, own in parts.items() for part in own]

    assert devices_of(facts, nodes=4) == 8
    assert devices_of([], nodes=4) == 0

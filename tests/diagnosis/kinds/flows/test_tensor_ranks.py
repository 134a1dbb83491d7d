"""Tensor ranks on several machines exchange in each layer, in their own time: a recording of real training, two tensor
ranks by four replicas, one rank a machine, iterations 26 to 60.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.layout.stated import StatedLayout
from diagnosis.model import ParseHints
from tests.diagnosis.kinds.reports import flows_json

RECORDING = Path(__file__).with_name("recordings") / "tensor2_ddp4.parquet"
INVENTORY = [{"ip": f"10.77.0.{10 + n}", "node": f"gpu-node-{n:02d}", "switch": f"leaf{n // 4}"} for n in range(8)]
ITERATIONS = 35


def told(work: Path, *stated: StatedLayout) -> dict[str, Any]:
    with RECORDING.open("rb") as stream:
        parsed = parse_flow(stream, "flows.parquet", ParseHints(), work)
    (job,) = flows_json([parsed], inventory=INVENTORY, stated=stated)["jobs"]
    return job


def test_the_replicas_that_exchange_once_a_step_show_the_steps(tmp_path: Path) -> None:
    assert len(told(tmp_path)["steps"]) == ITERATIONS


@pytest.mark.parametrize("tensor", [2, 4])
def test_a_statement_about_tensor_ranks_binds_the_layout_if_the_flows_show_such_groups(
    tensor: int, tmp_path: Path
) -> None:
    job = told(tmp_path, StatedLayout({"tp": tensor, "dp": 8 // tensor}, ranks=8))
    assert len(job["steps"]) == ITERATIONS
    if tensor == 2:
        assert (job["parallelism"], job.get("apart")) == ({"tp": 2, "pp": 1, "dp": 4}, None)
        assert {p["type"] for p in job["pairs"]} == {"DP", "other"}
    else:
        assert job["apart"]["stated"] == "tp 4, dp 2"

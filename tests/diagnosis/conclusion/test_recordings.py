"""What is concluded from recordings of real training; that no report contradicts itself, ``conftest`` sees to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diagnosis.kinds import checks
from tests.diagnosis.conclusion.conftest import SAMPLES, reported

#: What happened in each sample: condition, and who is accused first.
TRUE = {
    "delay_100ms_node": ("degraded", "gpu-node-03"),
    "disk_full_ckpt": ("failed", "gpu-node-03"),
    "exc_one_rank_shape": ("failed", None),
    "hang_dataloader": ("hung", "gpu-node-02"),
    "healthy_ddp_a": ("healthy", None),
    "healthy_ddp_b": ("healthy", None),
    "sigkill_rank5": ("failed", "gpu-node-02"),
}


@pytest.mark.parametrize("name", TRUE)
def test_each_sample_is_concluded_as_it_happened(name: str, report_on: Callable[[str], dict[str, Any]]) -> None:
    told = report_on(name)["conclusion"]
    first = told["fault"][0]["name"] if told["fault"] else None
    assert (told["condition"], first) == TRUE[name]


@pytest.mark.parametrize(("outcome", "is_first"), [("fail", True), ("pass", False)])
def test_the_output_of_a_check_is_evidence_that_moves_the_culprit(outcome: str, is_first: bool, tmp_path: Path) -> None:
    output = next(c for c in checks.load() if c.id == "dcgm").examples[outcome]
    path = tmp_path / "more" / "checks" / "gpu-node-02" / "dcgm.txt"
    path.parent.mkdir(parents=True)
    path.write_text(output)
    told = reported(tmp_path / "work", SAMPLES / "sigkill_rank5.tar.gz", tmp_path / "more")["conclusion"]
    before = TRUE["sigkill_rank5"][1]
    first = told["fault"][0] if told["fault"] else {"name": None, "p": 0.0}
    assert (first["name"] == before) is is_first
    if is_first:
        assert first["p"] > 0.98
    assert any(row["what"] == "check" for row in told["chain"])
    assert not any(row["id"] == "dcgm" for row in told["checks"])

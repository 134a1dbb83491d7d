"""A number in evidence bounds no memory and no loop: 10^12 in every place of every kind of evidence."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.hostile_numbers import HUGE_BYTES, SCENES, TOGETHER, variants
from tests.patience import WORK_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, Any]]:
    """What each scene cost, all played in one process: the engine is loaded once."""
    argv = [sys.executable, "-m", "tests.diagnosis.hostile_numbers"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {row["scene"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.xdist_group("hostile numbers")
@pytest.mark.parametrize("scene", SCENES)
def test_a_huge_number_anywhere_costs_neither_memory_nor_time(scene: str, told: dict[str, dict[str, Any]]) -> None:
    cost = told[scene]
    assert cost["count"] > 1
    assert cost["wrong"] == []
    assert cost["more_bytes"] < 400 << 20, cost


def test_every_kind_of_number_is_made_huge_once_and_some_together() -> None:
    made = [changed for _, changed in variants({"rank-3.txt": b"a 12 b 7\na 13 b 8\na 9\n", "rank-4.txt": b"a 4"})]
    # of the lines alike, of "a 9", which ends the line, and of "a 4"
    kinds = 2 + 1 + 1
    assert len(made) == 1 + math.ceil(kinds / TOGETHER)  # and one of the paths
    texts = [b" ".join(changed.values()) for changed in made]
    assert sum(len(re.findall(rb"\d{6,}", text)) for text in texts) == kinds


def test_every_four_bytes_of_a_binary_file_are_made_huge_and_each_value_has_its_turn() -> None:
    made = [changed["a.pcap"] for _, changed in variants({"a.pcap": bytes(20)}, most=1000)]
    assert len(made) == 17
    assert {len(data) for data in made} == {20}
    assert all(any(value in data for data in made) for value in HUGE_BYTES)

"""A number in evidence bounds no memory and no loop: 10^12 in every place of every kind of evidence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.diagnosis.hostile_numbers import SCENES, variants

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("scene", SCENES)
def test_a_huge_number_anywhere_costs_neither_memory_nor_time(scene: str) -> None:
    argv = [sys.executable, "-m", "tests.diagnosis.hostile_numbers", scene]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["count"] > 10
    assert told["wrong"] == []
    assert told["more_bytes"] < 400 << 20, told
    assert told["slowest"][0] < 8, told


def test_every_number_of_a_scene_is_made_huge_once() -> None:
    made = [told for told, _ in variants({"rank-3.txt": b"a 12 b 7"}, most=1000)]
    assert len(made) == 2 * 3

"""A launch failure is reported only if the logs show the launch and no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.synthetic import read_files

CAUSE = "OSError: [Errno 28] No space left on device: '/local/a'"


@pytest.mark.parametrize(
    ("text", "symptom"),
    [
        (f"initializing torch.distributed\nbuilding model\n{CAUSE}\n", "launch_failure"),
        ("srun: error: Unable to create step for job 9: Unable to contact slurm controller\n", "launch_failure"),
        (f"some lines before\n{CAUSE}\n", "crash"),
    ],
    ids=["launch seen", "start failed", "excerpt"],
)
def test_a_failed_launch_is_seen_not_guessed(text: str, symptom: str, tmp_path: Path) -> None:
    parsed, read = read_files({"train.log": text.encode()}, tmp_path)
    told = to_json(diagnose(parsed, read=read))
    assert told["logs"]["symptom"] == symptom
    assert ("did not start" in told["headline"]) == (symptom == "launch_failure")

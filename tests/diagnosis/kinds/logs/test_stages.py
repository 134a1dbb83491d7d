"""The stage of a job that a line or a frame shows."""

from __future__ import annotations

import polars as pl

from diagnosis.kinds.logs.meaning import stages


def marked(*lines: str) -> list[tuple[str, bool]]:
    frame = pl.DataFrame({"masked": range(len(lines)), "text": lines})
    return [(stage, is_end) for stage, is_end in stages.stage_marks(frame).select("stage", "is_end").iter_rows()]


def test_a_marker_tells_what_begins_or_ends() -> None:
    assert marked("saving checkpoint at iteration 9", "checkpoint step_9 saved") == [
        ("checkpoint_save", False),
        ("checkpoint_save", True),
    ]


def test_a_failure_is_no_marker() -> None:
    assert marked("failed saving checkpoint at iteration 9") == []


def test_training_continues_after_a_save_and_begins_after_preparations() -> None:
    assert stages.stage_after_end("checkpoint_save", trained=False) == "training"
    assert stages.stage_after_end("rendezvous", trained=False) == "model_build"
    assert stages.stage_after_end("checkpoint_load", trained=True) == "training"

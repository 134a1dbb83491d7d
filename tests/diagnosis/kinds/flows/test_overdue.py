"""The member that did not send what was due in the step that broke off, where records show no turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.diagnosis.kinds.flows.helpers import analysed
from tests.diagnosis.kinds.flows.simulate import Capture, Job, simulate


def whole_capture() -> Capture:
    return simulate(Job(tp=1, pp=1, dp=6, gpus=1, steps=20))


def broken(whole: Capture, silent: str, *, sent: int) -> pl.DataFrame:
    """The records of a job whose last step broke off: ``silent`` sent so many messages in it, the others one more."""
    number = pl.int_range(pl.len()).over("src")
    in_last = pl.col("start_time") > whole.ends[-2]
    most = pl.when(pl.col("src") == silent).then(sent).otherwise(sent + 1)
    last = whole.records.filter(in_last).sort("start_time").filter(number < most)
    return pl.concat([whole.records.filter(~in_last), last])


def heartbeats(whole: Capture, senders: list[str]) -> pl.DataFrame:
    """Few bytes on another connection, for half a minute after the job stopped."""
    one = whole.records.head(1).with_columns(bytes=pl.lit(90), packets=pl.lit(1), dst_port=pl.lit(29500))
    meeting_point = whole.members[0]
    rows = [
        one.with_columns(start_time=pl.lit(whole.ends[-1] + second), src=pl.lit(src), dst=pl.lit(meeting_point))
        for second in range(2, 30, 2)
        for src in senders
        if src != meeting_point
    ]
    return pl.concat(rows).cast(dict(whole.records.schema))


def report_of(whole: Capture, records: pl.DataFrame, work: Path) -> dict[str, Any]:
    return analysed([whole], work, records.sort("start_time"), inventory=False)


@pytest.mark.parametrize(("silent", "sent"), [(2, 0), (4, 1)])
def test_who_stopped_first_in_a_step_is_named_while_the_others_wait(tmp_path: Path, silent: int, sent: int) -> None:
    whole = whole_capture()
    name = whole.members[silent]
    living = [member for member in whole.members if member != name]
    records = pl.concat([broken(whole, name, sent=sent), heartbeats(whole, living)])
    (suspect,) = report_of(whole, records, tmp_path)["suspects"]
    assert (suspect["entity"], suspect["how"]) == (name, "overdue")
    (reason,) = suspect["reasons"]
    assert reason.startswith(f"{name} fell silent first, in the middle of a step; the others waited for ")
    assert reason.endswith(" Nothing came from it any more. Flows do not show why.")


def test_of_a_job_that_was_ended_in_the_middle_of_a_step_nobody_is_named(tmp_path: Path) -> None:
    """Nothing of the job goes on, only a record between others keeps the capture open."""
    whole = whole_capture()
    records = pl.concat([broken(whole, whole.members[2], sent=0), heartbeats(whole, whole.members[3:4])])
    assert report_of(whole, records, tmp_path)["suspects"] == []


def test_of_a_job_that_ended_after_a_whole_step_nobody_is_named(tmp_path: Path) -> None:
    whole = whole_capture()
    records = pl.concat([whole.records, heartbeats(whole, whole.members)])
    assert report_of(whole, records, tmp_path)["suspects"] == []


def test_where_the_receiver_went_on_without_the_message_nobody_is_named(tmp_path: Path) -> None:
    """As in an evaluation, in which some members send and others only receive."""
    whole = whole_capture()
    name = whole.members[2]
    is_others = (pl.col("src") != name) | (pl.col("start_time") <= whole.ends[-2])
    records = pl.concat([whole.records.filter(is_others), heartbeats(whole, whole.members)])
    assert report_of(whole, records, tmp_path)["suspects"] == []

"""A file system that fills."""

from __future__ import annotations

from typing import Any


def test_a_full_file_system_is_an_alarm_until_it_is_less_full(job: Any) -> None:
    job.trains(20).says(disks=[["/ckpt", 96.0]])
    assert (job.kinds, job.text) == (["disk"], "/ckpt is 96\u00a0% full (node-1/train.log).")
    assert job.says(disks=[["/ckpt", 60.0]]).kinds == []


def test_growth_says_when_it_is_full(job: Any) -> None:
    for n in range(5):
        job.trains(30).says(disks=[["/ckpt", 80.0 + n]])
    assert job.text == "/ckpt is 84\u00a0% full, full in 16 min at this pace (node-1/train.log)."


def test_statements_that_one_look_brings_say_no_time(job: Any) -> None:
    job.trains(20).says(disks=[["/ckpt", 80.0 + n] for n in range(5)])
    assert job.kinds == []


def test_a_disk_that_is_half_full_and_steady_is_none(job: Any) -> None:
    for n in range(20):
        job.trains(5).says(disks=[["/ckpt", 80.0 + n % 2], ["/home", 40.0 + n]])
        assert job.kinds == []

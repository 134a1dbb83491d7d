"""Stamps that compiled code reads have the values that the patterns give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.read import lines, times
from diagnosis.kinds.logs.text import stamps

_PARTS = (
    "I0301 08:00:00.123456",
    "W20260301 08:00:60.5",
    "E0230 01:02:03.1",
    "F1231 23:59:59.999999999999 ",
    "D0301 24:00:00.1",
    "I0301  08:00:00.1",
    "I0301 08:00:00",
    "I19700101 00:00:00.0",
    "I00010101 00:00:00.0",
    "[rank1]:[I0301 08:00:00.5",
    "[rank1]:[W328 00:24:38.673197707",
    "E031 08:00:00.5",
    "I301  08:00:00.5",
    "Mar  1 08:00:00",
    "Feb 29 08:00:00.123",
    "Feb 30 01:01:01",
    "Dec 31 23:59:60",
    "March 1 00:00:00",
    "Mar 123 00:00:00",
    "Sep 01 12:30:00.1234567890",
    *("x", "é", "一", " ", "[", "_", "0", "Jun", "I", "."),
)
_STYLES = {style.name: style for style in times.TIME_STYLES}


@given(st.lists(st.lists(st.sampled_from(_PARTS), min_size=1, max_size=4).map("".join), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("name", ["glog", "syslog"])
def test_compiled_code_reads_the_times_that_the_patterns_read(name: str, zone: str, rows: list[str]) -> None:
    block = lines.read(lines.Block("\n".join([*rows, ""]).encode(), 0, "utf-8"))
    every, style = np.arange(len(rows)), _STYLES[name]
    by_patterns = times._times_by_pattern(block.text(every, style.reach), style, zone).fill_null(stamps.NO_TIME)
    assert times.read_times(block, every, style, zone).tolist() == by_patterns.to_list()


def test_a_stamp_that_is_cut_by_the_reach_is_no_time() -> None:
    block = lines.read(lines.Block(b"I0301 08:00:00.5 x\nMar  1 08:00:00 x\n", 0, "utf-8"))
    found = np.zeros(2, np.int64)
    stamps.glog_times(block.data, block.start, block.end, np.arange(2), 15, found)
    assert (found == stamps.NO_TIME).all()
    stamps.syslog_times(block.data, block.start, block.end, np.arange(2), 14, found)
    assert (found == stamps.NO_TIME).all()


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0: INFO    25-09-28 05:30:59.256169 - 0:07:42 - step: 80", "2025-09-28T05:30:59.256169"),
        ("[25-09-28T05:30:59] x", "2025-09-28T05:30:59"),
        ("09-28-2025 05:30:59,5 x", "2025-09-28T05:30:59.5"),
        ("28-09-2025_05:30:59 x", "2025-09-28T05:30:59"),
        ("25-13-28 05:30:59 x", None),
    ],
)
def test_a_date_with_dashes_may_have_a_short_year_or_end_with_its_year(text: str, time: str | None) -> None:
    block = lines.read(lines.Block(text.encode() + b"\n", 0, "utf-8"))
    found = times.read_times(block, np.arange(1), _STYLES["iso"], "UTC")[0]
    assert found == (stamps.NO_TIME if time is None else np.datetime64(time, "ns").astype(np.int64))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("[20250906 14:44:23][node-0][rank-0/64][INFO ] step 4", "2025-09-06T14:44:23"),
        ("20250906T14:44:23,250 step 4", "2025-09-06T14:44:23.25"),
        ("[20251306 14:44:23] step 4", None),
        ("[12345 14:44:23] step 4", None),
    ],
)
def test_a_date_may_be_one_number(text: str, time: str | None) -> None:
    block = lines.read(lines.Block(text.encode() + b"\n", 0, "utf-8"))
    found = times.read_times(block, np.arange(1), _STYLES["compact"], "UTC")[0]
    assert found == (stamps.NO_TIME if time is None else np.datetime64(time, "ns").astype(np.int64))


def test_a_date_with_dots_begins_with_its_day_and_a_release_is_none() -> None:
    texts = ["21.11.2026 03:57:25 | 149 | 2.6", "[03.04.2026 03:57:25,250] step", "12.13.2026 03:57:25 x"]
    block = lines.read(lines.Block("\n".join([*texts, ""]).encode(), 0, "utf-8"))
    found = times.read_times(block, np.arange(3), _STYLES["dotted"], "UTC")
    stated = [np.datetime64(time, "ns").astype(np.int64) for time in ("2026-11-21T03:57:25", "2026-04-03T03:57:25.25")]
    assert found.tolist() == [*stated, stamps.NO_TIME]

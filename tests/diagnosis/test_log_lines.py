"""What shows that lines are those of a log, before they are read."""

from __future__ import annotations

import re

import pytest

from diagnosis.values import log_lines

REPORT = ["Reported at 08:00:00", "GPU 0: NVIDIA H100", "Driver Version: 560.35.05", "Fan: 30 %"]


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-01 08:00:01 step 7",
        "[2026/03/01 08:00 step 7",
        "Mar  1 08:00:01 gpu-19 kernel: NVRM",
        "[ 1234.567890] NVRM: Xid",
        "E0301 08:00:01.5 main.cc:7] lost",
        "[rank3]: step 7",
    ],
)
def test_lines_of_logs_begin_with_a_time_or_a_rank(line: str) -> None:
    assert re.match(log_lines.LINE_BEGIN, line)


@pytest.mark.parametrize("line", ["GPU 0: NVIDIA H100", "    2026-03-01 08:00:01", "Rate: 400"])
def test_other_lines_do_not(line: str) -> None:
    assert not re.match(log_lines.LINE_BEGIN, line)


def test_a_report_with_few_times_is_no_log() -> None:
    assert not log_lines.are_timed(REPORT, 0.2)
    assert not log_lines.are_timed([*REPORT[:1] * 3, *REPORT[1:]], 0.2)
    assert log_lines.are_timed([*REPORT[:1] * 4, *REPORT[1:]], 0.2)


def test_blank_lines_do_not_count() -> None:
    assert log_lines.are_timed([*REPORT[:1] * 4, *[""] * 90], 0.5)

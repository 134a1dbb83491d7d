"""How much of a line a viewer shows as its header."""

import pytest

from diagnosis.kinds.logs.read.headers import lengths


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("2026-11-21 03:00:01,250 INFO ", "iteration 12, loss 2.5"),
        ("[2026-11-21 03:00:01] [rank12]: ERROR ", "no 2026-11-21 03:00:01 here"),
        ("Nov 21 03:00:01 gpu-0412 kernel: [ 1234.567890] ", "NVRM: Xid 79"),
        ("E1121 02:08:20.299000 28466 ", "torch/distributed/api.py:1002] failed"),
        ("", "Traceback (most recent call last):"),
        ("", ""),
    ],
)
def test_time_writer_and_level_are_the_header_and_what_follows_is_not(header, message):
    assert lengths([header + message]) == [len(header)]


def test_each_line_has_its_own_length():
    assert lengths(["2026-11-21 03:00:01 INFO a", "b"]) == [25, 0]

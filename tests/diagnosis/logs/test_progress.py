"""Counters of progress in lines, and the text of lines that are read again from a file."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.logs import progress


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("iter: 121,000  loss: 2.11", 121_000),
        ("iter 12,345,678 | loss 2.11", 12_345_678),
        ("step 12, 345 samples", 12),
        ("iteration 7,12", 7),
    ],
)
def test_a_counter_may_have_commas_between_thousands(line: str, number: int) -> None:
    found = progress.counter(line)
    assert found is not None and found[1] == number


def test_of_a_long_overwritten_line_its_end_is_read() -> None:
    bar = b"\r".join(b"%3d%%|##| %d/100 [00:%02d<01:00, 1.00it/s]" % (n, n, n % 60) for n in range(101))
    data = b"first line\n" + bar + b" done\n"
    rows = pl.DataFrame({"file": [0, 0], "offset": [0, 11], "length": [11, len(data) - 11]})
    texts = progress.read_lines(rows, ["a.log"], lambda _file, offset, size: data[offset : offset + size], limit=200)
    assert texts == ["first line", "100%|##| 100/100 [00:40<01:00, 1.00it/s] done"]

"""The text of lines that are read again from a file."""

from __future__ import annotations

import polars as pl

from diagnosis.logs import raw_lines


def test_of_a_long_overwritten_line_its_end_is_read() -> None:
    bar = b"\r".join(b"%3d%%|##| %d/100 [00:%02d<01:00, 1.00it/s]" % (n, n, n % 60) for n in range(101))
    data = b"first line\n" + bar + b" done\n"
    rows = pl.DataFrame({"file": [0, 0], "offset": [0, 11], "length": [11, len(data) - 11]})
    texts = raw_lines.read_lines(rows, ["a.log"], lambda _file, offset, size: data[offset : offset + size], limit=200)
    assert texts == ["first line", "100%|##| 100/100 [00:40<01:00, 1.00it/s] done"]

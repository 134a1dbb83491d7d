"""The text of lines that are read again from a file."""

from __future__ import annotations

import json

import polars as pl

from diagnosis.kinds.logs.read import raw_lines


def test_of_a_long_overwritten_line_its_end_is_read() -> None:
    bar = b"\r".join(b"%3d%%|##| %d/100 [00:%02d<01:00, 1.00it/s]" % (n, n, n % 60) for n in range(101))
    data = b"first line\n" + bar + b" done\n"
    rows = pl.DataFrame({"file": [0, 0], "offset": [0, 11], "length": [11, len(data) - 11]})
    texts = raw_lines.read_lines(rows, ["a.log"], lambda _file, offset, size: data[offset : offset + size], limit=200)
    assert texts == ["first line", "100%|##| 100/100 [00:40<01:00, 1.00it/s] done"]


def test_a_coloured_line_and_one_of_utf_16_are_cleaned_as_at_first() -> None:
    data = b"\x1b[31mstep: 10\x1b[0m loss 2.1\n" + "step 11 | loss 2.0\r\n".encode("utf-16-le")
    size = len(b"\x1b[31mstep: 10\x1b[0m loss 2.1")
    rows = pl.DataFrame({"file": [0, 0], "offset": [0, size + 1], "length": [size, len(data) - size - 3]})
    texts = raw_lines.read_lines(rows, ["a.log"], lambda _file, offset, length: data[offset : offset + length])
    assert texts == ["step: 10 loss 2.1", "step 11 | loss 2.0"]


def test_each_row_of_a_document_has_its_text_wherever_a_newline_is() -> None:
    history = [{"loss": 2.5, "step": n} for n in range(1, 40)]
    data = json.dumps({"log_history": history}, indent=1).encode()
    places = range(len(history))
    rows = pl.DataFrame({"file": [0] * 39, "offset": places, "length": [len(data) - n for n in places]})
    texts = raw_lines.read_lines(rows, ["a.json"], lambda _file, offset, size: data[offset : offset + size])
    assert texts == [f"step {n} - loss: 2.5" for n in range(1, 40)]

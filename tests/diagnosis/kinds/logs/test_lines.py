"""Blocks of lines: cut after newlines, and filled however few bytes a stream gives at a time."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from diagnosis import ParseHints, parse
from diagnosis.kinds.logs import log_parsing
from diagnosis.kinds.logs.read import lines


class Slow(io.BytesIO):
    """A stream that gives at most seven bytes at a time, as one behind a decompressor may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 7, 7) if size != -1 else 7)


def test_a_block_is_filled_from_a_stream_that_gives_few_bytes_at_a_time() -> None:
    data = b"one line\nand another\nand the last\n"
    assert [block.raw for block in lines.blocks(Slow(data))] == [data]


def test_blocks_are_cut_after_newlines_and_tell_where_they_begin() -> None:
    found = list(lines.blocks(Slow(b"aaaa\nbbbb\ncccc\n"), block_bytes=8))
    assert b"".join(block.raw for block in found) == b"aaaa\nbbbb\ncccc\n"
    assert all(block.raw.endswith(b"\n") for block in found)
    ends = [block.offset + len(block.raw) for block in found]
    assert [block.offset for block in found] == [0, *ends[:-1]]


def test_of_an_overwritten_line_the_text_and_the_last_state_are_kept_and_no_progress_bar() -> None:
    states = [
        "step  1%|   | 1/100 [00:01<01:39]",
        "Fetching 3/8 [00:02<00:05, 1.1s/it]",
        "CUDA out of memory, retry with batch 8",
        "lr 0.1 loss 2.4",
        "lr 0.1 loss 2.3",
        "lr 0.2 loss 1.9",
    ]
    assert lines.overwritten_text("\r".join(states)) == "CUDA out of memory, retry with batch 8 lr 0.2 loss 1.9"


def test_of_an_overwritten_line_that_ends_with_blanks_the_last_text_is_kept() -> None:
    assert lines.overwritten_text("\r  5%|# | 5/100 [00:05<01:35]\r 10%|# | 10/100 [00:10<01:30]\r   ") == (
        " 10%|# | 10/100 [00:10<01:30]"
    )


def test_of_an_overwritten_line_without_any_text_nothing_is_kept() -> None:
    assert lines.overwritten_text("\r \r") == ""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_block_of_many_empty_lines_is_cut_into_several(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setattr(lines, "_BLOCK_LINES", 1 << 10)
    data = ("one line\n" + "\n" * 5_000 + "the last").encode(encoding)
    found = list(lines.blocks(io.BytesIO(data), encoding=encoding))
    assert b"".join(block.raw for block in found) == data
    assert max(block.raw.count(b"\n") for block in found) <= 1 << 10


def test_a_block_of_records_with_many_lines_is_cut_into_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK_LINES", 1 << 10)
    data = b"".join(json.dumps({"level": "info", "msg": "a\n" * 100}).encode() + b"\n" for _ in range(40))
    found = list(lines.blocks(io.BytesIO(data), is_wrapped=True))
    assert b"".join(block.raw for block in found) == data
    assert max(lines.read(block).start.size for block in found) <= 1 << 10


def test_of_a_log_of_empty_lines_only_so_many_are_read_as_its_bytes_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_BLOCK_LINES", 1 << 10)
    monkeypatch.setitem(vars(log_parsing.LIMITS), "lines", 2_000)
    parsed = parse(io.BytesIO(b"2026-03-01 08:00:00 begun\n" + b"\n" * 50_000), "a.log", ParseHints(), tmp_path)
    assert 2_000 < parsed.lines < 10_000
    assert parsed.bytes == 50_026
    assert f"only the first {parsed.lines:,} lines were read" in parsed.notes[0]


def test_a_long_log_of_usual_lines_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK_LINES", 1 << 10)
    monkeypatch.setitem(vars(log_parsing.LIMITS), "lines", 100)
    data = b"2026-03-01 08:00:00 step done\n\n" * 3_000
    assert parse(io.BytesIO(data), "a.log", ParseHints(), tmp_path).lines == 6_000

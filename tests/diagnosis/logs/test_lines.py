"""Blocks of lines: cut after newlines, and filled however few bytes a stream gives at a time."""

from __future__ import annotations

import io

from diagnosis.logs import lines


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

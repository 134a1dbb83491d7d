"""Blocks of lines: cut after newlines, and filled however few bytes a stream gives at a time."""

from __future__ import annotations

import io

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

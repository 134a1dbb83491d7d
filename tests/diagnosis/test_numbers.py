"""Digits that are no number, or more than one can be, stop no reader."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import pytest

import diagnosis
from diagnosis.evidence import inventory
from diagnosis.model import JobHints, Kind, Parsed, ParseHints
from diagnosis.values import numbers
from diagnosis.values.numbers import natural_key

MANY = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 15, 10**15 - 1), ("9" * 16, None), (MANY, None)]
    + [(text, None) for text in ("", "²", "٣", "-1", "+1", "1.0", " 1", "1\n", "1_000")],
)
def test_a_whole_number_is_up_to_fifteen_ascii_digits(text: str, number: int | None) -> None:
    assert numbers.whole(text) == number


@pytest.mark.parametrize(
    "line",
    [f'{{"msg": "out of memory", "level": "{value}"}}' for value in ("²", MANY)]
    + [f'{{host="a-1", rank="{value}"}} out of memory' for value in ("²", MANY)],
)
def test_a_collectors_odd_digits_leave_the_lines_readable(line: str, tmp_path: Path) -> None:
    parsed = diagnosis.parse(io.BytesIO(f"{line}\n".encode() * 9), "web-1.log", ParseHints(), tmp_path)

    assert (parsed.kind, parsed.lines, parsed.skipped) == (Kind.LOG, 9, None)


@pytest.mark.parametrize("path", ["attempt_0/²/out.log", f"attempt_0/{MANY}/out.log", f"attempt_{MANY}/0/out.log"])
def test_odd_digits_in_a_path_name_no_rank(path: str, tmp_path: Path) -> None:
    parsed = diagnosis.parse(io.BytesIO(b"hello\n"), path, ParseHints(), tmp_path)

    assert parsed.sources is not None
    assert parsed.sources[0].local_rank in (None, 0)


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e300", "-8", "0"])
def test_a_description_that_counts_nothing_is_read_for_the_rest(value: str) -> None:
    text = f'{{"world_size": {value}, "gpus_per_node": {value}, "ranks": {{"²": "n-0", "{MANY}": "n-1", "1": "n-2"}}}}'
    parsed = Parsed("job.json", Kind.INVENTORY, facts={"json": json.loads(text)})

    known = inventory.read([parsed], JobHints())

    assert (known.world_size, known.gpus_per_node, dict(known.node_of_rank)) == (None, None, {1: "n-2"})


def test_paths_are_ordered_by_their_numbers_whatever_the_digits() -> None:
    paths = ["n-10", f"n-{MANY}", "n-9", "n-²"]

    assert sorted(paths, key=natural_key) == ["n-9", "n-10", *sorted(paths[1::2])]


def test_a_packet_of_a_time_beyond_all_clocks_is_left_out_and_counted(tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    seconds_only = struct.pack("<HHB3xHH", 9, 1, 0, 0, 0)
    packet = bytes(12) + b"\x08\x00" + b"\x45" + bytes(11) + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + bytes(26)
    capture = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    capture += block(1, struct.pack("<HHI", 1, 0, 0) + seconds_only)
    for high, low in ((0xFFFFFFFF, 0xFFFFFFFF), (0, 1_700_000_000)):
        capture += block(6, struct.pack("<IIIII", 0, high, low, len(packet), len(packet)) + packet)

    parsed = diagnosis.parse(io.BytesIO(capture), "x.pcapng", ParseHints(), tmp_path)

    assert parsed.skipped is None
    assert parsed.facts["flow"]["records"] == 1
    assert any("1 of 2 rows had no usable time" in note for note in parsed.notes)

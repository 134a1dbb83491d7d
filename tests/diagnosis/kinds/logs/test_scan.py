"""Compiled loops return the same as the patterns and formats that they replace."""

import datetime

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.text import mask, scan, stamps

_TEXT = st.text(alphabet="0123456789abcdefABFxXyz_ -.:/[]é", max_size=40)
_LINE = _TEXT | st.tuples(_TEXT, st.uuids().map(str), _TEXT).map("".join)


def scanned(lines: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    data = np.frombuffer("".join(line + "\n" for line in lines).encode(), np.uint8)
    end, key = np.empty(len(lines), np.int64), np.empty(len(lines), np.uint64)
    assert scan.keys(data, end, key) == len(lines)
    start = np.concatenate([[0], end[:-1] + 1]).astype(np.int64)
    return data, start, end, key


def normal(lines: list[str]) -> list[str]:
    return pl.DataFrame({"t": lines}, schema={"t": pl.String}).select(mask.normalise(pl.col("t")))["t"].to_list()


@settings(max_examples=300, deadline=None)
@given(st.lists(_LINE, min_size=2, max_size=6))
def test_lines_with_one_key_have_one_normal_form(lines: list[str]) -> None:
    forms: dict[int, str] = {}
    for key, form in zip(scanned(lines)[3].tolist(), normal(lines), strict=True):
        assert forms.setdefault(key, form) == form


def test_lines_that_differ_in_numbers_share_a_key() -> None:
    lines = [
        "rank7: 0x7f3ab took 12.5 ms at 10.0.0.1 (3fa2b1)",
        "rank12: 0xdead1 took 7.25 ms at 192.168.1.77 (9)",
        "rank12: 0xdead1 took 7.25 ms at 192.168.1.77 (zz)",
    ]
    first, second, third = scanned(lines)[3].tolist()
    assert first == second != third


def test_a_uuid_is_one_number_whatever_its_letters_unless_it_is_part_of_something_longer() -> None:
    lines = [
        "id 3fa2b1cd-aaaa-bbbb-cccc-deadbeef0123.",
        "id 00000000-1111-4222-8333-444444444444.",
        "id 5.",
        "id 3fa2b1cd-aaaa-bbbb-cccc-deadbeef0123-a.",
        "id 3fa2b1cd-aaaa-bbbb-cccc-deadbeef012z.",
    ]
    one, other, number, longer, letters = scanned(lines)[3].tolist()
    assert one == other == number
    assert len({number, longer, letters}) == 3


def test_the_last_line_needs_no_newline() -> None:
    data = np.frombuffer(b"one\ntwo", np.uint8)
    end, key = np.empty(2, np.int64), np.empty(2, np.uint64)
    assert scan.keys(data, end, key) == 2
    assert end.tolist() == [3, 7]
    assert key[0] != key[1]


@settings(max_examples=200, deadline=None)
@given(
    st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2199, 1, 1)),
    st.sampled_from([" ", "T"]),
    st.sampled_from([("Z", 0), ("+08:00", 480), ("-0530", -330), ("+02", 120)]),
    st.sampled_from([",", "."]),
)
def test_iso_stamps_are_read_to_the_microsecond(
    at: datetime.datetime, gap: str, zone: tuple[str, int], point: str
) -> None:
    text = f"[x] {at:%Y-%m-%d}{gap}{at:%H:%M:%S}{point}{at.microsecond:06d}{zone[0]} started 2001-02-03 04:05:06"
    data, start, end, _ = scanned([text])
    epoch = datetime.datetime(1970, 1, 1)
    wanted = (at - epoch) // datetime.timedelta(microseconds=1) * 1000
    for is_zoned, shift in ((False, 0), (True, zone[1])):
        time = np.empty(1, np.int64)
        stamps.iso_times(data, start, end, np.arange(1), 300, is_zoned, time)
        assert time[0] == wanted - shift * 60_000_000_000


def test_dates_that_do_not_exist_are_no_times() -> None:
    lines = ["2026-02-30 10:00:00 x", "2026-13-01 10:00:00 x", "2026-01-01 24:00:00 x", "2026-01-01 10:00", "é" * 30]
    data, start, end, _ = scanned(lines)
    time = np.empty(len(lines), np.int64)
    stamps.iso_times(data, start, end, np.arange(len(lines)), 300, False, time)
    assert (time == stamps.NO_TIME).all()


def test_tags_and_labels_are_read_as_numbers() -> None:
    data, start, end, _ = scanned(
        ["[rank12]: x", "a [Rank 7] b", "[rank]: x", "[ranks3]", "  404: [rank1234567]: y", ""]
    )
    value = np.empty(6, np.int64)
    rows = np.arange(6)
    scan.tagged(data, start, end, rows, np.frombuffer(b"[rank", np.uint8), 100, value)
    assert value.tolist() == [12, 7, -1, -1, 1234567, -1]
    scan.leading(data, start, end, rows, value)
    assert value.tolist() == [-1, -1, -1, -1, 404, -1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="aé漢😀 ", max_size=12), min_size=1, max_size=5), st.integers(0, 12))
def test_gathered_text_is_cut_between_characters(lines: list[str], limit: int) -> None:
    data, start, end, _ = scanned(lines)
    out = np.empty(len(data) + len(lines), np.uint8)
    used = scan.gather(data, start, end, np.arange(len(lines)), limit, out)
    parts = out[:used].tobytes().decode().split("\n")[:-1]
    assert len(parts) == len(lines)
    for part, line in zip(parts, lines, strict=True):
        assert line.startswith(part)
        assert len(part.encode()) <= limit

"""Times on the job's common clock: only what differs is moved, and nothing is copied if no clock is wrong."""

from __future__ import annotations

import polars as pl

from diagnosis.kinds.logs.rows.clocks import HOUR, Clocks

_ROWS = pl.DataFrame({"file": [0, 1], "masked": [7, 8], "source": [0, 1], "first_at": [HOUR, None]}).cast(
    {"file": pl.UInt32, "masked": pl.UInt64, "source": pl.UInt32, "first_at": pl.Int64}
)
_MESSAGES = pl.DataFrame(schema={"file": pl.UInt32, "masked": pl.UInt64, "local": pl.Int64})


def _files(*shifts: int) -> pl.DataFrame:
    return pl.DataFrame({"file": range(len(shifts)), "shift": shifts}, schema={"file": pl.UInt32, "shift": pl.Int64})


def test_rows_of_right_clocks_are_returned_as_they_are() -> None:
    assert Clocks(_files(0, 0), _MESSAGES).correct(_ROWS, "first_at") is _ROWS


def test_a_file_in_another_zone_is_moved() -> None:
    moved = Clocks(_files(HOUR, 0), _MESSAGES).correct(_ROWS, "first_at")
    assert moved["first_at"].to_list() == [0, None]
    assert moved.columns == _ROWS.columns


def test_a_message_in_another_zone_is_moved() -> None:
    message = pl.DataFrame({"file": [0], "masked": [7], "local": [-HOUR]}, schema=_MESSAGES.schema)
    assert Clocks(_files(0, 0), message).correct(_ROWS, "first_at")["first_at"].to_list() == [2 * HOUR, None]


def test_a_machine_with_a_wrong_clock_is_moved() -> None:
    skew = pl.DataFrame({"source": [0], "skew": [5], "is_alone": [True]}).cast({"source": pl.UInt32})
    moved = Clocks(_files(0, 0), _MESSAGES, (), skew).correct(_ROWS, "first_at")
    assert moved["first_at"].to_list() == [HOUR - 5, None]

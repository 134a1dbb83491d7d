"""Who was silent without a reason, from the records of each step."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.steps.waiting import _hanging_s, _ready_s, _thinking_s, _transfers_until

COMPUTE_S = 1.0


def said(first: list[int], late_s: dict[tuple[int, int], float] | None = None) -> pl.DataFrame:
    """Two members compute and then send to each other, member ``first[k]`` 10 ms earlier than the other in step k;
    ``late_s``: by (step, member).
    """
    rows = []
    for step, leader in enumerate(first):
        for who in (0, 1):
            start = 2.0 * step + COMPUTE_S + (0.0 if who == leader else 0.01) + (late_s or {}).get((step, who), 0.0)
            rows.append((step, 2.0 * step, start, start + 0.1, who, 1 - who))
    columns = ["step", "begun", "start", "until", "src", "dst"]
    table = pl.DataFrame(rows, schema=columns, orient="row").sort("start")
    return table.with_columns(data=pl.lit(value=True), low=pl.lit(1), end=pl.col("until"))


def seconds(table: pl.DataFrame) -> dict[tuple[int, int], float]:
    ready = _ready_s(table, np.arange(table["step"].max() + 1))  # type: ignore[operator]
    rows = _thinking_s(table, ready).select("step", "src", "seconds").iter_rows()
    return {(step, src): s for step, src, s in rows}


def test_what_all_compute_before_the_first_of_them_sends_is_nobodys_delay() -> None:
    found = seconds(said([0, 1, 0, 0, 1, 0]))
    assert max(found.values()) == pytest.approx(0.0, abs=1e-9)


def test_a_member_that_sends_later_than_usual_has_the_time_since_then() -> None:
    found = seconds(said([0, 1, 0, 1, 0, 1], late_s={(3, 0): 0.4, (3, 1): 0.5}))
    assert found[3, 0] == pytest.approx(0.41)
    assert found[3, 1] == pytest.approx(0.0, abs=1e-9)


def hanging(sent: list[tuple[float, float]], answers: list[tuple[float, float]]) -> float:
    """Seconds that transfers of member 0 to member 1 hung; answers come quickly in the usual steps before."""
    rows = []
    for step in range(8):
        rows += [
            (step, 10.0 * step, 10.0 * step + 0.1, 0, 1, True),
            (step, 10.0 * step + 0.01, 10.0 * step + 0.1, 1, 0, False),
        ]
    rows += [(8, 80.0 + a, 80.0 + b, 0, 1, True) for a, b in sent]
    rows += [(8, 80.0 + a, 80.0 + b, 1, 0, False) for a, b in answers]
    table = pl.DataFrame(rows, schema=["step", "start", "end", "src", "dst", "data"], orient="row").sort("start")
    table = table.with_columns(low=pl.lit(1), empty=~pl.col("data"), size=pl.lit(1e6), begun=10.0 * pl.col("step"))
    found = _hanging_s(_transfers_until(table, np.arange(8))).filter(pl.col("step") == 8)
    return float(found.filter(pl.col("src") == 0)["seconds"].sum())


def test_what_is_answered_long_after_all_was_sent_hung_in_the_network() -> None:
    assert hanging([(0.0, 0.1)], [(0.01, 0.7)]) == pytest.approx(0.6)
    assert hanging([(0.0, 0.1)], [(0.5, 0.6)]) == pytest.approx(0.4)


def test_a_transfer_that_its_sender_continues_does_not_hang_however_long_it_lasts() -> None:
    assert hanging([(0.0, 0.9)], [(0.01, 0.9)]) == pytest.approx(0.0, abs=1e-9)

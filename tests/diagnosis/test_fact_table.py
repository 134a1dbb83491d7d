"""The table of facts: which value is usual, and which place differs."""

from __future__ import annotations

import pytest

from diagnosis import fact_table
from diagnosis.fact_table import FactRow, compare_places
from diagnosis.kinds import kind_table, states


def rows_of(values: dict[str, str], name: str = "Rate", part: str = "mlx5_2") -> list[FactRow]:
    return [FactRow(place, part, name, value, f"{place}/ibstat.txt", 7) for place, value in values.items()]


def odd_places(rows: list[FactRow]) -> list[str]:
    return compare_places(rows).filter("is_odd")["place"].to_list()


def test_a_place_differs_from_what_most_places_state() -> None:
    assert odd_places(rows_of({"gpu-1": "400", "gpu-2": "400", "gpu-3": "100"})) == ["gpu-3"]


def test_of_two_places_that_differ_none_is_odd() -> None:
    assert odd_places(rows_of({"gpu-1": "400", "gpu-2": "100"})) == []


def test_a_value_that_half_of_the_places_state_is_not_usual() -> None:
    assert odd_places(rows_of({"gpu-1": "400", "gpu-2": "400", "gpu-3": "100", "gpu-4": "100"})) == []


def test_serial_numbers_differ_everywhere_and_are_not_odd() -> None:
    assert odd_places(rows_of({f"gpu-{n}": f"SN{n}" for n in range(9)}, name="Serial")) == []


def test_each_part_is_compared_with_the_same_part_of_other_places() -> None:
    storage = rows_of({f"gpu-{n}": "25" for n in range(3)}, part="mlx5_8")
    compute = rows_of({f"gpu-{n}": "400" for n in range(3)}, part="mlx5_0")
    assert odd_places(storage + compute) == []


def test_two_equal_reports_of_one_place_are_one_fact() -> None:
    assert compare_places(rows_of({"gpu-1": "400"}) * 2).height == 1


def test_a_job_without_reports_has_no_facts() -> None:
    assert fact_table.summarise([], None) is None


def test_facts_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_table, "MAX_JOB_FACTS", 2)
    parsed = states.parse(
        b"CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28\n", "ibstat-gpu-1.txt"
    )
    summary = fact_table.summarise(list(kind_table.facts([parsed])), None)
    assert summary is not None
    assert (summary.facts, summary.left_out > 0) == (2, True)

"""The table of facts: which value is usual, and which place differs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from diagnosis.evidence import Fact, Measure, Place
from diagnosis.facts import fact_table, setups
from diagnosis.facts.fact_table import FactRow, compare_places
from diagnosis.kinds import kind_table, states


def rows_of(values: dict[str, str], name: str = "Rate", part: str = "mlx5_2") -> list[FactRow]:
    return [FactRow(place, part, name, value, f"{place}/ibstat.txt", 7) for place, value in values.items()]


def odd_places(rows: list[FactRow]) -> list[str]:
    return compare_places(rows).filter("is_odd")["place"].to_list()


def test_a_place_differs_from_what_most_places_state() -> None:
    assert odd_places(rows_of({"gpu-1": "400", "gpu-2": "400", "gpu-3": "100"})) == ["gpu-3"]


def test_what_nodes_measure_is_shown_as_medians_and_marked_where_it_is_far_from_the_others(tmp_path: Path) -> None:
    measures = [
        Measure(Place("node", f"gpu-{rank // 2}"), "compute_ms", "work", "s", (0.1, 0.17 + 0.2 * (rank == 5), 0.9))
        for rank in range(8)
    ]
    measures = [replace(row, part=f"rank {rank}", path="a.log", line=7) for rank, row in enumerate(measures)]
    summary = fact_table.summarise([], tmp_path, measures)
    table = pl.read_parquet(tmp_path / fact_table.FILE_NAME)
    assert summary is not None
    assert (summary.facts, summary.places, summary.odd) == (4, 4, 1)
    assert table.filter("is_odd").select("place", "value", "usual", "path", "line").rows() == [
        ("gpu-2", "270 ms", "170 ms", "a.log", 7)
    ]


def test_odd_values_are_told_words_before_numbers() -> None:
    stated = [
        ("a.txt", Fact.of(Place("node", f"gpu-{n}"), (name,), odd if n == 3 else usual))
        for n in range(4)
        for name, usual, odd in [("Count", "7 C", "9 C"), ("Policy", "on", "off")]
    ]
    summary = fact_table.summarise(stated, None)
    assert summary is not None
    assert summary.examples == ("gpu-3 Policy: off; most: on", "gpu-3 Count: 9 C; most: 7 C")


def test_a_number_far_from_numbers_that_are_near_each_other_is_odd() -> None:
    rates = {"gpu-1": "94.1 Gbit/s", "gpu-2": "93.8 Gbit/s", "gpu-3": "9.4 Gbit/s", "gpu-4": "94.3 Gbit/s"}
    assert odd_places(rows_of(rates)) == ["gpu-3"]
    assert odd_places(rows_of(rates | {"gpu-3": "91.0 Gbit/s"})) == []
    assert odd_places(rows_of(rates | {"gpu-3": "9.4 Mbit/s"})) == []  # of another unit
    loads = {f"gpu-{n}": str(load) for n, load in enumerate([50, 52, 55, 51, 9, 90])}
    assert odd_places(rows_of(loads)) == []  # two of six: it varies from place to place
    assert odd_places(rows_of({f"gpu-{n}": str(4**n) for n in range(6)})) == []  # counters grow on each machine


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


#: Values of a node's driver and Python, by the names that reports and logs give them.
STATED = st.lists(
    st.tuples(
        st.sampled_from(["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"]),
        st.sampled_from(["driver version", "Driver Version", "Python version"]),
        st.sampled_from(["535.1", "550.2", "560.3"]),
    ),
    max_size=14,
)


#: A bare majority, under two names of one property; and most nodes with the same two values.
BARE = [(f"gpu-{n}", "driver version", "535.1") for n in (1, 2, 3)] + [
    (f"gpu-{n}", "Driver Version", "550.2") for n in (4, 5)
]
BOTH = BARE + [(f"gpu-{n}", "driver version", "560.3") for n in (1, 2, 3)]


@given(STATED)
@example(BARE)
@example(BOTH)
@settings(max_examples=30)
def test_the_page_marks_the_nodes_that_the_verdict_names_and_no_others(stated: list[tuple[str, str, str]]) -> None:
    facts = [("report.txt", Fact.of(Place("node", node), (name,), value)) for node, name, value in stated]
    verdict = {(result.target, result.words.partition(" version")[0]) for result in setups.compare_nodes(facts)}
    marked = compare_places([FactRow(f.place.name, f.part, f.name, f.value, path, 1) for path, f in facts])
    rows = marked.filter("is_odd").select("place", "name").unique().iter_rows()
    assert {(place, name.partition(" ")[0].lower().replace("python", "Python")) for place, name in rows} == {
        (place, name) for place, name in verdict if place
    }


@pytest.mark.parametrize(
    ("name", "now", "before", "is_change"),
    [
        ("rate", "400", "400", False),
        ("rate", "399", "400", True),
        ("step (median of its steps)", "224 ms", "202 ms", False),
        ("step (median of its steps)", "300 ms", "202 ms", True),
        ("step (median of its steps)", "1.1 s", "999 ms", True),
    ],
)
def test_what_is_measured_changed_only_where_it_is_far_from_before(name, now, before, is_change):
    assert fact_table.has_changed(name, now, before) is is_change

"""Values over time of several machines are compared, whoever exported them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from diagnosis import ParseHints, parse, pipeline
from diagnosis.kinds.states.formats import format_of
from diagnosis.kinds.states.known_shapes import series_of_places
from diagnosis.report import to_json

NODES = [f"n-{number:02d}" for number in range(1, 7)]
STEPS = range(24)


def value(node: str, step: int, low: float) -> float:
    usual = 96.0 + (step * 7 + NODES.index(node)) % 3
    return low if node == "n-04" and step > 8 else usual


def table(low: float, column: str = "{}") -> str:
    header = ",".join(f'"{column.format(node)}"' for node in NODES)
    rows = []
    for step in STEPS:
        cells = ",".join(str(value(node, step, low)) for node in NODES)
        rows.append(f"2026-03-01 08:{step:02d}:00,{cells}")
    return "\n".join([f'"Time",{header}', *rows, ""])


def query(low: float) -> str:
    result = [
        {
            "metric": {"__name__": "DCGM_FI_DEV_SM_CLOCK", "Hostname": node, "gpu": "3"},
            "values": [[1_772_352_000 + 15 * step, str(value(node, step, low))] for step in STEPS],
        }
        for node in NODES
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def told(text: str, name: str, tmp_path: Path) -> dict[str, Any]:
    data = text.encode()
    parsed = parse(io.BytesIO(data), name, ParseHints(), tmp_path / "work")
    report = pipeline.diagnose([parsed], read=lambda path, at, length: data[at : at + length])
    return to_json(report)


@pytest.mark.parametrize("form", ["table", "labels", "query"])
def test_a_machine_that_does_less_than_the_others_is_named(form: str, tmp_path: Path) -> None:
    texts = {
        "table": lambda low: (table(low), "GPU Utilization-data-2026-03-01 09_00_00.csv"),
        "labels": lambda low: (table(low, 'gpu_util{{node=""{}"", gpu=""0""}}'), "panel.csv"),
        "query": lambda low: (query(low), "query_range.json"),
    }
    report = told(*texts[form](31.0), tmp_path)
    assert report["conclusion"]["id"] == "performance.straggler"
    assert "n-04" in report["headline"]
    assert told(*texts[form](96.0), tmp_path)["conclusion"]["condition"] == "unknown"


def test_a_quantity_of_which_less_is_no_fault_is_shown_alone(tmp_path: Path) -> None:
    report = told(table(31.0), "Temperature-data-2026-03-01 09_00_00.csv", tmp_path)
    assert report["conclusion"]["condition"] == "unknown"
    assert report["facts"]["facts"] > 0


def test_columns_of_quantities_are_no_places() -> None:
    text = "time,loss,grad norm,lr\n1,2.5,1.1,0.1\n2,2.4,1.2,0.1\n"
    assert format_of(text) is None


def test_a_table_of_commas_and_a_damaged_one_cost_little() -> None:
    assert list(series_of_places.entries("Time,n1,n2,n3\n" + "," * 500_000, "a.csv")) == []
    damaged = 'Time,n1,n2,n3\n1,2,3,4\n2,"' + "a" * 200_000
    assert len(list(series_of_places.entries(damaged, "a.csv"))) == 3

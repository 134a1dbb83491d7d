"""Logs whose records have several lines: rules see each line, people see the lines of the file."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from diagnosis.kinds.logs.columns import physical
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.model import Parsed, ReadRange
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.synthetic import read_files

ERROR = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
TRACE = f'Traceback (most recent call last):\n  File "train.py", line 8, in main\n    step()\n{ERROR}'
RECORDS = [
    *({"message": f"step {n} loss 2.5", "time": 1772352000 + n, "node": "gpu-19"} for n in range(3)),
    {"message": "failed", "exc_info": TRACE, "time": 1772352003, "node": "gpu-19", "level": "error"},
    {"message": "bye", "time": 1772352004, "node": "gpu-19"},
]
DATA = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()


def _read(work: Path, data: bytes = DATA) -> tuple[Parsed, ReadRange]:
    parsed, read = read_files({"log.jsonl": data}, work)
    return parsed[0], read


def test_rows_of_one_physical_line_end_together_and_begin_one_byte_apart(tmp_path: Path) -> None:
    log, _ = _read(tmp_path)
    assert log.columns is not None
    rows = pl.read_parquet(log.columns)
    begin = DATA.index(b'{"message": "failed"')
    assert rows["line"].to_list() == list(range(1, 10))
    assert rows["offset"].to_list()[3:8] == [begin, begin + 1, begin + 2, begin + 3, begin + 4]
    assert (rows["offset"] + rows["length"]).n_unique() == 5


@pytest.mark.parametrize("rows_at_a_time", [1, 2, 5, 100])
def test_the_table_of_physical_lines_has_the_lines_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_a_time: int
) -> None:
    monkeypatch.setattr(physical, "_ROWS_AT_A_TIME", rows_at_a_time)
    log, _ = _read(tmp_path)
    printed = physical.of(log)
    assert printed.columns is not None
    rows = pl.read_parquet(printed.columns)
    texts = [DATA[at : at + size] for at, size in rows.select("offset", "length").iter_rows()]
    assert texts == DATA.splitlines()
    assert rows["line"].to_list() == [1, 2, 3, 4, 5]
    assert rows["record"].to_list() == [1, 2, 3, 4, 5]
    assert rows["level"].to_list()[3] == rows["level"].max()
    assert physical.lines(log) == printed.lines == 5


def test_a_log_whose_records_have_one_line_each_has_no_such_table(tmp_path: Path) -> None:
    log, _ = _read(tmp_path, DATA.splitlines(keepends=True)[0] * 3)
    assert physical.of(log) is log
    assert not (tmp_path / "0" / physical.NAME).exists()


def test_a_row_is_read_again_as_its_own_line(tmp_path: Path) -> None:
    log, read = _read(tmp_path)
    assert log.columns is not None
    rows = pl.read_parquet(log.columns).with_columns(file=pl.lit(0))
    texts = raw_lines.read_lines(rows, [log.path], read)
    head = "2026-03-01T08:00:03.000000Z [pod/gpu-19]"
    assert texts[3:8] == [
        f"{head} [ERROR] failed",
        f"{head} Traceback (most recent call last):",
        f'{head}   File "train.py", line 8, in main',
        f"{head}     step()",
        f"{head} [ERROR] {ERROR}",
    ]
    assert texts[8] == "2026-03-01T08:00:04.000000Z [pod/gpu-19] bye"
    assert raw_lines.read_lines(rows[7:8], [log.path], read) == texts[7:8]


def test_a_report_names_the_physical_line(tmp_path: Path) -> None:
    log, read = _read(tmp_path)
    report = to_json(diagnose([log], read=read))
    (root,) = [event for event in report["logs"]["events"] if event["template"] == ERROR]
    assert [line["line"] for line in root["lines"]] == [4]
    assert report["inputs"][0]["lines"] == 5

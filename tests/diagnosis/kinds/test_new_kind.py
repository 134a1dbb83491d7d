"""A new kind of evidence is a package and a row of the table: nothing else changes."""

import io
from pathlib import Path

import pytest

from diagnosis import Parsed, ParseHints, parse, pipeline
from diagnosis.files import parsed
from diagnosis.kinds import format_table, kind_table
from diagnosis.report import to_json
from tests.diagnosis.kinds import cooling

COUNTERS = f"{cooling.HEADER}\nCDU-1,gpu-07,2900,0\nCDU-2,gpu-19,0,1\n".encode()


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (cooling.KIND, *kind_table.TABLE)
    monkeypatch.setattr(kind_table, "TABLE", table)
    monkeypatch.setattr(format_table, "TABLE", table)


def read(work: Path, data: bytes = COUNTERS) -> Parsed:
    return parse(io.BytesIO(data), "cooling.csv", ParseHints(), work)


def test_its_files_are_recognised_read_and_stored(tmp_path: Path) -> None:
    one = read(tmp_path)
    assert (one.kind, one.lines, one.bytes, one.skipped) == ("cooling", 3, len(COUNTERS), None)
    parsed.save(one, tmp_path / "stored")
    assert parsed.load(tmp_path / "stored").kind == "cooling"


def test_what_it_shows_is_the_conclusion(tmp_path: Path) -> None:
    found = pipeline.diagnose([read(tmp_path)], read=lambda *_: b"")
    report = to_json(found)
    assert report["inputs"][0]["kind"] == "cooling"
    assert report["headline"].startswith("gpu-19: leaks coolant")
    assert [suspect["entity"] for suspect in report["suspects"]][:1] == ["gpu-19"]
    assert report["conclusion"]["subcategory"] == "thermal_slowdown"


def test_an_unexpected_form_costs_the_file_a_sentence(tmp_path: Path) -> None:
    one = read(tmp_path, cooling.HEADER.encode() + b"\nCDU-1," + b"x" * 200_000 + b"\n")
    assert one.skipped and "could not be read" in one.skipped


class Truncated(io.BytesIO):
    """A stream whose data end in the middle, as of a damaged archive."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if not data:
            raise EOFError("the compressed data end early")
        return data


def test_a_file_that_breaks_off_says_so(tmp_path: Path) -> None:
    one = parse(Truncated(COUNTERS), "cooling.csv", ParseHints(), tmp_path)
    assert one.lines == 3
    assert "breaks off" in one.notes[-1]


def test_it_is_in_the_table_of_formats() -> None:
    assert "| cooling unit | counters of a cooling unit | units that leak |" in format_table.as_markdown()

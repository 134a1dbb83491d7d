"""Thresholds and limits are data with reasons."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from diagnosis import thresholds


def read(file: str) -> dict[str, dict[str, dict[str, object]]]:
    return tomllib.loads(resources.files("diagnosis").joinpath("knowledge", f"{file}.toml").read_text("utf-8"))


@pytest.mark.parametrize("file", [file for files in thresholds.FILES.values() for file in files])
def test_every_number_says_why(file: str) -> None:
    tables = read(file)
    silent = [f"{s}.{n}" for s, rows in tables.items() for n, row in rows.items() if len(str(row["why"]).split()) < 2]
    assert silent == []


@pytest.mark.parametrize("files", thresholds.FILES.values())
def test_no_two_files_have_one_section(files: tuple[str, ...]) -> None:
    sections = [section for file in files for section in read(file)]
    assert sorted(set(sections)) == sorted(sections)


def test_an_unknown_threshold_is_an_error() -> None:
    with pytest.raises(AttributeError):
        _ = thresholds.of("roots").no_such_number

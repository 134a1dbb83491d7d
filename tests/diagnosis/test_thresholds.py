"""Thresholds and limits are data with reasons."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from diagnosis import thresholds


@pytest.mark.parametrize("name", ["thresholds", "limits"])
def test_every_number_says_why(name: str) -> None:
    tables = tomllib.loads(resources.files("diagnosis").joinpath("knowledge", f"{name}.toml").read_text("utf-8"))
    silent = [f"{s}.{n}" for s, rows in tables.items() for n, row in rows.items() if len(row["why"].split()) < 2]
    assert silent == []


def test_an_unknown_threshold_is_an_error() -> None:
    with pytest.raises(AttributeError):
        _ = thresholds.of("roots").no_such_number

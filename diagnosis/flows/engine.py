"""From flow records to the report's ``flows`` object: the order of LLMPrism's four phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from diagnosis.model import OnStage, Parsed, silent


def load_records(parsed: Sequence[Parsed]) -> pl.DataFrame:
    """All usable artifacts' records as one table."""
    paths = [p.columns for p in parsed if p.columns is not None and p.skipped is None]
    return pl.concat([pl.scan_parquet(path) for path in paths]).collect() if paths else pl.DataFrame()


def diagnose_flows(
    parsed: Sequence[Parsed], *, inventory: Sequence[Mapping[str, Any]] = (), on_stage: OnStage = silent
) -> dict[str, Any]:
    """The report's ``flows`` object plus ``suspects``.

    ``inventory`` rows hold ``ip`` and any of ``node``, ``gpu``, ``switch`` or ``leaf``; without it machines stay unknown.
    """
    on_stage("flows", 0, 1)
    records = load_records(parsed)
    return {
        "usable_for_timeline": False,
        "why_not": "No flow records." if records.is_empty() else None,
        "jobs": [],
        "diagnoses": [],
        "suspects": [],
    }

"""From simulated captures to the engine's answer, and how that answer is judged."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from diagnosis.kinds.flows import parse_flow
from diagnosis.model import Parsed, ParseHints
from tests.diagnosis.kinds.flows.simulate import Capture
from tests.diagnosis.kinds.reports import flows_json


def parsed(data: bytes, work: Path, name: str = "flows", time_zone: str = "UTC") -> Parsed:
    return parse_flow(io.BytesIO(data), name, ParseHints(time_zone=time_zone), work)


def records_of(part: Parsed) -> list[dict[str, Any]]:
    assert part.columns is not None
    return pl.read_parquet(part.columns).sort("start", "src").to_dicts()


def analysed(
    captures: list[Capture], work: Path, records: pl.DataFrame | None = None, *, inventory: bool = True
) -> dict[str, Any]:
    table = records if records is not None else pl.concat([c.records for c in captures])
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    rows = [row for c in captures for row in c.inventory] if inventory else []
    return flows_json([parsed(buffer.getvalue(), work)], inventory=rows)


def job_of(report: dict[str, Any], capture: Capture) -> dict[str, Any]:
    found = [j for j in report["jobs"] if set(j["members"]) == set(capture.members)]
    assert found, (
        f"no job has exactly these {len(capture.members)} members: {[len(j['members']) for j in report['jobs']]}"
    )
    return found[0]


def wrong_pairs(job: dict[str, Any], capture: Capture) -> list[tuple[Any, ...]]:
    types = {tuple(sorted((p["a"], p["b"]))): p["type"] for p in job["pairs"]}
    return [(pair, kind, types.get(pair)) for pair, kind in capture.pairs.items() if types.get(pair) != kind]


def layout(job: dict[str, Any]) -> tuple[int, int, int]:
    p = job["parallelism"]
    return p["tp"], p["pp"], p["dp"]


def step_errors(job: dict[str, Any], capture: Capture) -> tuple[int, int, float]:
    """Steps missed, steps made up, and the worst relative error of a duration, after the constant shift of the
    boundary's definition.
    """
    true = np.array(capture.ends)
    found = np.array([s["end"] for s in job["steps"]])
    usual = float(np.median(np.diff(true)))
    nearest = np.abs(found[:, None] - true[None, :]).argmin(axis=1)
    shift = float(np.median(found - true[nearest]))
    nearest = np.abs(found[:, None] - shift - true[None, :]).argmin(axis=1)
    close = np.abs(found - shift - true[nearest]) < 0.4 * usual
    hit, at = nearest[close], found[close]
    together = np.flatnonzero(np.diff(hit) == 1)
    lasted, truly = np.diff(at)[together], np.diff(true)[hit[together]]
    worst = float(np.abs(lasted / truly - 1).max()) if len(together) else 1.0
    return len(true) - len(set(hit.tolist())), len(found) - len(set(hit.tolist())), worst

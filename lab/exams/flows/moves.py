"""Changes during a capture: ranks move to another adapter or machine, checkpoints go to an object store,
the capture itself begins and ends in the middle of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from lab.exams.flows.neighbours import address, rows_of
from lab.exams.flows.tenants import Fabric
from lab.exams.flows.world import Run

#: Bytes of one part of an object, bytes a second to the store, and its heads.
PART = 8 << 20
STORE_RATE = 2.5e9
HEADS = 8


@dataclass(frozen=True)
class Move:
    """From step ``step`` on rank ``rank`` of tenant ``tenant`` uses its machine's second adapter; with ``to`` all of
    its machine's ranks run on that machine instead.
    """

    tenant: int
    rank: int
    step: int
    to: int | None = None


def second(node: int, gpu: int, how: str) -> str:
    """The address of a GPU's second adapter."""
    return f"fd01:{node:x}::{gpu + 1:x}" if how == "v6" else f"10.{gpu + 128}.{node // 250}.{node % 250 + 1}"


def moved(table: pl.DataFrame, run: Run, moves: list[Move], how: str) -> pl.DataFrame:
    """The records with the addresses that were used at their time."""
    job = run.job
    for move in moves:
        node = job.place(move.rank)[0]
        gpus = range(job.gpus) if move.to is not None else [job.place(move.rank)[1]]
        before = [address(node, g, how) for g in gpus]
        after = [address(move.to, g, how) if move.to is not None else second(node, g, how) for g in gpus]
        later = pl.col("start_time") >= run.begins[move.step] - 1e-4
        table = table.with_columns(
            pl.when(later).then(pl.col(c).replace(before, after)).otherwise(c).alias(c)
            for c in ("src", "dst", "src_name", "dst_name")
        )
    return table


def objects(run: Run, fabric: Fabric, how: str) -> pl.DataFrame:
    """Parts of one size from every GPU's own adapter, while the training continues."""
    job, rng = run.job, np.random.default_rng(run.job.seed + 17)
    rows: list[tuple[Any, ...]] = []
    for t0, t1 in run.storage:
        for rank in range(job.world):
            place = job.place(rank)
            at = t0 + float(rng.uniform(0, 0.02))
            while at < t1:
                took = PART / STORE_RATE * float(rng.lognormal(0, 0.15))
                head = int(rng.integers(1, HEADS + 1))
                port = int(rng.integers(32_768, 60_999))
                path = f"{fabric.leaf(*place)};storage"
                rows.append(
                    (at, took, address(*place, how), f"10.200.8.{head}", port, 7480, 6, PART, PART // 1400, path)
                )
                at += took + float(rng.exponential(0.004))
    return rows_of(rows)


def windowed(
    table: pl.DataFrame, jobs: list[dict[str, Any]], window: tuple[float, float], origin: float
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """The part from step ``window[0]`` to ``window[1]`` of the first job, and the whole steps in it. Times in ``table``
    are epoch seconds, in ``jobs`` seconds since ``origin``.
    """
    ends = jobs[0]["steps"]["comm_end"]
    t0, t1 = (float(np.interp(at, np.arange(1, len(ends) + 1), ends)) for at in window)
    inside = pl.col("start_time").is_between(origin + t0, origin + t1) & (
        pl.col("start_time") + pl.col("duration") <= origin + t1
    )
    for job in jobs:
        steps = job["steps"]
        kept = [
            k
            for k, (a, b) in enumerate(zip(steps["compute_start"], steps["comm_end"], strict=True))
            if a >= t0 and b <= t1
        ]
        steps |= {"n": len(kept)} | {key: [steps[key][k] for k in kept] for key in ("compute_start", "comm_end")}
    return table.filter(inside), jobs

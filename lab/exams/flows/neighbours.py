"""Addresses, and traffic other than training: storage, ssh, monitors, probes, an inference service."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from lab.exams.flows.tenants import Fabric
from lab.exams.flows.world import Run


def address(node: int, gpu: int, how: str, lane: int = 0) -> str:
    if how == "ports":
        return f"10.{gpu + 64 + 16 * (lane % 2)}.{node // 250}.{node % 250 + 1}"
    if how == "flat":
        return f"192.168.{node // 25}.{node % 25 * 10 + gpu}"
    if how == "v6":
        return f"fd00:{node:x}::{gpu + 1:x}"
    if how == "shared":
        return f"172.20.{node // 200}.{node % 200 + 1}"
    return f"10.{gpu + 64}.{node // 250}.{node % 250 + 1}"


def member(node: int, gpu: int, how: str, lane: int = 0) -> str:
    """The name of a rank in the truth: its address, with its port if ranks share an address."""
    return address(node, gpu, how, lane) + (f":{29_600 + gpu}" if how == "shared" else "")


def serving(
    prefill: tuple[tuple[str, str], ...], decode: tuple[tuple[str, str], ...], until: float, rng: np.random.Generator
) -> list[tuple[Any, ...]]:
    """Requests arrive at random; each sends its key-value cache (as large as its prompt) from one prefill to one decode
    address, in a few pieces; (address, leaf) pairs. Rows as in ``flows_spoil``.
    """
    rows: list[tuple[Any, ...]] = []
    now = 0.0
    while now < until:
        now += float(rng.exponential(0.012))
        source, near = prefill[int(rng.integers(len(prefill)))]
        target, far = decode[int(rng.integers(len(decode)))]
        tokens = int(np.clip(rng.lognormal(6.5, 1.1), 16, 32_000))
        at, pieces = now, int(rng.integers(1, 6))
        path = near if near == far else f"{near};spine-0;{far}"
        for _ in range(pieces):
            size = tokens * 131_072 // 8 // pieces + 64
            took = size / 2.0e10 + 2e-5
            port = 49_152 + int(rng.integers(16_000))
            rows.append((at, took, source, target, port, 4791, 17, size, size // 4096 + 1, path))
            at += took + float(rng.exponential(3e-4))
    return rows


def rows_of(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    names = ["start_time", "duration", "src", "dst", "src_port", "dst_port", "proto", "bytes", "packets", "switches"]
    schema = dict(
        zip(
            names,
            [pl.Float64, pl.Float64, pl.String, pl.String, pl.Int64, pl.Int64, pl.Int32, pl.Int64, pl.Int64, pl.String],
            strict=True,
        )
    )
    return pl.DataFrame(rows, schema=schema, orient="row")


def storage(run: Run, fabric: Fabric, how: str, rng: np.random.Generator) -> pl.DataFrame:
    """Checkpoints to, and samples from, four storage heads on a port without a known service."""
    rows: list[tuple[Any, ...]] = []
    job = run.job
    for t0, t1 in run.storage:
        for node in job.nodes:
            at = t0
            while at < t1:
                took = rng.uniform(0.02, 0.06)
                size = int(rng.integers(4e7, 9e7))
                rows.append(
                    (
                        at,
                        took,
                        address(node, 0, how),
                        f"10.200.9.{rng.integers(1, 5)}",
                        int(rng.integers(32768, 60999)),
                        7777,
                        6,
                        size,
                        size // 1400,
                        f"{fabric.leaf(node, 0)};storage",
                    )
                )
                at += took
    for _ in range(int(run.ends[-1] * 3)):
        node = int(rng.choice(job.nodes))
        size = int(rng.integers(1e6, 5e7))
        rows.append(
            (
                rng.uniform(0, run.ends[-1]),
                rng.uniform(0.002, 0.02),
                f"10.200.9.{rng.integers(1, 5)}",
                address(node, 0, how),
                7777,
                int(rng.integers(32768, 60999)),
                6,
                size,
                size // 1400,
                f"storage;{fabric.leaf(node, 0)}",
            )
        )
    return rows_of(rows)


def chatter(places: list[tuple[int, int]], how: str, rng: np.random.Generator, *, probes: bool) -> pl.DataFrame:
    """ssh from a bastion, monitoring, and (``probes``) a mesh of pings and bandwidth checks across tenants."""
    rows: list[tuple[Any, ...]] = []
    nodes = sorted({p[0] for p in places})
    for _ in range(60):
        node = int(rng.choice(nodes))
        size = int(rng.integers(300, 40_000))
        for peer, port, lasts, packet in (("10.9.9.9", 22, (0.01, 3), 120), ("10.9.9.8", 9100, (0.001, 0.01), 800)):
            start, length, source = rng.uniform(0, 25), rng.uniform(*lasts), int(rng.integers(32768, 60999))
            target = address(node, 0, how)
            rows.append((start, length, peer, target, source, port, 6, size, size // packet + 1, "mgmt"))
    for _ in range(1500 if probes else 0):
        i, j = rng.choice(len(places), 2, replace=False)
        if places[i][0] != places[j][0]:
            rows.append(
                (
                    rng.uniform(0, 25),
                    1e-4,
                    address(*places[i], how),
                    address(*places[j], how),
                    int(rng.integers(20000, 60999)),
                    4791,
                    17,
                    256,
                    1,
                    "probe",
                )
            )
    if probes:
        for a, b in zip(nodes[::2], nodes[1::2], strict=False):
            for g in range(4):
                rows.append(
                    (
                        0.02 + 0.05 * g,
                        0.04,
                        address(a, g, how),
                        address(b, g, how),
                        51_000 + g,
                        4791,
                        17,
                        800_000_000,
                        195_313,
                        "probe",
                    )
                )
                rows.append(
                    (
                        0.3 + 0.05 * g,
                        0.04,
                        address(nodes[0], g, how),
                        address(nodes[-1], g, how),
                        51_000 + g,
                        4791,
                        17,
                        800_000_000,
                        195_313,
                        "probe",
                    )
                )
    return rows_of(rows)

"""From simulated tenants to a capture as an exporter would give it, beside the truth in the scorer's shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from bench.flows_tenants import Fabric, Tenant
from bench.flows_world import KINDS, Run

T0 = 1_760_000_000.0


@dataclass(frozen=True)
class Spoil:
    """What the exporter does to the records; shares, seconds, and 1 in ``sampled`` packets."""

    loss: float = 0.0
    split: float = 0.0
    merge: float = 0.0
    twice: float = 0.0
    grid: float = 1e-6
    clocks: float = 0.0  # collectors (one a leaf) are off by up to this
    no_bytes: bool = False
    sampled: int = 0
    names: str = "rails"  # rails, flat, v6, shared (one address a machine, a port a rank)
    background: bool = True
    probes: bool = False


@dataclass(frozen=True)
class Case:
    """One capture of the exam."""

    name: str
    fabric: Fabric
    tenants: tuple[Tenant, ...]
    spoil: Spoil = field(default_factory=Spoil)
    inventory: bool = True
    paths: bool = True


def address(node: int, gpu: int, how: str) -> str:
    if how == "flat":
        return f"192.168.{node // 25}.{node % 25 * 10 + gpu}"
    if how == "v6":
        return f"fd00:{node:x}::{gpu + 1:x}"
    if how == "shared":
        return f"172.20.{node // 200}.{node % 200 + 1}"
    return f"10.{gpu + 64}.{node // 250}.{node % 250 + 1}"


def member(node: int, gpu: int, how: str) -> str:
    """What the truth calls a rank: its address, with its port where ranks share one."""
    return address(node, gpu, how) + (f":{29_600 + gpu}" if how == "shared" else "")


def build(case: Case) -> tuple[pl.DataFrame, list[dict[str, Any]], dict[str, Any]]:
    """Records, inventory and truth."""
    rng = np.random.default_rng(99 + sum(t.seed for t in case.tenants))
    tables, jobs, problems = [], [], []
    places: dict[tuple[int, int], None] = {}
    for number, tenant in enumerate(case.tenants):
        run = Run(tenant, case.fabric)
        table = _records(run, case)
        jobs.append(_truth(run, table, number, case))
        problems += _problems(run, number, case)
        tables.append(table.drop("kind"))
        places |= dict.fromkeys(tenant.place(r) for r in range(tenant.world))
        tables += [_storage(run, case, rng)] if case.spoil.background else []
    if case.spoil.background:
        tables.append(_chatter(list(places), case, rng))
    table = spoilt(pl.concat(tables, how="diagonal").with_columns(pl.col("start_time") + T0), case.spoil, rng)
    if not case.paths:
        table = table.drop("switches")
    rows = [
        {"ip": address(*p, case.spoil.names), "node": f"host{p[0]:03d}", "gpu": p[1], "leaf": case.fabric.leaf(*p)}
        for p in sorted(places)
    ]
    if case.spoil.names == "shared":
        rows = [r for r in rows if r["gpu"] == 0]
    for row in jobs:
        row["steps"] = {k: [x + T0 for x in v] if isinstance(v, list) else v for k, v in row["steps"].items()}
    for p in problems:
        p["t0"], p["t1"] = p["t0"] + T0, p["t1"] + T0
    gpus = sum(t.world for t in case.tenants)
    truth = {"gpus": gpus, "jobs": jobs, "problems": problems}
    return table, rows if case.inventory else [], truth


def _records(run: Run, case: Case) -> pl.DataFrame:
    """One tenant's transfers with addresses, ports, paths."""
    sent, job, how = run.sent, run.job, case.spoil.names
    table = pl.DataFrame(
        {
            "start_time": np.concatenate(sent.start),
            "end": np.concatenate(sent.end),
            "a": np.concatenate(sent.src),
            "b": np.concatenate(sent.dst),
            "bytes": np.concatenate(sent.size).astype(np.int64),
            "kind": np.concatenate(sent.kind),
            "lane": np.concatenate(sent.lane),
        }
    )
    ways = table.select("a", "b", "lane").unique()
    ways = ways.with_columns(
        switches=pl.Series([case.fabric.path(job.place(a), job.place(b), lane) for a, b, lane in ways.iter_rows()])
    )
    places = [job.place(r) for r in range(job.world)]
    ips = pl.Series([address(*p, how) for p in places])
    names = pl.Series([member(*p, how) for p in places])
    gpu = pl.Series([p[1] for p in places])
    shared = how == "shared"
    a, b = table["a"], table["b"]
    table = table.with_columns(
        src=ips.gather(a),
        dst=ips.gather(b),
        src_name=names.gather(a),
        dst_name=names.gather(b),
        src_port=29_600 + gpu.gather(a) if shared else 49_152 + (a * 7919 + b * 13 + table["lane"]) % 16_000,
        dst_port=29_600 + gpu.gather(b) if shared else pl.lit(4791, dtype=pl.Int64),
        proto=pl.lit(6 if shared else 17, dtype=pl.Int32),
        duration=(pl.col("end") - pl.col("start_time")).clip(lower_bound=1e-6),
        packets=pl.col("bytes") // 4096 + 1,
    )
    return table.join(ways, on=["a", "b", "lane"]).drop("a", "b", "end", "lane")


def _truth(run: Run, table: pl.DataFrame, number: int, case: Case) -> dict[str, Any]:
    """Members that are seen at all, pairs by what they carry, steps."""
    job = run.job
    seen = sorted(set(table["src_name"].to_list()) | set(table["dst_name"].to_list()))
    kinds = table.select(
        "kind", lo=pl.min_horizontal("src_name", "dst_name"), hi=pl.max_horizontal("src_name", "dst_name")
    ).unique()
    pairs = kinds.group_by("lo", "hi").agg(pl.col("kind").unique().sort())
    return {
        "id": f"job-{number}",
        "members": seen,
        "nodes": [f"host{n:03d}" for n in job.nodes],
        "parallel": {"tp": job.tp, "pp": job.pp, "dp": job.dp * job.cp, "ep": job.ep},
        "pairs": [[a, b, "+".join(KINDS[k] for k in of)] for a, b, of in pairs.iter_rows()],
        "steps": {"n": len(run.ends), "compute_start": run.begins, "comm_end": run.ends},
    }


def _problems(run: Run, number: int, case: Case) -> list[dict[str, Any]]:
    job, out = run.job, []
    per = job.tp * job.cp * job.dp
    for x in job.faults:
        t0, t1 = run.begins[x.first], run.ends[x.last]
        row: dict[str, Any] = {"job": f"job-{number}", "cause": x.kind, "t0": t0, "t1": t1}
        if x.kind in ("loader", "checkpoint"):
            out.append(row | {"kind": "slow_step", "step": x.first, "t0": t0 - x.factor})
        elif x.kind == "switch":
            out.append({"kind": "slow_switch", "switch": x.switch, "cause": "switch", "t0": t0, "t1": t1})
        else:
            whole = range(x.rank // job.gpus * job.gpus, (x.rank // job.gpus + 1) * job.gpus)
            guilty = list(whole) if x.kind == "gpu" else [x.rank]
            groups = {(r // per, r % job.tp) for r in guilty}
            names = [member(*job.place(r), case.spoil.names) for r in range(job.world)]
            out.append(
                row
                | {
                    "kind": "slow_group",
                    "culprit_gpus": [names[r] for r in guilty],
                    "culprit_nodes": [f"host{job.place(guilty[0])[0]:03d}"],
                    "groups": [[names[int(m)] for m in job.ranks(p, t)] for p, t in sorted(groups)],
                }
            )
    for cause, every in (("evaluation", job.eval_every), ("checkpoint", job.checkpoint_every)):
        pauses = range(every, job.steps, every) if every else ()
        own = {"kind": "slow_step", "job": f"job-{number}", "cause": cause}
        out += [own | {"step": k, "t0": run.ends[k - 1], "t1": run.ends[k]} for k in pauses]
    return out


def _rows(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    names = ["start_time", "duration", "src", "dst", "src_port", "dst_port", "proto", "bytes", "packets", "switches"]
    schema = dict(
        zip(
            names,
            [pl.Float64, pl.Float64, pl.String, pl.String, pl.Int64, pl.Int64, pl.Int32, pl.Int64, pl.Int64, pl.String],
            strict=True,
        )
    )
    return pl.DataFrame(rows, schema=schema, orient="row")


def _storage(run: Run, case: Case, rng: np.random.Generator) -> pl.DataFrame:
    """Checkpoints to, and samples from, four storage heads on a port that is nobody's in particular."""
    rows: list[tuple[Any, ...]] = []
    job, how = run.job, case.spoil.names
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
                        f"{case.fabric.leaf(node, 0)};storage",
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
                f"storage;{case.fabric.leaf(node, 0)}",
            )
        )
    return _rows(rows)


def _chatter(places: list[tuple[int, int]], case: Case, rng: np.random.Generator) -> pl.DataFrame:
    """ssh from a bastion, monitoring, and (``probes``) a mesh of pings and bandwidth checks across tenants."""
    rows: list[tuple[Any, ...]] = []
    how = case.spoil.names
    nodes = sorted({p[0] for p in places})
    for _ in range(60):
        node = int(rng.choice(nodes))
        size = int(rng.integers(300, 40_000))
        for peer, port, lasts, packet in (("10.9.9.9", 22, (0.01, 3), 120), ("10.9.9.8", 9100, (0.001, 0.01), 800)):
            start, length, source = rng.uniform(0, 25), rng.uniform(*lasts), int(rng.integers(32768, 60999))
            target = address(node, 0, how)
            rows.append((start, length, peer, target, source, port, 6, size, size // packet + 1, "mgmt"))
    for _ in range(1500 if case.spoil.probes else 0):
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
    if case.spoil.probes:
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
    return _rows(rows)


def spoilt(table: pl.DataFrame, spoil: Spoil, rng: np.random.Generator) -> pl.DataFrame:
    """Applies the exporter's faults and leaves the records in no order."""
    table = table.drop("src_name", "dst_name", strict=False).with_columns(
        pl.col("src_port", "dst_port").cast(pl.Int64),
        pl.col("proto").cast(pl.Int32),
        end=pl.col("start_time") + pl.col("duration"),
    )
    table = table.filter(pl.Series(rng.random(table.height) >= spoil.loss))
    if spoil.sampled:
        seen = rng.binomial(table["packets"].to_numpy(), 1 / spoil.sampled)
        packet = (table["bytes"] / table["packets"]).to_numpy()
        edge = (table["duration"].to_numpy() / np.maximum(seen, 1)) * rng.exponential(0.5, (2, table.height))
        table = table.with_columns(
            pl.Series("bytes", (seen * packet * spoil.sampled).astype(np.int64)),
            pl.Series("packets", seen * spoil.sampled),
            pl.col("start_time") + pl.Series(edge[0]),
            pl.col("end") - pl.Series(edge[1]),
        ).filter(pl.col("packets") > 0)
        table = table.with_columns(end=pl.max_horizontal("end", "start_time"))
    if spoil.split:
        share = pl.Series("share", rng.uniform(0.15, 0.85, table.height))
        table = table.with_columns(share, cut=pl.Series(rng.random(table.height) < spoil.split))
        middle = pl.col("start_time") + (pl.col("end") - pl.col("start_time")) * pl.col("share")
        first = (pl.col("bytes") * pl.col("share")).cast(pl.Int64)
        table = pl.concat(
            [
                table.with_columns(
                    end=pl.when("cut").then(middle).otherwise("end"),
                    bytes=pl.when("cut").then(first).otherwise("bytes"),
                ),
                table.filter("cut").with_columns(start_time=middle, bytes=pl.col("bytes") - first),
            ]
        ).drop("share", "cut")
    if spoil.merge:
        table = table.sort("src", "dst", "src_port", "dst_port", "start_time")
        same = pl.all_horizontal(pl.col(c) == pl.col(c).shift(1) for c in ("src", "dst", "src_port", "dst_port"))
        close = pl.col("start_time") - pl.col("end").shift(1) < 0.003
        joined = (same & close).fill_null(False) & pl.Series(rng.random(table.height) < spoil.merge)
        rest = [pl.col(c).first() for c in ("src", "dst", "src_port", "dst_port", "proto", "switches")]
        table = (
            table.with_columns(run=(~joined).cum_sum())
            .group_by("run", maintain_order=True)
            .agg(pl.col("start_time").first(), pl.col("end").max(), pl.col("bytes", "packets").sum(), *rest)
            .drop("run")
        )
    if spoil.clocks:
        exporter = table["switches"].str.split(";").list.first()
        names = exporter.unique().sort()
        off = pl.Series(rng.uniform(-spoil.clocks, spoil.clocks, len(names)))
        table = table.with_columns(off=exporter.replace_strict(names, off, return_dtype=pl.Float64))
        table = table.with_columns(pl.col("start_time", "end") + pl.col("off")).drop("off")
    if spoil.twice:
        table = pl.concat([table, table.filter(pl.Series(rng.random(table.height) < spoil.twice))])
    start, end = ((pl.col(c) / spoil.grid).floor() * spoil.grid for c in ("start_time", "end"))
    table = table.with_columns(start_time=start.round(6), duration=(end - start).round(6).clip(lower_bound=0.0)).drop(
        "end"
    )
    if spoil.no_bytes:
        table = table.with_columns(bytes=pl.lit(None, dtype=pl.Int64), packets=pl.lit(None, dtype=pl.Int64))
    return table.sample(fraction=1.0, shuffle=True, seed=int(rng.integers(1 << 30)))

"""Makes a capture in an exporter's form from simulated tenants, and the truth in the scorer's form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from lab.exams.flows.moves import Move, moved, objects, second, windowed
from lab.exams.flows.neighbours import address, chatter, member, rows_of, serving, storage
from lab.exams.flows.tenants import Fabric, Tenant
from lab.exams.flows.world import KINDS, Run

T0 = 1_760_000_000.0


@dataclass(frozen=True)
class Spoil:
    """The exporter's errors; shares, seconds, and 1 in ``sampled`` packets."""

    loss: float = 0.0
    split: float = 0.0
    merge: float = 0.0
    twice: float = 0.0
    grid: float = 1e-6
    apart: float = 0.0  # every second collector is ahead by this many seconds
    clocks: float = 0.0  # collectors (one a leaf) are wrong by up to this many seconds
    no_bytes: bool = False
    sampled: int = 0
    names: str = "rails"  # rails, flat, v6, shared (one address a machine, a port a rank), ports (two a GPU)
    background: bool = True
    probes: bool = False
    objects: bool = False  # checkpoints go to an object store, from every GPU's own adapter, in parts of one size
    unlisted: int = 0  # number of machines that are missing from the inventory (translated addresses, new machines)


POOR = Spoil(loss=0.1, split=0.05, merge=0.08, twice=0.04)


@dataclass(frozen=True)
class Case:
    """One capture of the exam."""

    name: str
    fabric: Fabric
    tenants: tuple[Tenant, ...]
    spoil: Spoil = field(default_factory=Spoil)
    inventory: bool = True
    paths: bool = True
    joined: tuple[tuple[int, ...], ...] = ()  # tenants that form one job (restarted, or shrunk)
    moves: tuple[Move, ...] = ()  # ranks that change their address
    window: tuple[float, float] | None = None  # first and last captured step of the first tenant
    serving: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # machines of an inference service


def build(case: Case) -> tuple[pl.DataFrame, list[dict[str, Any]], dict[str, Any]]:
    """Records, inventory and truth."""
    rng = np.random.default_rng(99 + sum(t.seed for t in case.tenants))
    tables, jobs, problems = [], [], []
    places: dict[tuple[int, int], None] = {}
    over = 0.0
    for number, tenant in enumerate(case.tenants):
        if tenant.after is not None:
            tenant = replace(tenant, begin=over + tenant.after)
        run = Run(tenant, case.fabric)
        over = run.ends[-1]
        table = moved(_records(run, case), run, [m for m in case.moves if m.tenant == number], case.spoil.names)
        jobs.append(_truth(run, table, number, case))
        problems += _problems(run, number, case)
        tables.append(table.drop("kind"))
        places |= dict.fromkeys(tenant.place(r) for r in range(tenant.world))
        places |= dict.fromkeys((m.to, g) for m in case.moves if m.to is not None for g in range(tenant.gpus))
        tables += [objects(run, case.fabric, case.spoil.names)] if case.spoil.objects else []
        tables += [storage(run, case.fabric, case.spoil.names, rng)] if case.spoil.background else []
    if case.spoil.background:
        tables.append(chatter(list(places), case.spoil.names, rng, probes=case.spoil.probes))
    if case.serving[0]:
        near, far = (
            tuple((address(n, g, case.spoil.names), case.fabric.leaf(n, g)) for n in part for g in range(8))
            for part in case.serving
        )
        tables.append(rows_of(serving(near, far, max(run.ends[-1], over), rng)))
        places |= dict.fromkeys((n, g) for part in case.serving for n in part for g in range(8))
    jobs, problems = _joined(jobs, problems, case)
    table = spoilt(pl.concat(tables, how="diagonal").with_columns(pl.col("start_time") + T0), case.spoil, rng)
    if case.window is not None:
        table, jobs = windowed(table, jobs, case.window, T0)
    if not case.paths:
        table = table.drop("switches")
    rows = [
        {
            "ip": address(*p, case.spoil.names, lane),
            "node": f"host{p[0]:03d}",
            "gpu": p[1],
            "leaf": case.fabric.leaf(*p, lane),
        }
        for p in sorted(places)
        for lane in range(2 if case.spoil.names == "ports" else 1)
    ]
    rows += [
        {"ip": second(*place, case.spoil.names), "node": f"host{place[0]:03d}", "gpu": place[1], "leaf": "leaf-second"}
        for place in sorted({t.place(m.rank) for m in case.moves if m.to is None for t in [case.tenants[m.tenant]]})
    ]
    rows = [r for r in rows if r["node"] not in {f"host{n:03d}" for n in _unlisted(case)}]
    if case.spoil.names == "shared":
        rows = [r for r in rows if r["gpu"] == 0]
    for row in jobs:
        row["steps"] = {k: [x + T0 for x in v] if isinstance(v, list) else v for k, v in row["steps"].items()}
    for p in problems:
        p["t0"], p["t1"] = p["t0"] + T0, p["t1"] + T0
    gpus = sum(t.world for t in case.tenants)
    truth = {"gpus": gpus, "jobs": jobs, "problems": problems}
    return table, rows if case.inventory else [], truth


def _unlisted(case: Case) -> list[int]:
    nodes = sorted({n for t in case.tenants for n in t.nodes})
    return nodes[len(nodes) - case.spoil.unlisted :]


def _joined(
    jobs: list[dict[str, Any]], problems: list[dict[str, Any]], case: Case
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tenants of one job become one row of truth, with the layout of the first."""
    absorbed: set[str] = set()
    for first, *others in case.joined:
        own = jobs[first]
        kinds = {(a, b): set(k.split("+")) for a, b, k in own["pairs"]}
        before = own["steps"]["n"]
        for other in others:
            more = jobs[other]
            absorbed.add(more["id"])
            pause = own["steps"]["comm_end"][-1], more["steps"]["comm_end"][0]
            problems.append(
                {
                    "kind": "slow_step",
                    "job": own["id"],
                    "cause": "restart",
                    "step": before,
                    "t0": pause[0],
                    "t1": pause[1],
                }
            )
            own["members"] = sorted({*own["members"], *more["members"]})
            own["nodes"] = sorted({*own["nodes"], *more["nodes"]})
            for a, b, k in more["pairs"]:
                kinds.setdefault((a, b), set()).update(k.split("+"))
            for p in problems:
                if p.get("job") == more["id"]:
                    p["job"] = own["id"]
                    p |= {"step": p["step"] + before} if "step" in p else {}
            before += more["steps"]["n"]
            own["steps"] = {k: own["steps"][k] + more["steps"][k] for k in own["steps"]}
        own["pairs"] = [[a, b, "+".join(sorted(k))] for (a, b), k in kinds.items()]
    return [j for j in jobs if j["id"] not in absorbed], problems


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
    world = job.world + job.gpus
    ways = table.select("a", "b", "lane").unique()
    ways = ways.with_columns(
        switches=pl.Series([case.fabric.path(job.place(a), job.place(b), lane) for a, b, lane in ways.iter_rows()])
    )
    places = [job.place(r) for r in range(world)]
    ips = pl.Series([address(*p, how, lane) for lane in range(2) for p in places])
    names = pl.Series([member(*p, how, lane) for lane in range(2) for p in places])
    gpu = pl.Series([p[1] for p in places])
    shared = how == "shared"
    a, b = table["a"], table["b"]
    which = world * (table["lane"] % 2)
    table = table.with_columns(
        src=ips.gather(a + which),
        dst=ips.gather(b + which),
        src_name=names.gather(a + which),
        dst_name=names.gather(b + which),
        src_port=29_600 + gpu.gather(a) if shared else 49_152 + (a * 7919 + b * 13 + table["lane"]) % 16_000,
        dst_port=29_600 + gpu.gather(b) if shared else pl.lit(4791, dtype=pl.Int64),
        proto=pl.lit(6 if shared else 17, dtype=pl.Int32),
        duration=(pl.col("end") - pl.col("start_time")).clip(lower_bound=1e-6),
        packets=pl.col("bytes") // 4096 + 1,
    )
    return table.join(ways, on=["a", "b", "lane"]).drop("a", "b", "end", "lane")


def _truth(run: Run, table: pl.DataFrame, number: int, case: Case) -> dict[str, Any]:
    """Members that appear in the capture, pairs by their traffic, steps."""
    job = run.job
    points = {member(*job.place(job.world + g), case.spoil.names) for g in range(job.gpus)}
    seen = sorted((set(table["src_name"].to_list()) | set(table["dst_name"].to_list())) - points)
    kinds = table.select(
        "kind", lo=pl.min_horizontal("src_name", "dst_name"), hi=pl.max_horizontal("src_name", "dst_name")
    ).unique()
    pairs = kinds.group_by("lo", "hi").agg(pl.col("kind").unique().sort())
    return {
        "id": f"job-{number}",
        "members": seen,
        "nodes": [f"host{n:03d}" for n in job.nodes],
        "parallel": {"tp": job.tp, "pp": job.pp, "dp": len(job.sharing()[0]), "ep": job.ep},
        "pairs": [[a, b, "+".join(KINDS[k] for k in of)] for a, b, of in pairs.iter_rows()],
        "steps": _iterations(run),
    }


def _iterations(run: Run) -> dict[str, Any]:
    """Steps; if samples are generated before every few updates, one step is the samples and their updates."""
    each = run.job.rollout or 1
    ends = run.ends[each - 1 :: each]
    return {"n": len(ends), "compute_start": run.begins[::each][: len(ends)], "comm_end": ends}


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
    if job.last_stage > 1.1:
        last = [r for r in range(job.world) if r >= per * (job.pp - 1)]
        row = {"kind": "slow_group", "job": f"job-{number}", "cause": "uneven", "t0": run.begins[0], "t1": run.ends[-1]}
        names = [member(*job.place(r), case.spoil.names) for r in last]
        nodes = sorted({f"host{job.place(r)[0]:03d}" for r in last})
        out.append(row | {"culprit_gpus": names, "culprit_nodes": nodes, "groups": [names]})
    if job.imbalance:  # no machine is slow
        names = [member(*job.place(r), case.spoil.names) for r in range(job.world)]
        row = {"kind": "slow_group", "job": f"job-{number}", "cause": "moving", "t0": run.begins[0], "t1": run.ends[-1]}
        out.append(row | {"culprit_gpus": [], "culprit_nodes": [], "groups": [names]})
    for cause, every in (
        ("evaluation", job.eval_every),
        ("checkpoint", job.checkpoint_every),
    ):
        pauses = range(every, job.steps, every) if every else ()
        own = {"kind": "slow_step", "job": f"job-{number}", "cause": cause}
        out += [own | {"step": k, "t0": run.ends[k - 1], "t1": run.ends[k]} for k in pauses]
    return out


def spoilt(table: pl.DataFrame, spoil: Spoil, rng: np.random.Generator) -> pl.DataFrame:
    """Applies the exporter's errors and shuffles the records."""
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
    if spoil.clocks or spoil.apart:
        exporter = table["switches"].str.split(";").list.first()
        names = exporter.unique().sort()
        off = pl.Series(
            rng.uniform(-spoil.clocks, spoil.clocks, len(names)) + spoil.apart * (np.arange(len(names)) % 2)
        )
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

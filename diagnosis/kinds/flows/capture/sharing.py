"""Separates ranks that share one address (containers on the host network, one bonded NIC) by their ports.

A rank's own port sends and receives, and has several peers or is the same on every machine. Ephemeral ports have only
one peer, and all use RoCE's 4791: neither splits an address.
"""

from __future__ import annotations

import polars as pl

#: Number of records analysed, from the middle of the capture; maximum number of ranks of one address.
SAMPLE_RECORDS = 200_000
MAX_RANKS = 64
_ROCE = 4791


def endpoint(address: str, port: object) -> str:
    """``address:port``, IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def host_of(name: str) -> str:
    """The address of an endpoint's name; an empty string if it is no ``address:port``."""
    host, _, port = name.rpartition(":")
    if not port.isdigit() or (":" in host and not host.startswith("[")):
        return ""
    return host.strip("[]")


def ranks_by_port(scan: pl.LazyFrame) -> pl.DataFrame:
    """One row a rank (ip, port, name) of those that share an address; empty if none do."""
    ports = pl.col("src_port", "dst_port").is_not_null()
    total = int(scan.select(pl.len()).collect().item())
    part = scan.select("src", "dst", "src_port", "dst_port").slice(
        max(0, (total - SAMPLE_RECORDS) // 2), SAMPLE_RECORDS
    )
    seen = part.filter(pl.all_horizontal(ports)).collect()
    return _ranks(seen)


def split_by_port(scan: pl.LazyFrame, ranks: pl.DataFrame) -> pl.LazyFrame:
    """The records with ``src`` and ``dst`` named ``address:port`` where ``ranks`` share an address. O(records) only
    where there are any.
    """
    if ranks.is_empty():
        return scan
    for side in ("src", "dst"):
        own = ranks.lazy().select(
            pl.col("ip").alias(side), pl.col("port").alias(f"{side}_port"), pl.col("name").alias("_name")
        )
        scan = scan.join(own, on=[side, f"{side}_port"], how="left", maintain_order="left")
        scan = scan.with_columns(pl.coalesce("_name", side).alias(side)).drop("_name")
    return scan


def _ranks(seen: pl.DataFrame) -> pl.DataFrame:
    """One row a rank (ip, port, name); empty if no port belongs to a rank."""
    empty = pl.DataFrame(schema={"ip": pl.String, "port": pl.Int32, "name": pl.String})
    if seen.is_empty():
        return empty
    forth = seen.select(ip="src", port="src_port", other=pl.struct(ip="dst", port="dst_port"), sends=pl.lit(value=True))
    back = seen.select(ip="dst", port="dst_port", other=pl.struct(ip="src", port="src_port"), sends=pl.lit(value=False))
    each = (
        pl.concat([forth, back])
        .group_by("ip", "port")
        .agg(
            records=pl.len(),
            others=pl.col("other").n_unique(),
            sends=pl.col("sends").any(),
            hears=(~pl.col("sends")).any(),
        )
    )
    own = each.filter(pl.col("sends") & pl.col("hears") & (pl.col("port") != _ROCE))
    everywhere = pl.col("ip").n_unique().over("port") >= max(2, own["ip"].n_unique() // 2)
    own = own.with_columns(usual=(pl.col("others") >= 2) | everywhere)
    per = own.group_by("ip").agg(ranks=pl.len(), several=pl.col("usual").mean(), of=pl.col("records").sum())
    whole = each.group_by("ip").agg(pl.col("records").sum())
    shared = per.join(whole, on="ip").filter(
        pl.col("ranks").is_between(2, MAX_RANKS)
        & (pl.col("several") >= 0.5)
        & (pl.col("of") >= 0.8 * pl.col("records"))
    )
    # One unusual server does not prove shared addresses.
    if int(shared["records"].sum()) < int(whole["records"].sum()) / 2:
        return empty
    kept = own.join(shared.select("ip"), on="ip").select("ip", "port").sort("ip", "port")
    names = [endpoint(ip, port) for ip, port in kept.iter_rows()]
    return kept.with_columns(pl.Series("name", names, dtype=pl.String))

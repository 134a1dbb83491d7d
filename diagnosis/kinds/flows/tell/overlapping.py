"""Two views of one traffic: a short packet capture beside the flow records of the same time.

Packets are exact for seconds, records cover the job. Together each transfer would count twice, in other pieces, and a
step in that time would end elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from diagnosis import thresholds
from diagnosis.model import Parsed

THRESHOLDS: Final = thresholds.of("tell")
_PACKET_FORMATS: Final = ("pcap", "pcapng")


def drop_double_views(parsed: Sequence[Parsed]) -> tuple[list[Parsed], list[str]]:
    """The artifacts without packet captures whose pairs and time flow records show as well, and a note for each of
    these. O(records) where both exist.
    """
    packets = [p for p in parsed if _records_of(p).get("format") in _PACKET_FORMATS]
    records = [p for p in parsed if p not in packets and "t0" in _records_of(p)]
    spans = [(float(_records_of(p)["t0"]), float(_records_of(p)["t1"])) for p in records]
    kept, notes = list(parsed), []
    for part in packets if records else ():
        own = _records_of(part)
        begin, end = float(own.get("t0", 0.0)), float(own.get("t1", 0.0))
        if min(a for a, _ in spans) <= begin and end <= max(b for _, b in spans) and _are_known(part, records):
            kept.remove(part)
            notes.append(f"{part.path}: the flow records show the traffic of these packets as well; left out.")
    return kept, notes


def _records_of(part: Parsed) -> dict[str, Any]:
    return dict(part.facts.get("flow") or {}) if part.columns is not None else {}


def _are_known(part: Parsed, records: Sequence[Parsed]) -> bool:
    """Whether the records have the pairs of the packets at their time."""
    packets = pl.scan_parquet(str(part.columns))
    first, last = packets.select(pl.col("start").min(), pl.col("end").max()).collect().row(0)
    pairs = packets.select("src", "dst").unique().collect()
    others = pl.concat([pl.scan_parquet(str(p.columns)).select("src", "dst", "start", "end") for p in records])
    meanwhile = others.filter((pl.col("start") <= last) & (pl.col("end") >= first)).select("src", "dst").unique()
    common = pairs.join(meanwhile.collect(), on=["src", "dst"], how="semi").height
    return bool(common >= THRESHOLDS.common_pairs * pairs.height)

"""The records of one flow capture as the analysis reads them: a page of rows, and facts about the capture."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from diagnosis.kinds.flows.read.flow_records import PROTOCOLS
from ingest import selectors as evidence
from ingest.models import Artifact
from triage.wording import duration

PAGE_SIZE = 200
_GRIDS = {1.0: "a second", 1e-3: "a millisecond", 1e-6: "a microsecond", 1e-9: "a nanosecond"}
_NAMES = {number: name for name, number in reversed(PROTOCOLS.items())}
#: a capture whose clock starts at zero has no time of day
_FIRST_DATED = 10**17


@dataclass(frozen=True, slots=True)
class Record:
    """``sent`` bytes from ``src`` to ``dst``, each with its port; ``at`` is None if the clock starts at zero."""

    no: int
    at: datetime | None
    since_s: float
    lasted_s: float
    src: str
    dst: str
    proto: str
    sent: int | None
    packets: int | None
    path: str

    @property
    def lasted(self) -> str:
        """Bursts may last less than a millisecond: three digits in any unit."""
        return duration(self.lasted_s) if self.lasted_s >= 1 else f"{self.lasted_s * 1e3:.3g} ms"


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records of a capture; ``facts`` are those of the whole capture (``Parsed.facts``)."""

    rows: list[Record]
    facts: dict[str, Any]
    total: int
    matching: int
    page: int

    @property
    def has_next(self) -> bool:
        return self.page * PAGE_SIZE < self.matching

    @property
    def span_s(self) -> float:
        return float(self.facts["t1"]) - float(self.facts["t0"])

    @property
    def resolution(self) -> str:
        """The resolution of the times."""
        seconds = float(self.facts.get("resolution_s") or 0)
        return _GRIDS.get(seconds) or (f"{seconds * 1e3:g} milliseconds" if seconds else "")

    @property
    def has_paths(self) -> bool:
        return any(row.path for row in self.rows)

    @property
    def has_packets(self) -> bool:
        return any(row.packets is not None for row in self.rows)


def records_page(artifact: Artifact, *, who: str = "", page: int = 1) -> RecordPage | None:
    """Page ``page`` (from 1) in the order of the file; with ``who`` only records with that text in an end or path.

    None without records. Cost: the page; with ``who`` one pass over three columns.
    """
    table = evidence.records_path(artifact)
    if table is None:
        return None
    scan = pl.scan_parquet(table).with_row_index("no", offset=1)
    total = int(pl.scan_parquet(table).select(pl.len()).collect().item())
    if not total:
        return None
    first = int(pl.scan_parquet(table).select(pl.col("start").min()).collect().item())
    if who:
        scan = scan.filter(
            pl.any_horizontal(
                pl.col(name).str.to_lowercase().str.contains(who.lower(), literal=True).fill_null(False)
                for name in ("src", "dst", "path")
            )
        )
    matching = int(scan.select(pl.len()).collect().item()) if who else total
    page = max(1, min(page, -(-matching // PAGE_SIZE)))
    rows_of_page = scan.slice((page - 1) * PAGE_SIZE, PAGE_SIZE).collect()
    rows = [_record(row, first) for row in rows_of_page.to_dicts()]
    return RecordPage(rows, _facts(artifact), total, matching, page)


def _record(row: dict[str, Any], first: int) -> Record:
    start = int(row["start"])
    return Record(
        no=row["no"],
        at=datetime.fromtimestamp(start / 1e9, UTC) if start >= _FIRST_DATED else None,
        since_s=(start - first) / 1e9,
        lasted_s=(row["end"] - start) / 1e9,
        src=_endpoint(row["src"], row["src_port"]),
        dst=_endpoint(row["dst"], row["dst_port"]),
        proto=_NAMES.get(row["proto"], "" if row["proto"] is None else str(row["proto"])),
        sent=row["bytes"],
        packets=row["packets"],
        path=(row["path"] or "").replace(";", " → "),
    )


def _endpoint(address: str, port: int | None) -> str:
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _facts(artifact: Artifact) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = evidence.parsed_of(artifact).facts.get("flow") or {}
    except (OSError, ValueError):
        return {}
    return facts

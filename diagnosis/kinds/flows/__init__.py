"""Analysis of network flows: jobs, parallel groups, steps and slowness from flow records alone (after LLMPrism,
2505.00342).

``sniff`` and ``parse_flow`` read an artifact; ``diagnose_flows`` reads all flow artifacts of a job; ``timeline_view``
gives the data of a page. The libraries behind them are loaded at the first call, so that importing this package costs
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from diagnosis.inventory import Machine
from diagnosis.kinds.evidence_kind import HEAD_BYTES, EvidenceKind, Format, read_stream
from diagnosis.kinds.flows.jobs.stated import StatedLayout
from diagnosis.model import Kind, OnStage, Parsed, ParseHints, Runner, ignore_progress

if TYPE_CHECKING:
    from diagnosis.kinds.flows.tell.report_rows import FlowReport

__all__ = ["KIND", "diagnose_flows", "parse_flow", "sniff", "timeline_view"]


def sniff(head: bytes, path: str) -> str | None:
    """The flow format that ``head`` (the first kilobytes of an artifact) begins, or None; never raises."""
    from diagnosis.kinds.flows.read import readers  # noqa: PLC0415  # heavy: polars, SciPy

    return readers.sniff(head, path)


def parse_flow(stream: BinaryIO, path: str, hints: ParseHints, work: Path) -> Parsed:
    """One artifact to normalised records and facts; see ``flow_parsing.parse_flow``."""
    from diagnosis.kinds.flows.read import flow_parsing  # noqa: PLC0415  # heavy: polars, SciPy

    return flow_parsing.parse_flow(stream, path, hints, work)


def diagnose_flows(
    parsed: Sequence[Parsed],
    *,
    inventory: Sequence[Machine] = (),
    stated: Sequence[StatedLayout] = (),
    on_stage: OnStage = ignore_progress,
    tables: Path | None = None,
    scratch: Path | None = None,
    runner: Runner | None = None,
    without: frozenset[str] = frozenset(),
) -> FlowReport:
    """The report's ``flows`` object plus ``suspects``; see ``engine.diagnose_flows``."""
    from diagnosis.kinds.flows.tell import engine  # noqa: PLC0415  # heavy: polars, SciPy

    return engine.diagnose_flows(
        parsed,
        inventory=inventory,
        stated=stated,
        on_stage=on_stage,
        tables=tables,
        scratch=scratch,
        runner=runner,
        without=without,
    )


def timeline_view(table: Path, t0: float, t1: float, width: int = 400) -> dict[str, Any]:
    """The data of a page from one job's table; see ``rank_lanes.timeline_view``."""
    from diagnosis.kinds.flows.steps import rank_lanes  # noqa: PLC0415  # heavy: polars, SciPy

    return rank_lanes.timeline_view(table, t0, t1, width)


def recognise(head: bytes, path: str) -> str | None:
    """``Kind.FLOW`` for flow records."""
    return Kind.FLOW if sniff(head[:HEAD_BYTES], path) else None


def list_formats() -> list[Format]:
    """The formats of flows."""
    timeline = "jobs, parallel groups, steps, who is slow"
    return [
        Format(
            "flow records as CSV or JSON lines (nfdump, Zeek, goflow2, own)", timeline, "ts,src,dst,bytes,duration_us"
        ),
        Format("flow records as Parquet", timeline),
        Format("packet capture (pcap, pcapng)", timeline),
        Format("flow logs of clouds (VPC, NSG, Google)", timeline),
    ]


KIND = EvidenceKind((Kind.FLOW,), "network flows", recognise, read_stream(parse_flow), formats=list_formats)

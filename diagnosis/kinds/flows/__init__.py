"""Analysis of network flows: jobs, parallel groups, steps and slowness from flow records alone (after LLMPrism,
2505.00342).

``sniff`` and ``parse_flow`` read an artifact, ``tell.engine`` compares all of a job, ``steps.rank_lanes`` gives the
data of a page. The libraries behind them are loaded at the first call, so that importing this package costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from diagnosis.kinds.evidence_kind import HEAD_BYTES, EvidenceKind, Format, read_stream
from diagnosis.model import Kind, Parsed, ParseHints

if TYPE_CHECKING:
    from diagnosis.evidence import Result

__all__ = ["KIND", "parse_flow", "sniff"]


def sniff(head: bytes, path: str) -> str | None:
    """The flow format that ``head`` (the first kilobytes of an artifact) begins, or None; never raises."""
    from diagnosis.kinds.flows.read import readers  # noqa: PLC0415  # heavy: polars, SciPy

    return readers.sniff(head, path)


def parse_flow(stream: BinaryIO, path: str, hints: ParseHints, work: Path) -> Parsed:
    """One artifact to normalised records and facts; see ``flow_parsing.parse_flow``."""
    from diagnosis.kinds.flows.read import flow_parsing  # noqa: PLC0415  # heavy: polars, SciPy

    return flow_parsing.parse_flow(stream, path, hints, work)


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
        Format("flow logs of clouds (VPC, NSG, Google)", f"{timeline}; traffic that a firewall refuses"),
    ]


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    """What a firewall refused; see ``refused_traffic.results``."""
    if not any("refused" in one.facts.get("flow", {}) for one in parsed):
        return []
    from diagnosis.kinds.flows.read import refused_traffic  # noqa: PLC0415  # heavy: polars

    return list(refused_traffic.results(parsed))


KIND = EvidenceKind(
    ids=(Kind.FLOW,),
    name="network flows",
    recognise=recognise,
    parse=read_stream(parse_flow),
    analyse=analyse,
    formats=list_formats,
)

"""Descriptions of jobs and machines: inventories and layouts, which are facts about where ranks run."""

from __future__ import annotations

from diagnosis.kinds.descriptions.description_reading import parse, recognise
from diagnosis.kinds.evidence_kind import EvidenceKind, Format
from diagnosis.model import Kind


def list_formats() -> list[Format]:
    """The formats of descriptions."""
    return [
        Format("job.json, inventory as JSON or CSV", "which ranks run on which nodes", "ip,node,gpu,leaf"),
        Format("layout.json", "the parallel groups of each rank", '{"tp": 2, "pp": 2, "dp": 2, "ranks": {}}'),
    ]


KIND = EvidenceKind((Kind.INVENTORY, Kind.LAYOUT), "description of the job", recognise, parse, formats=list_formats)

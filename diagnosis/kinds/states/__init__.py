"""State reports: what a tool says of a machine's parts at one moment (nvidia-smi, ibstat, sinfo, exporters).

A state report is not a log. It is read as facts (place, property, value), and each value is judged by the table of
faults (``bad_values.toml``). Rules for log lines never see it, so "Thermal slowdown: Not Active" accuses nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from diagnosis.kinds.evidence_kind import EvidenceKind, Format, read_whole
from diagnosis.kinds.states.formats import load
from diagnosis.kinds.states.report_sections import MAX_BYTES, facts_of, homes_of_pods, measures_of, parse, sniff
from diagnosis.model import Kind, Parsed

if TYPE_CHECKING:
    from diagnosis.evidence import Result

__all__ = ["KIND", "homes_of_pods", "parse", "sniff"]


def recognise(head: bytes, path: str) -> str | None:
    """``Kind.STATE`` for reports of machines."""
    return Kind.STATE if sniff(head, path) else None


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    """The bad values of all reports; see ``judgement.analyse``."""
    from diagnosis.kinds.states import judgement  # noqa: PLC0415  # heavy: the rules for messages

    return judgement.analyse(parsed)


def list_formats() -> list[Format]:
    """The formats of reports, one a tool."""
    return [Format(one.title, one.concludes, one.example) for one in load()]


KIND = EvidenceKind(
    ids=(Kind.STATE,),
    name="report of a machine",
    recognise=recognise,
    parse=read_whole(parse, MAX_BYTES),
    analyse=analyse,
    facts=facts_of,
    measures=measures_of,
    formats=list_formats,
)

"""State reports: what a tool says of a machine's parts at one moment (nvidia-smi, ibstat, sinfo,
exporters).

A state report is not a log. It is read as facts (place, property, value), and each value is judged
by the table of faults (``bad_values.toml``). Rules for log lines never see it, so "Thermal
slowdown: Not Active" accuses nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec.structs import replace

from diagnosis.kinds import logs
from diagnosis.kinds.evidence_kind import HEAD_BYTES, EvidenceFile, EvidenceKind, Format, guarded, read_whole
from diagnosis.kinds.states.formats import load, load_layouts
from diagnosis.kinds.states.layout_reading import read_decided, read_layouts
from diagnosis.kinds.states.report_sections import (
    MAX_BYTES,
    facts_of,
    log_of,
    machine_of_path,
    measures_of,
    nodes_of_pods,
    parse,
    sniff,
)
from diagnosis.model import LOG_KINDS, Kind, Parsed
from diagnosis.processing.checked_stream import CheckedStream

if TYPE_CHECKING:
    from diagnosis.evidence import Result

__all__ = [
    "KIND",
    "machine_of_path",
    "nodes_of_pods",
    "parse",
    "read_decided",
    "read_layouts",
    "sniff",
]


def recognise(head: bytes, path: str) -> str | None:
    """``Kind.STATE`` for reports of machines."""
    return Kind.STATE if sniff(head, path) else None


def holds_reports(parsed: Parsed) -> bool:
    """Whether a log has reports between its lines."""
    return parsed.kind in LOG_KINDS and bool(parsed.facts.get("formats"))


def _read(file: EvidenceFile) -> Parsed:
    """The facts of a file. Where lines of a log stand between its reports, it is a log, whose
    reports are blank to the rules for messages.
    """
    data = file.stream.read_up_to(MAX_BYTES)
    lines = log_of(data)
    if not lines:
        rest = replace(file, stream=CheckedStream(data, cast("BinaryIO", file.stream)))
        return read_whole(parse, MAX_BYTES)(rest)
    reports = parse(data, file.path)
    inner = replace(
        file, stream=CheckedStream(lines, cast("BinaryIO", file.stream)), head=lines[:HEAD_BYTES], kind=Kind.LOG
    )
    log = logs.parse(inner)
    file.stream.drain()
    return replace(
        log,
        sha256=file.stream.sha256,
        bytes=file.stream.passed,
        notes=(*log.notes, *reports.notes),
        facts={**log.facts, **reports.facts},
    )


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    """The bad values of all reports; see ``judgement.analyse``."""
    from diagnosis.kinds.states import judgement  # noqa: PLC0415  # heavy: the rules for messages

    return judgement.analyse(parsed)


def list_formats() -> list[Format]:
    """The formats of reports, one a tool, and the layouts of others."""
    return [Format(one.title, one.concludes, one.example) for one in (*load(), *load_layouts())]


KIND = EvidenceKind(
    ids=(Kind.STATE,),
    name="report of a machine",
    recognise=recognise,
    parse=guarded(_read),
    analyse=analyse,
    facts=facts_of,
    measures=measures_of,
    formats=list_formats,
)

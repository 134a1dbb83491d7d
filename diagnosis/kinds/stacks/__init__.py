"""Stack evidence: what each rank was doing when the job hung (ByteRobust, arXiv 2509.16293, sections 4 and 5).

:func:`sniff` and :func:`parse_stack` read one artifact, :func:`diagnose_stacks` compares all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from diagnosis.evidence import StackFinding, decode
from diagnosis.evidence.decoding import ReportPart
from diagnosis.kinds.evidence_kind import EvidenceKind, Format, read_stream
from diagnosis.kinds.stacks.read.dump_reading import parse_stack, sniff
from diagnosis.kinds.stacks.recorded import ras
from diagnosis.model import Kind, Parsed

if TYPE_CHECKING:
    from diagnosis.kinds.stacks.blame.stack_report import StackReport
    from diagnosis.kinds.stacks.ranks.layout import Layout

__all__ = ["KIND", "diagnose_stacks", "find_layout", "finding_of", "parse_stack", "sniff"]


def diagnose_stacks(parsed: Iterable[Parsed], **options: Any) -> StackReport | None:
    """Compares all stack artifacts of a job; see ``diagnose.diagnose_stacks``."""
    from diagnosis.kinds.stacks.blame import diagnose  # noqa: PLC0415  # heavy: a tenth of the start, and few jobs have stacks

    return diagnose.diagnose_stacks(parsed, **options)


def finding_of(report: ReportPart) -> StackFinding:
    """What other evidence is joined with, of the report of :func:`diagnose_stacks`, or its JSON."""
    if report is None:
        return StackFinding()
    from diagnosis.kinds.stacks.blame import stack_cause  # noqa: PLC0415  # heavy, see above

    found = decode(report, StackFinding)
    category, p = stack_cause.cause(found)
    return msgspec.structs.replace(found, category=category, category_p=p)


def find_layout(parsed: Iterable[Parsed], *given: Any) -> Layout:
    """The layout that a job states, in logs too; see ``dump_sources.find_layout``."""
    from diagnosis.kinds.stacks.ranks import dump_sources  # noqa: PLC0415  # heavy, see above

    return dump_sources.find_layout(list(parsed), *given)


def recognise(head: bytes, path: str) -> str | None:
    """``Kind.STACK`` for stack dumps."""
    return Kind.STACK if sniff(head, path) and not ras.is_aside(head) else None


def list_formats() -> list[Format]:
    """The formats of stacks."""
    waits = "who waits, and for whom"
    return [
        Format("py-spy dump, text or JSON", waits, "Process 41: python train.py"),
        Format("pystack", waits, "Traceback for thread 41 (python) [Has the GIL] (most recent call last):"),
        Format("faulthandler", waits, "Thread 0x00007f (most recent call first):"),
        Format("gdb", waits, "#0  0x00007f in ncclAllReduce () from libnccl.so"),
        Format(
            "Flight Recorder, pickle or JSON", "which rank lacks which collective", '{"version": "2.4", "entries": []}'
        ),
        Format(
            "torchfrtrace",
            "which rank did not join which collective",
            "Not all ranks joining collective: sequence number: 8",
        ),
        Format("NCCL RAS, text or JSON", "ranks that are behind or do not answer", ""),
    ]


KIND = EvidenceKind((Kind.STACK,), "stack dumps", recognise, read_stream(parse_stack), formats=list_formats)

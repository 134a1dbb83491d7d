"""Diagnosis from logs: reading, templates, comparisons across jobs, nodes and time (L4, LoFI).

The rooms of this package import from left to right only: decide, compare, causes, pace, meaning, rows, read.
"""

from __future__ import annotations

from diagnosis.kinds.evidence_kind import EvidenceFile, EvidenceKind, Format
from diagnosis.kinds.logs.log_signs import recognise
from diagnosis.model import LOG_KINDS, Parsed


def parse(file: EvidenceFile) -> Parsed:
    """The lines of a log as columns; see ``log_parsing.parse_log``."""
    from diagnosis.kinds.logs.log_parsing import parse_log  # noqa: PLC0415  # heavy: polars

    return parse_log(file)


def list_formats() -> list[Format]:
    """The formats of logs."""
    return [
        Format(
            "log of a training job, any style", "what failed, where, when", "2026-03-01 08:00:01 [rank3] step 7 loss 2"
        ),
        Format("kernel log (dmesg, journal)", "faults of the machine", "[Sun Mar  1 08:00:00 2026] NVRM: Xid 79"),
        Format("output of schedulers (Slurm, Kubernetes)", "who ended the job", "srun: error: n1: task 3: Killed"),
    ]


KIND = EvidenceKind(LOG_KINDS, "log", recognise, parse, formats=list_formats)

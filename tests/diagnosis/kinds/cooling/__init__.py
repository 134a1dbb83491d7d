"""A kind of evidence that only tests have: counters of a cooling unit as CSV. It shows what a new kind needs."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from diagnosis.evidence import Check, Outcome, Result
from diagnosis.kinds.evidence_kind import EvidenceKind, Format, read_whole
from diagnosis.model import Parsed

HEADER = "unit,node,pump_rpm,leak"
_FAULT = Outcome("leak", "leaks coolant", 20.0, adds="hardware.gpu.thermal", categories={"hardware.gpu.thermal": 20.0})
_CHECK = Check("cooling", "Cooling unit", "", "", 0.0, "node", (), (), (_FAULT,))


def recognise(head: bytes, path: str) -> str | None:
    return "cooling" if head.startswith(HEADER.encode()) else None


def parse(data: bytes, path: str) -> Parsed:
    rows = list(csv.DictReader(data.decode("utf-8", "replace").splitlines()))
    return Parsed(path, "cooling", lines=len(rows) + 1, facts={"rows": rows})


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    found = []
    for one in parsed:
        for number, row in enumerate(one.facts["rows"], start=2):
            if row["leak"] == "1":
                found.append(Result(_CHECK, _FAULT, one.path, number, f"leak: {row['leak']}", row["node"]))
    return found


def list_formats() -> list[Format]:
    return [Format("counters of a cooling unit", "units that leak", HEADER)]


KIND = EvidenceKind(("cooling",), "cooling unit", recognise, read_whole(parse, 1 << 20), analyse, list_formats)

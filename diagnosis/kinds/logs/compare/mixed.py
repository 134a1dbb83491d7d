"""Two jobs in one directory, recognised by scheduler ids."""

from __future__ import annotations

import re
from typing import Final

from diagnosis.kinds.logs.causes.case import Case

_ID: Final = re.compile(
    r"(?i)(?:\bSTEP (\d{3,})\.|\bJOB (\d{3,}) ON\b|\bsrun: job (\d{3,})\b|\bJobId=(\d{3,})\b|pytorchjob/([\w-]+)\b"
    r"|\brun_id\s*[:=]\s*([\w.-]+))"
)


def mixed_jobs_sentences(case: Case) -> list[str]:
    """The evidence for more than one job, in sentences; empty for one."""
    naming = case.table.messages.filter(case.table.says(_ID.pattern))
    ids = scheduler_ids(naming["example"].to_list())
    if len(ids) < 2:
        return []
    shown = ", ".join(sorted(ids)[:4])
    return [f"The logs name {len(ids)} jobs ({shown}): upload each job by itself, or name them as attempts."]


def scheduler_ids(lines: list[str]) -> set[str]:
    """Ids that a scheduler or a launcher gives to jobs, of one kind: the kind with most ids."""
    kinds: dict[int, set[str]] = {}
    for line in lines:
        for match in _ID.finditer(line):
            kind = match.lastindex or 0
            kinds.setdefault(kind, set()).add(match.group(kind))
    return max(kinds.values(), key=len, default=set())

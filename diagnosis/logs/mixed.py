"""Two jobs in one directory, recognised by scheduler ids and by counters that run at the same time with different
values.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.logs.case import Case

THRESHOLDS: Final = thresholds.of("mixed")

_ID: Final = re.compile(
    r"(?i)(?:\bSTEP (\d{3,})\.|\bJOB (\d{3,}) ON\b|\bsrun: job (\d{3,})\b|\bJobId=(\d{3,})\b|pytorchjob/([\w-]+)\b"
    r"|\brun_id\s*[:=]\s*([\w.-]+))"
)


def mixed_jobs_sentences(case: Case) -> list[str]:
    """The evidence for more than one job, in sentences; empty for one."""
    out = []
    examples = case.table.messages["example"]
    ids = scheduler_ids(examples.filter(examples.str.contains(_ID.pattern)).to_list())
    if len(ids) > 1:
        shown = ", ".join(sorted(ids)[:4])
        out.append(f"The logs name {len(ids)} jobs ({shown}): upload each job by itself, or name them as attempts.")
    files = counters_apart(case.clocks.correct(case.progress.beats, "at"))
    if files:
        names = ", ".join(case.table.files[f] for f in files[:2])
        out.append(
            f"Two counters run side by side at different heights ({names}): this looks like two jobs in one directory."
        )
    return out


def scheduler_ids(lines: list[str]) -> set[str]:
    """Ids that a scheduler or a launcher gives to jobs, of one kind: the kind with most ids."""
    kinds: dict[int, set[str]] = {}
    for line in lines:
        for match in _ID.finditer(line):
            kind = match.lastindex or 0
            kinds.setdefault(kind, set()).add(match.group(kind))
    return max(kinds.values(), key=len, default=set())


def counters_apart(beats: pl.DataFrame) -> list[int]:
    """Two files whose counters differ widely while both run; empty if all agree. O(beats)."""
    known = beats.drop_nulls("at").sort("file", "at")
    spans = (
        known.group_by("file", maintain_order=True)
        .agg(beats=pl.len(), low=pl.col("at").min(), high=pl.col("at").max(), step=pl.col("n").diff().median())
        .filter(pl.col("beats") >= THRESHOLDS.beats)
    )
    if spans.height < 2:
        return []
    first = spans.row(0, named=True)
    one = known.filter(pl.col("file") == first["file"]).select("at", "n")
    for other in spans.iter_rows(named=True):
        if other["file"] == first["file"] or other["low"] > first["high"] or other["high"] < first["low"]:
            continue
        two = known.filter(pl.col("file") == other["file"]).select("at", m="n")
        both = one.join_asof(two.sort("at"), on="at").drop_nulls("m").filter(pl.col("at") <= other["high"])
        limit = THRESHOLDS.apart * max(first["step"] or 1, other["step"] or 1, 1)
        if (
            both.height >= THRESHOLDS.beats
            and both.select(((pl.col("n") - pl.col("m")).abs() > limit).mean()).item() > 0.8
        ):
            return [int(first["file"]), int(other["file"])]
    return []

"""One moment in all logs of an attempt: the lines of every node around it, in time order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import polars as pl

from diagnosis import Source
from diagnosis.kinds.logs.rows import stored_rows
from ingest import selectors as evidence
from ingest.models import Artifact, Attempt
from triage.models import Diagnosis, Suspect
from triage.selectors.logs import COLUMNS, Filter, LogLine, lines_of, paths_of, sources_of, writer_name

#: lines of one writer, nearest first: few among many writers, more for a requested one
MAX_LINES_A_WRITER = 4
MAX_LINES_OF_FILTER = 60
#: maximum number of lines, nearest first
MAX_LINES = 600
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class InstantLine:
    """A line with its position; ``after_s``: seconds after the moment, on the job's common clock."""

    artifact: Artifact
    line: LogLine
    at: datetime
    after_s: float
    is_suspect: bool


@dataclass(frozen=True, slots=True)
class Instant:
    """The lines of all logs; ``logs`` had lines in range, ``lost`` of them have no bytes any more."""

    lines: list[InstantLine]
    logs: int
    left_out: int
    lost: list[str]
    nodes: list[str]
    #: nodes and files whose clock was corrected
    clocks: list[str] = field(default_factory=list)


class AttemptFacts:
    """What all files of an attempt share: clock offsets and the scheme of paths. Computed once, on demand."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    @cached_property
    def skews(self) -> dict[str, int]:
        """What to subtract from times, in ns, by node or by path, from the latest diagnosis."""
        diagnoses = Diagnosis.objects.filter(attempt=self.attempt)
        clocks: Any = diagnoses.values_list("report__clocks", flat=True).first()
        return {
            str(row.get("node") or row.get("file")): int(float(row["skew_s"]) * _NS)
            for row in clocks or []
            if row.get("skew_s")
        }

    @cached_property
    def paths(self) -> list[str]:
        return paths_of(self.attempt.pk)

    def sources(self, artifact: Artifact) -> tuple[Source, ...]:
        return sources_of(artifact, self.paths)


def same_instant(
    artifacts: Sequence[Artifact],
    common: AttemptFacts,
    moment: datetime,
    *,
    within_s: float = 2.0,
    only: Filter | None = None,
) -> Instant:
    """Lines within ``within_s`` seconds of ``moment``, merged by time; lines of suspects first at equal times.

    The EACH nearest lines of each writer, EACH_ASKED if ``only`` names a node. Three queries; cost grows with the
    number of logs and of lines in range. Clock offsets from the diagnosis are corrected.
    """
    only = only or Filter()
    skews = common.skews
    suspects = _suspects(common.attempt)
    centre, reach = int(moment.timestamp() * _NS), int(within_s * _NS)
    frames: list[pl.DataFrame] = []
    nodes: set[str] = set()
    logs = 0
    for index, artifact in enumerate(artifacts):
        written = evidence.lines_of(artifact)
        if written is None:
            continue
        sources = common.sources(artifact)
        names = [writer_name(source) for source in sources]
        shifts = [skews.get(source.node or "", 0) + skews.get(artifact.path, 0) for source in sources]
        rows = stored_rows.scan(written)
        if any(shifts):
            moved = pl.col("source").replace_strict(dict(enumerate(shifts)), default=0, return_dtype=pl.Int64)
            at = pl.col("time") - moved
            # the column file has only the stated times: read a wider range, then filter
            low, high = min(shifts), max(shifts)
            rows = rows.filter(pl.col("time").is_between(centre - reach + low, centre + reach + high))
        else:
            at = pl.col("time")
        rows = rows.with_columns(at=at).filter(pl.col("at").is_between(centre - reach, centre + reach))
        in_range = rows.select([*COLUMNS, "at"]).collect()
        if not len(in_range):
            continue
        logs += 1
        nodes |= {names[n] for n in in_range["source"].unique() if n < len(names) and names[n]}
        if only.level:
            in_range = in_range.filter(pl.col("level") >= only.level)
        if only.who:
            ids = [n for n, name in enumerate(names) if only.who.lower() in name.lower()]
            in_range = in_range.filter(pl.col("source").is_in(ids))
        accused = [n for n, source in enumerate(sources) if _is_suspect(source, suspects)]
        distance = (pl.col("at") - centre).abs()
        max_lines = MAX_LINES_OF_FILTER if only.who else MAX_LINES_A_WRITER
        frames.append(
            in_range.filter(distance.rank("ordinal").over("source") <= max_lines).with_columns(
                artifact=pl.lit(index), is_suspect=pl.col("source").is_in(accused)
            )
        )
    if not frames:
        return Instant([], logs, 0, [], sorted(nodes))
    merged = pl.concat(frames)
    total = len(merged)
    merged = merged.sort((pl.col("at") - centre).abs(), maintain_order=True).head(MAX_LINES)
    lines, lost = _read_lines(artifacts, merged, centre, common)
    return Instant(lines, logs, total - len(merged), lost, sorted(nodes), sorted(skews))


def moment_of(artifact: Artifact, line: int, common: AttemptFacts) -> datetime | None:
    """When a line was written, on the job's common clock; None if it has no time."""
    lines = evidence.lines_of(artifact)
    if lines is None or line < 1:
        return None
    row = stored_rows.scan(lines.part(line - 1, 1)).select("time", "source").collect().to_dicts()
    if not row or row[0]["time"] is None:
        return None
    sources, skews = common.sources(artifact), common.skews
    node = sources[row[0]["source"]].node if row[0]["source"] < len(sources) else None
    time = row[0]["time"] - skews.get(node or "", 0) - skews.get(artifact.path, 0)
    return datetime.fromtimestamp(time / _NS, UTC)


def _read_lines(
    artifacts: Sequence[Artifact], merged: pl.DataFrame, centre: int, common: AttemptFacts
) -> tuple[list[InstantLine], list[str]]:
    lines: list[InstantLine] = []
    lost: list[str] = []
    for (index,), group in merged.partition_by("artifact", as_dict=True).items():
        artifact, rows = artifacts[int(index)], group.sort("line")
        try:
            read = lines_of(artifact, rows, common.sources(artifact))
        except FileNotFoundError:  # its bytes are lost: one log must not hide the others
            lost.append(artifact.path)
            continue
        for line, at, is_suspect in zip(read, rows["at"], rows["is_suspect"], strict=True):
            moment = datetime.fromtimestamp(at / _NS, UTC)
            lines.append(InstantLine(artifact, line, moment, (at - centre) / _NS, is_suspect))
    lines.sort(key=lambda row: (row.after_s, not row.is_suspect, row.artifact.path, row.line.no))
    return lines, lost


def _suspects(attempt: Attempt) -> set[str]:
    accused = Suspect.objects.filter(incident__attempt=attempt, is_accused=True).order_by()
    return set(accused.values_list("entity", flat=True))


def _is_suspect(source: Any, suspects: set[str]) -> bool:
    return source.node in suspects or f"rank {source.rank}" in suspects

"""The lines of an old job that are worth their space: what conclusions cite, rare messages, a
sample of the others.

Sampling by novelty (TraceMesh, FSE 2024, section 3: rare structures whole, frequent ones thinned
out). The choice is tried before anything is deleted: a diagnosis from the kept lines alone must
reach the same verdict, else more are kept.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Place, decode
from diagnosis.evidence.decoding import ReportPart
from diagnosis.files import kept_lines
from diagnosis.files.kept_lines import KEPT_SCHEMA
from diagnosis.files.parsing import parse
from diagnosis.kinds.logs.columns import physical
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.model import LOG_KINDS, Parsed, ParseHints, ReadRange, Source
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json

LIMITS: Final = thresholds.limits("keeping")
#: The first two bytes of UTF-16, whose lines do not end at a single byte.
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Plan(msgspec.Struct, frozen=True):
    """``writers``: of how many writers each message keeps a line; ``whole``: how many keep all lines, of those that
    are cited most and of those that wrote most.
    """

    writers: int
    whole: int


#: From the smallest to the largest: the first that leaves the verdict as it is.
PLANS: Final = tuple(Plan(writers, whole) for writers, whole in zip(LIMITS.writers, LIMITS.whole, strict=True))


def condense(
    parsed: Sequence[Parsed], *, read: ReadRange, hints: Mapping[str, ParseHints], out: Path, **options: Any
) -> dict[str, int] | None:
    """Write a table of kept lines (``KEPT_SCHEMA``) to ``out``; how many of each path. None if no choice of lines leads
    to the same verdict, or if it saves too little. ``options`` are those of :func:`diagnose`.

    Files that are not logs, and logs in UTF-16, are not part of it: the caller keeps them whole. Working files are
    beside ``out``. Cost: two diagnoses, one pass over the lines, and reading the chosen ones.
    """
    logs = [
        p for p in parsed if p.kind in LOG_KINDS and p.columns is not None and read(p.path, 0, 2) not in _UTF16_MARKS
    ]
    if not logs:
        return None
    others = [p for p in parsed if p not in logs]
    report = to_json(diagnose(parsed, read=read, **options))
    cited, wanted = cited_lines(report), verdict(report)
    for number, plan in enumerate(PLANS):
        kept = _texts(choose_rows([physical.of(p) for p in logs], cited, plan), read)
        parsed_kept, bytes_of = _parsed_again(kept, logs, hints, out.parent / f"tried-{number}")

        def from_kept(path: str, offset: int, length: int, kept: dict[str, bytes] = bytes_of) -> bytes:
            return kept[path][offset : offset + length] if path in kept else read(path, offset, length)

        if verdict(to_json(diagnose([*others, *parsed_kept], read=from_kept, **options))) == wanted:
            kept_lines.write(kept, out)
            if out.stat().st_size > LIMITS.worth * sum(p.bytes for p in logs):
                return None
            return {p.path: 0 for p in logs} | dict(kept["path"].value_counts().iter_rows())
    return None


class KeptMoment(msgspec.Struct, frozen=True):
    """Where in the job a failure began."""

    stage: str = ""
    iteration: int | None = None


class KeptConclusion(msgspec.Struct, frozen=True):
    """What a conclusion says: condition, category, where in the job, who is at fault."""

    condition: str = ""
    id: str = ""
    moment: KeptMoment = KeptMoment()
    fault: tuple[Place, ...] = ()


class KeptReport(msgspec.Struct, frozen=True):
    """What the kept lines must show as all lines do."""

    conclusion: KeptConclusion = KeptConclusion()


def verdict(report: ReportPart) -> KeptReport:
    """What a report says that the kept lines must show, too."""
    return decode(report, KeptReport)


def cited_lines(report: Any) -> set[tuple[str, int]]:
    """Path and number of every line that a report refers to."""
    if isinstance(report, list):
        return set(chain.from_iterable(map(cited_lines, report)))
    if not isinstance(report, dict):
        return set()
    own = {(report["file"], report["line"])} if {"file", "line"} <= report.keys() else set()
    refs = {ref for ref in own if isinstance(ref[0], str) and isinstance(ref[1], int)}
    return refs | set(chain.from_iterable(map(cited_lines, report.values())))


def choose_rows(logs: Sequence[Parsed], cited: set[tuple[str, int]], plan: Plan) -> pl.DataFrame:
    """The rows of the line tables that ``plan`` keeps, with ``path`` and ``who``: cited ones, all of rare messages, of
    each other one its first and last line of the job and one of ``plan.writers`` writers, and the first and last line
    of each file, with whole records.

    Deterministic. Memory: one row for each pair of writer and message, and the lines of one file.
    """
    cited_of: dict[str, set[int]] = {}
    for path, line in cited:
        cited_of.setdefault(path, set()).add(line)
    found = pl.concat(_occurrences(n, p, cited_of.get(p.path, set())) for n, p in enumerate(logs))
    order = pl.struct("masked", "file", "source").hash(seed=1)
    found = found.sort("file", "first").with_columns(
        total=pl.col("n").sum().over("masked"),
        turn=order.rank("ordinal").over("masked"),
        is_first=pl.int_range(pl.len()).over("masked") == 0,
        is_last=pl.struct("file", "last").rank("ordinal", descending=True).over("masked") == 1,
    )
    writers = found.group_by("file", "source", maintain_order=True).agg(pl.col("cited", "n").sum())
    telling = [writers.sort(name, descending=True, maintain_order=True).head(plan.whole) for name in ("cited", "n")]
    whole = pl.concat(telling).select("file", "source").unique()
    is_rare = pl.col("total") <= LIMITS.rare
    firsts = found.filter((pl.col("turn") <= plan.writers) | pl.col("is_first")).select("file", line="first")
    lasts = found.filter("is_last").select("file", line="last")
    rare = found.filter(is_rare).select("file", "source", "masked")
    ends = found.group_by("file").agg(first=pl.col("first").min(), last=pl.col("last").max())
    single = pl.concat([firsts, lasts, *(ends.select("file", line=name) for name in ("first", "last"))]).unique()
    return pl.concat(
        _rows_of(
            p,
            single.filter(pl.col("file") == n)["line"],
            cited_of.get(p.path, set()),
            set(rare.filter(pl.col("file") == n)["masked"]),
            set(whole.filter(pl.col("file") == n)["source"]),
        )
        for n, p in enumerate(logs)
    )


def _occurrences(number: int, p: Parsed, cited: set[int]) -> pl.DataFrame:
    """One row for each writer and message of a log: how many lines, the first, the last, how many are cited."""
    return (
        stored_rows.scan(stored_rows.lines_of(p))
        .group_by("masked", "source")
        .agg(
            n=pl.len(),
            first=pl.col("line").min(),
            last=pl.col("line").max(),
            cited=pl.col("line").is_in(sorted(cited)).sum(),
        )
        .select(pl.lit(number, pl.UInt32).alias("file"), "source", "masked", "n", "first", "last", "cited")
        .collect()
    )


def _rows_of(p: Parsed, single: pl.Series, cited: set[int], rare: set[int], whole: set[int]) -> pl.DataFrame:
    rows = stored_rows.scan(stored_rows.lines_of(p)).select(
        "line", "offset", "length", "record", "time", "source", "level", "masked"
    )
    is_kept = pl.col("line").is_in(single.implode()) | pl.col("line").is_in(sorted(cited))
    is_kept |= pl.col("masked").is_in(pl.Series(sorted(rare), dtype=pl.UInt64).implode())
    is_kept |= pl.col("source").is_in(pl.Series(sorted(whole), dtype=pl.UInt16).implode())
    records = rows.filter(is_kept).select("record").unique().collect()["record"]
    is_near = pl.col("line") < pl.col("record") + LIMITS.record
    found = rows.filter(is_kept | (pl.col("record").is_in(records.implode()) & is_near)).collect()
    names = pl.Series([_writer_name(source) for source in p.sources] or [""])
    known = pl.col("source").clip(upper_bound=len(names) - 1)
    return found.with_columns(
        path=pl.lit(p.path), who=pl.lit(names.implode()).list.get(known) if len(found) else pl.lit("")
    )


def _writer_name(source: Source) -> str:
    rank = f"rank {source.rank}" if source.rank is not None else ""
    return " ".join(part for part in (source.node or "", rank) if part)


def _texts(rows: pl.DataFrame, read: ReadRange) -> pl.DataFrame:
    """The rows with the bytes of their lines instead of positions. Near lines are read together."""
    texts: list[bytes] = []
    for path, begin, end, spans in _blocks(rows):
        block = read(path, begin, end - begin)
        texts += [block[offset - begin : offset - begin + length] for offset, length in spans]
    return rows.with_columns(text=pl.Series(texts, dtype=pl.Binary)).select(
        pl.col(name).cast(kind) for name, kind in KEPT_SCHEMA.items()
    )


def _blocks(rows: pl.DataFrame) -> Iterator[tuple[str, int, int, list[tuple[int, int]]]]:
    """Path, begin and end of ranges to read, and the lines (offset, length) in each."""
    block: tuple[str, int, int, list[tuple[int, int]]] | None = None
    for path, offset, length in rows.select("path", "offset", "length").iter_rows():
        end = offset + length
        if block and block[0] == path and offset - block[2] < LIMITS.gap_bytes and end - block[1] < LIMITS.block_bytes:
            block = (path, block[1], end, [*block[3], (offset, length)])
            continue
        if block:
            yield block
        block = (path, offset, end, [(offset, length)])
    if block:
        yield block


def _parsed_again(
    kept: pl.DataFrame, logs: Sequence[Parsed], hints: Mapping[str, ParseHints], folder: Path
) -> tuple[list[Parsed], dict[str, bytes]]:
    """The kept lines, parsed as files of their own, and the bytes of these files."""
    texts: dict[str, bytes] = {p.path: b"" for p in logs}
    for (path,), rows in kept.group_by("path", maintain_order=True):
        texts[str(path)] = b"\n".join(rows["text"]) + b"\n"
    found = []
    for number, p in enumerate(logs):
        hint = hints.get(p.path) or ParseHints(kind=p.kind)
        found.append(parse(io.BytesIO(texts[p.path]), p.path, hint, folder / str(number)))
    return found, texts

"""One log, read once: bytes → lines → header and masked message → ``columns.parquet`` and ``uniques.parquet``.

Every line is normalised by one linear-time pass; all that is thought about a line (header, level, masks) is thought about distinct
normalised lines only, and joined back. Time and writer are read from the raw lines by the pattern that was recognised. Blocks are
prepared side by side and absorbed in order. Cost: O(bytes) plus O(distinct lines).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from diagnosis.logs import headers, lines, mask, records
from diagnosis.logs.sources import Sources

#: Schema of ``uniques.parquet``: one row a distinct masked message.
UNIQUES: dict[str, pl.DataType] = {
    "masked": pl.UInt64(),
    "text": pl.String(),
    "count": pl.UInt64(),
    "level": pl.UInt8(),  # the worst
    "first_line": pl.UInt32(),
    "first_offset": pl.UInt64(),
    "example": pl.String(),  # the first line itself, at most EXAMPLE_CHARS
}
EXAMPLE_CHARS = 2_000
#: Masked messages longer than this are cut: beyond it lies data, not wording.
TEXT_CHARS = 1_200
#: The year of stamps that name none, until a year is known: a leap year.
NO_YEAR = 1972

#: Distinct normalised lines kept in memory; beyond it the table starts afresh (slower, same result).
_KNOWN_ROWS = 300_000
_WORKERS = 2
_KNOWN = {
    "key": pl.UInt64(),
    "masked": pl.UInt64(),
    "level": pl.UInt8(),
    "style": pl.UInt8(),
    "flags": pl.UInt8(),
    "coded": pl.Boolean(),
    "who": pl.UInt8(),
}


class _Masks:
    """Distinct normalised lines → what is known of them. Shared by the workers."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self._lock = threading.Lock()
        self._known = pl.DataFrame(schema=_KNOWN)
        self._normal: dict[int, str] = {}  # normalised messages that hold codes
        self._coded: dict[tuple[int, str], int] = {}

    def learn(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A table of ``_KNOWN`` that covers all of ``frame`` (key, normal)."""
        keys = frame.lazy().select("key", "normal").unique("key", keep="any").collect()
        with self._lock:
            fresh = keys.join(self._known, on="key", how="anti")
            if len(fresh) and len(self._known) + len(fresh) > _KNOWN_ROWS:
                self._known = self._known.clear()
                fresh = keys
            if len(fresh):
                self._known = pl.concat([self._known, self._analyse(fresh)]).rechunk()
            return self._known

    def _analyse(self, fresh: pl.DataFrame) -> pl.DataFrame:
        message = pl.col("message")
        seen = (
            fresh.lazy()
            .with_columns(**headers.split(pl.col("normal")))
            .with_columns(
                flags=records.flags(message, pl.col("style")),
                short=message.str.head(2 * TEXT_CHARS),
                coded=mask.has_code(message.str.head(2 * TEXT_CHARS)),
            )
            .collect()
        )
        plain = seen.filter(~pl.col("coded"))
        coded = seen.filter(pl.col("coded"))
        self._normal.update(zip(coded["key"], coded["short"], strict=True))
        table = pl.concat(
            [
                plain.with_columns(masked=self._ids(plain["short"])),
                coded.with_columns(masked=pl.lit(0, dtype=pl.UInt64)),
            ]
        )
        return table.select([pl.col(name).cast(kind) for name, kind in _KNOWN.items()])

    def _ids(self, normal: pl.Series) -> pl.Series:
        """Masked ids of normalised messages; remembers their texts."""
        masked = normal.to_frame("text").lazy().select(mask.mask(pl.col("text")).str.head(TEXT_CHARS)).collect()["text"]
        ids: dict[str, int] = {}
        for text in masked.unique().to_list():
            shown = text.translate(mask.FROM_PRIVATE)
            ids[text] = mask.identity(shown)
            self.texts[ids[text]] = shown
        table = pl.DataFrame({"text": list(ids), "id": list(ids.values())}, schema={"text": pl.String, "id": pl.UInt64})
        return masked.to_frame().join(table, on="text", how="left", maintain_order="left")["id"]

    def with_codes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Gives lines with numbers that are part of the message their own masked ids."""
        if not frame["coded"].any():
            return frame
        start = pl.col("text").str.head(4 * TEXT_CHARS)
        rows = frame.lazy().filter("coded").select("line", "key", codes=mask.codes(start)).collect()
        pairs = rows.select("key", "codes").unique()
        with self._lock:
            new = [pair for pair in pairs.iter_rows() if pair not in self._coded]
            if new:
                normal = pl.Series([mask.set_codes(self._normal[key], codes) for key, codes in new], dtype=pl.String)
                self._coded.update(zip(new, self._ids(normal), strict=True))
            exact = pl.Series("exact", [self._coded[pair] for pair in pairs.iter_rows()], dtype=pl.UInt64)
        found = rows.join(pairs.with_columns(exact), on=["key", "codes"], how="left").select("line", "exact")
        joined = frame.join(found, on="line", how="left", maintain_order="left")
        return joined.with_columns(masked=pl.coalesce("exact", "masked")).drop("exact")


class LogReader:
    """Takes blocks, writes column files below ``work``. Use: ``read`` all blocks, then ``finish``."""

    def __init__(
        self, path: str, work: Path, *, time_zone: str = "UTC", node: str | None = None, year: int | None = None
    ) -> None:
        self.work = work
        self.time_zone = time_zone
        self.sources = Sources(path, node)
        self.lines = 0
        self.year: int | None = None  # of the first stamp that names one
        self.year_hint = year
        self.has_yearless = False
        self._masks = _Masks()
        self._records = records.Records()
        self._uniques = pl.DataFrame(schema=UNIQUES)
        self._pending: list[pl.DataFrame] = []
        self._parts: list[Path] = []

    def read(self, blocks: Iterable[lines.Block]) -> None:
        """Reads all blocks: two are prepared at a time, and absorbed in order."""
        with ThreadPoolExecutor(_WORKERS) as pool:
            waiting: deque[Future[pl.DataFrame]] = deque()
            begun = 0
            for block in blocks:
                waiting.append(pool.submit(self._prepare, block, begun))
                begun += len(block.text)
                if len(waiting) > _WORKERS:
                    self._absorb(waiting.popleft().result())
            while waiting:
                self._absorb(waiting.popleft().result())

    def _prepare(self, block: lines.Block, before: int) -> pl.DataFrame:
        """What a block tells without its predecessors: masked ids, levels, times, the words that name the writer."""
        count = len(block.text)
        text = lines.clean(block)
        frame = (
            pl.DataFrame({"text": text, "offset": block.offset, "length": block.length})
            .with_columns(line=pl.int_range(before + 1, before + count + 1, dtype=pl.UInt32))
            .with_columns(normal=mask.normalise(pl.col("text")))
            .with_columns(key=pl.col("normal").hash(1))
        )
        known = self._masks.learn(frame)
        frame = frame.drop("normal").join(known, on="key", how="left", maintain_order="left")
        return self._with_time(self._masks.with_codes(frame))

    def _with_time(self, frame: pl.DataFrame) -> pl.DataFrame:
        found: list[pl.DataFrame] = []
        styles = frame["style"].drop_nulls().unique().sort()
        for index in styles:
            style = headers.TIME_STYLES[index]
            rows = frame.filter(pl.col("style") == index) if frame["style"].null_count() or len(styles) > 1 else frame
            time = headers.times(rows["text"].str.head(style.reach), style, self.time_zone)
            bit = pl.when(time.is_null()).then(0).otherwise(records.YEARLESS if style.yearless else 0)
            found.append(rows.select("line", time, bit.cast(pl.UInt8).alias("bit")))
        if not found:
            return frame.with_columns(time=pl.lit(None, dtype=pl.Int64))
        if len(found) == 1 and len(found[0]) == len(frame):
            frame = frame.with_columns(found[0]["time"], found[0]["bit"])
        else:
            frame = frame.join(pl.concat(found), on="line", how="left", maintain_order="left")
        return frame.with_columns(flags=pl.col("flags") | pl.col("bit").fill_null(0)).drop("bit")

    def _absorb(self, frame: pl.DataFrame) -> None:
        """What needs the lines before: sources in order of appearance, records, counts; writes the rows."""
        frame = frame.with_columns(source=self._source(frame))
        frame = frame.with_columns(record=self._records.assign(frame))
        yearless = (pl.col("flags") & records.YEARLESS) != 0
        self.has_yearless = self.has_yearless or bool(frame.select(yearless.any()).item())
        if self.year is None:
            dated = frame.lazy().filter(~yearless & pl.col("time").is_not_null()).select("time").head(1).collect()
            if len(dated):
                self.year = dated["time"].cast(pl.Datetime("ns")).dt.year()[0]
        self._count(frame)
        part = self.work / f"part-{len(self._parts):06d}.parquet"
        frame.select([pl.col(name).cast(kind) for name, kind in lines.COLUMNS.items()]).write_parquet(
            part, compression="lz4"
        )
        self._parts.append(part)
        self.lines += len(frame)

    def _source(self, frame: pl.DataFrame) -> pl.Series:
        """Index of each line's writer. Indices follow the order in which writers first appear."""
        groups: list[pl.DataFrame] = []
        firsts: list[tuple[int, int, int, dict[str, str]]] = []
        kinds = frame["who"].unique().sort()
        for who in kinds:
            if not who:
                continue
            rows = frame.lazy().filter(pl.col("who") == who) if len(kinds) > 1 else frame.lazy()
            rows = rows.select("line", start=pl.col("text").str.head(headers.WRITER_CHARS))
            named = rows.select("line", *headers.writers(pl.col("start"), who)).collect()
            parts = named.columns[1:]
            pairs = named.group_by(parts, maintain_order=True).agg(pl.col("line").first())
            for place, row in enumerate(pairs.iter_rows(named=True)):
                firsts.append((row.pop("line"), len(groups), place, row))
            groups.append(named.join(pairs.drop("line").with_row_index("place"), on=parts, how="left"))
        if not groups:
            return pl.repeat(0, len(frame), dtype=pl.UInt16, eager=True)
        index: list[dict[int, int]] = [{} for _ in groups]
        for _, group, place, words in sorted(firsts, key=lambda first: first[:3]):
            index[group][place] = self.sources.index(**{part: words.get(part, "") for part in headers.PARTS})
        tables = []
        for named, to in zip(groups, index, strict=True):
            mapping = pl.Series([to[place] for place in range(len(to))], dtype=pl.UInt16)
            tables.append(named.select("line", source=mapping.gather(named["place"])))
        if len(tables) == 1 and len(tables[0]) == len(frame):
            return tables[0]["source"]
        found = frame.select("line").join(pl.concat(tables), on="line", how="left", maintain_order="left")
        return found["source"].fill_null(0)

    def _count(self, frame: pl.DataFrame) -> None:
        counted = (
            frame.lazy()
            .group_by("masked")
            .agg(
                pl.len().cast(pl.UInt64).alias("count"),
                pl.col("level").max(),
                pl.col("line").min().alias("first_line"),
                pl.col("offset").min().alias("first_offset"),
                pl.col("text").first().str.head(EXAMPLE_CHARS).alias("example"),
            )
            .collect()
        )
        texts = pl.Series("text", [self._masks.texts[number] for number in counted["masked"]], dtype=pl.String)
        self._pending.append(
            counted.with_columns(texts).select([pl.col(name).cast(kind) for name, kind in UNIQUES.items()])
        )
        if len(self._pending) >= 16:
            self._settle()

    def _settle(self) -> None:
        self._uniques = combine([self._uniques, *self._pending])
        self._pending = []

    def finish(self) -> tuple[Path, Path]:
        """Writes the two tables; returns their paths."""
        self._settle()
        columns, uniques = self.work / "columns.parquet", self.work / "uniques.parquet"
        self._uniques.write_parquet(uniques)
        write_columns(self._parts, columns, self.used_year)
        return columns, uniques

    @property
    def used_year(self) -> int | None:
        """The year that stamps without one were given, or None if there were none or no year is known."""
        return (self.year or self.year_hint) if self.has_yearless else None


def write_columns(parts: list[Path], target: Path, year: int | None) -> None:
    """Puts column parts together, streaming, and moves year-less stamps into ``year``; the parts are gone afterwards."""
    if not parts:
        pl.DataFrame(schema=lines.COLUMNS).write_parquet(target)
    elif len(parts) == 1 and year is None:
        parts[0].replace(target)
        return
    else:
        rows = pl.scan_parquet(parts)
        if year is not None:
            moved = pl.col("time").cast(pl.Datetime("ns")).dt.replace(year=year).cast(pl.Int64)
            rows = rows.with_columns(
                time=pl.when((pl.col("flags") & records.YEARLESS) != 0).then(moved).otherwise(pl.col("time"))
            )
        rows.sink_parquet(target, compression="lz4")
    for part in parts:
        part.unlink()


def combine(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One table of unique masked messages out of several of one artifact (line numbers comparable), by first line."""
    return (
        pl.concat(tables)
        .sort("first_line", "masked", maintain_order=True)
        .group_by("masked", maintain_order=True)
        .agg(
            pl.col("text", "first_line", "first_offset", "example").first(),
            pl.col("count").sum(),
            pl.col("level").max(),
        )
        .select([pl.col(name).cast(kind) for name, kind in UNIQUES.items()])
        .sort("first_line", "masked")
    )

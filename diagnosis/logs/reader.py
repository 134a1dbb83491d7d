"""One log, read once: bytes → lines → header and masked message → ``columns.parquet`` and ``uniques.parquet``.

Every line is normalised by one linear-time pass; all that is thought about a line (header, level, masks) is thought about distinct normalised lines only, and
joined back. Time and writer are read from the raw lines by the pattern that was recognised. Cost: O(bytes) plus O(distinct lines).
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

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
#: Distinct normalised lines kept in memory; beyond it the table starts afresh (slower, same result).
_KNOWN_ROWS = 400_000

_KNOWN = {
    "key": pl.UInt64(),
    "masked": pl.UInt64(),
    "level": pl.UInt8(),
    "style": pl.UInt8(),
    "flags": pl.UInt8(),
    "coded": pl.Boolean(),
    "who": pl.UInt8(),
}
_LABEL, _RANK, _HOST = 1, 2, 4


class LogReader:
    """Takes blocks, writes column files below ``work``. Use: ``feed`` each block, then ``finish``."""

    def __init__(self, path: str, work: Path, *, time_zone: str = "UTC", node: str | None = None) -> None:
        self.work = work
        self.time_zone = time_zone
        self.sources = Sources(path, node)
        self.lines = 0
        self.first_time: int | None = None
        self.year: int | None = None
        self.has_yearless = False
        self._records = records.Records()
        self._known = pl.DataFrame(schema=_KNOWN)
        self._coded: dict[tuple[int, str], int] = {}
        self._texts: dict[int, str] = {}
        self._uniques = pl.DataFrame(schema=UNIQUES)
        self._pending: list[pl.DataFrame] = []
        self._parts: list[Path] = []

    def feed(self, block: lines.Block) -> None:
        """Adds a block of lines."""
        count = len(block.text)
        frame = pl.DataFrame(
            {
                "text": block.text,
                "offset": block.offset,
                "length": block.length,
            }
        ).with_columns(line=pl.int_range(self.lines + 1, self.lines + count + 1, dtype=pl.UInt32))
        frame = (
            frame.lazy()
            .with_columns(normal=mask.normalise(pl.col("text")))
            .with_columns(key=pl.col("normal").hash(1))
            .collect(engine="streaming")
        )
        self._learn(frame)
        frame = frame.drop("normal").join(self._known, on="key", how="left", maintain_order="left")
        frame = self._with_codes(frame)
        frame = self._with_time(frame)
        frame = self._with_source(frame)
        frame = frame.with_columns(record=self._records.assign(frame))
        self._count(frame)
        part = self.work / f"part-{len(self._parts):06d}.parquet"
        frame.select([pl.col(name).cast(kind) for name, kind in lines.COLUMNS.items()]).write_parquet(
            part, compression="lz4"
        )
        self._parts.append(part)
        self.lines += count

    def _learn(self, frame: pl.DataFrame) -> None:
        """Analyses the normalised lines that were not seen before."""
        fresh = (
            frame.lazy()
            .select("key", "normal")
            .unique("key", keep="any")
            .join(self._known.lazy().select("key"), on="key", how="anti")
            .collect()
        )
        if fresh.is_empty():
            return
        parts = headers.split(pl.col("normal"))
        fresh = (
            fresh.lazy()
            .with_columns(**parts)
            .with_columns(
                flags=records.flags(pl.col("message"), pl.col("style")),
                coded=mask.has_code(pl.col("message").str.head(2 * TEXT_CHARS)),
                who=(
                    pl.col("has_label").cast(pl.UInt8) * _LABEL
                    + pl.col("has_rank").cast(pl.UInt8) * _RANK
                    + pl.col("has_host").cast(pl.UInt8) * _HOST
                ),
                short=pl.col("message").str.head(2 * TEXT_CHARS),
            )
            .collect()
        )
        plain = fresh.filter(~pl.col("coded")).lazy().with_columns(masked_text=_masked(pl.col("short"))).collect()
        ids = self._ids(plain["masked_text"])
        coded = fresh.filter(pl.col("coded"))
        self._normal = {**getattr(self, "_normal", {}), **dict(zip(coded["key"], coded["short"], strict=True))}
        columns = list(_KNOWN)
        new = pl.concat(
            [
                plain.with_columns(masked=ids).select(columns),
                coded.with_columns(masked=pl.lit(0, dtype=pl.UInt64)).select(columns),
            ]
        )
        self._known = pl.concat([self._known if len(self._known) < _KNOWN_ROWS else self._known.clear(), new]).rechunk()

    def _ids(self, texts: pl.Series) -> pl.Series:
        distinct = texts.unique()
        ids = {}
        for text in distinct.to_list():
            shown = text.translate(mask.FROM_PRIVATE)
            number = mask.identity(shown)
            ids[text] = number
            self._texts[number] = shown
        table = pl.DataFrame(
            {"masked_text": list(ids), "masked": list(ids.values())},
            schema={"masked_text": pl.String, "masked": pl.UInt64},
        )
        return texts.to_frame("masked_text").join(table, on="masked_text", how="left", maintain_order="left")["masked"]

    def _with_codes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Gives lines with numbers that are part of the message their own masked ids."""
        if not frame["coded"].any():
            return frame
        rows = (
            frame.lazy()
            .filter("coded")
            .select("line", "key", codes=mask.codes(pl.col("text").str.head(4 * TEXT_CHARS)))
            .collect()
        )
        pairs = rows.select("key", "codes").unique()
        new = [(key, numbers) for key, numbers in pairs.iter_rows() if (key, numbers) not in self._coded]
        if new:
            table = pl.DataFrame({"masked_text": [mask.set_codes(self._normal[key], numbers) for key, numbers in new]})
            ids = self._ids(table.lazy().select(_masked(pl.col("masked_text"))).collect()["masked_text"])
            self._coded.update(zip(new, ids, strict=True))
        keys = list(pairs.iter_rows())
        table = pairs.with_columns(pl.Series("exact", [self._coded[pair] for pair in keys], dtype=pl.UInt64))
        exact = rows.join(table, on=["key", "codes"], how="left").select("line", "exact")
        return (
            frame.join(exact, on="line", how="left", maintain_order="left")
            .with_columns(masked=pl.coalesce("exact", "masked"))
            .drop("exact")
        )

    def _with_time(self, frame: pl.DataFrame) -> pl.DataFrame:
        found: list[pl.DataFrame] = []
        for index in frame["style"].drop_nulls().unique().sort():
            style = headers.TIME_STYLES[index]
            rows = frame.filter(pl.col("style") == index)
            time = headers.times(rows["text"].str.head(400) if not style.epoch else rows["text"], style, self.time_zone)
            if style.yearless:
                self.has_yearless = True
            elif self.year is None and time.drop_nulls().len():
                self.year = int(time.drop_nulls().cast(pl.Datetime("ns")).dt.year()[0])
            bit = records.YEARLESS if style.yearless else 0
            found.append(rows.select("line").with_columns(time, pl.lit(bit, dtype=pl.UInt8).alias("bit")))
        if not found:
            return frame.with_columns(time=pl.lit(None, dtype=pl.Int64))
        times = pl.concat(found)
        return (
            frame.join(times, on="line", how="left", maintain_order="left")
            .with_columns(
                flags=pl.col("flags")
                | pl.when(pl.col("time").is_null()).then(0).otherwise(pl.col("bit")).cast(pl.UInt8)
            )
            .drop("bit")
        )

    def _with_source(self, frame: pl.DataFrame) -> pl.DataFrame:
        named = (
            frame.lazy().filter(pl.col("who") > 0).select("line", "who", start=pl.col("text").str.head(300)).collect()
        )
        if named.is_empty():
            return frame.with_columns(source=pl.lit(0, dtype=pl.UInt16))
        start, who = pl.col("start"), pl.col("who")
        named = (
            named.lazy()
            .select(
                "line",
                label=pl.when(who & _LABEL > 0).then(start.str.extract(headers.LABEL_RAW, 1)).fill_null(""),
                rank=pl.when(who & _RANK > 0)
                .then(pl.coalesce(start.str.extract(headers.RANK_TAG_RAW, 1), start.str.extract(headers.RANK_RAW, 1)))
                .fill_null(""),
                local=pl.when(who & _RANK > 0).then(start.str.extract(headers.LOCAL_RAW, 1)).fill_null(""),
                host=pl.when(who & _HOST > 0)
                .then(
                    pl.coalesce(
                        start.str.extract(headers.SRUN_RAW, 1),
                        start.str.extract(headers.SYSLOG_RAW, 1),
                        start.str.extract(headers.NCCL_RAW, 1),
                    )
                )
                .fill_null(""),
            )
            .collect()
        )
        keys = ["label", "rank", "local", "host"]
        pairs = named.group_by(keys, maintain_order=True).first().drop("line")
        table = pairs.with_columns(
            pl.Series("source", [self.sources.index(*row) for row in pairs.iter_rows()], dtype=pl.UInt16)
        )
        named = named.join(table, on=keys, how="left").select("line", "source")
        return frame.join(named, on="line", how="left", maintain_order="left").with_columns(
            pl.col("source").fill_null(0)
        )

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
        texts = pl.Series("text", [self._texts[number] for number in counted["masked"]], dtype=pl.String)
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
        if not self._parts:
            pl.DataFrame(schema=lines.COLUMNS).write_parquet(columns)
        elif len(self._parts) == 1:
            self._parts[0].replace(columns)
        else:
            pl.scan_parquet(self._parts).sink_parquet(columns, compression="lz4")
            for part in self._parts:
                part.unlink()
        return columns, uniques


def _masked(message: pl.Expr) -> pl.Expr:
    return mask.mask(message).str.head(TEXT_CHARS)


def combine(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One table of unique masked messages out of several of the same artifact (line numbers comparable), ordered by first line."""
    together = pl.concat(tables).sort("first_line", "masked", maintain_order=True)
    return (
        together.group_by("masked", maintain_order=True)
        .agg(
            pl.col("text").first(),
            pl.col("count").sum(),
            pl.col("level").max(),
            pl.col("first_line").first(),
            pl.col("first_offset").first(),
            pl.col("example").first(),
        )
        .select([pl.col(name).cast(kind) for name, kind in UNIQUES.items()])
        .sort("first_line", "masked")
    )

"""One log, read once: bytes → lines → header and masked message → ``columns.parquet`` and ``uniques.parquet``.

Compiled code looks at every byte once and gives each line a key that its digits do not change (``scan.keys``). All
that is thought
about a line (header, level, masks) is thought about one line of each key, and joined back; times and ranks are read
from the lines by
compiled code again. Blocks are prepared side by side and absorbed in order. Cost: O(bytes) plus O(distinct keys).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.logs import headers, lines, mask, records, scan, times
from diagnosis.logs.sources import Sources
from diagnosis.logs.tables import COLUMNS, EXAMPLE_CHARS, UNIQUES, combine, write_columns

#: Masked messages longer than this are cut: beyond it lies data, not wording.
TEXT_CHARS = 1_200
#: Distinct normalised lines kept in memory; beyond it the table starts afresh (slower, same result).
_KNOWN_ROWS = 300_000
_WORKERS = 2
Places = npt.NDArray[np.int64]
_FORMS = {
    "form": pl.UInt64(),
    "masked": pl.UInt64(),
    "level": pl.UInt8(),
    "style": pl.UInt8(),
    "flags": pl.UInt8(),
    "coded": pl.Boolean(),
    "who": pl.UInt16(),
}
_KNOWN = {"key": pl.UInt64(), **_FORMS}


class _Masks:
    """Lines seen by key → what is known of them. All artifacts that a process parses share one, since it holds
    pure functions of lines.
    """

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}  # masked id -> masked text
        self._lock = threading.Lock()
        self._known = pl.DataFrame(schema=_KNOWN)
        self._forms = pl.DataFrame(schema=_FORMS)
        self._normal: dict[int, str] = {}  # form -> normalised message, of forms that hold codes
        self._coded: dict[tuple[int, str], int] = {}  # (form, codes) -> masked id

    @property
    def is_full(self) -> bool:
        return len(self._known) > _KNOWN_ROWS or len(self._coded) > _KNOWN_ROWS

    def learn(self, rows: lines.Rows) -> pl.DataFrame:
        """A table of ``_KNOWN`` that covers all lines of ``rows``."""
        keys = pl.DataFrame({"key": rows.key}).with_row_index("row").group_by("key").agg(pl.col("row").first())
        with self._lock:
            fresh = keys.join(self._known, on="key", how="anti")
            if len(fresh):
                text = rows.text(_numpy(fresh["row"]), lines.LINE_BYTES)
                normal = fresh.select("key").with_columns(text).select("key", normal=mask.normalise(pl.col("text")))
                self._known = pl.concat([self._known, self._resolve(normal)]).rechunk()
            return self._known

    def _resolve(self, normal: pl.DataFrame) -> pl.DataFrame:
        """A table of ``_KNOWN`` for new keys and their normalised lines, of which most are known from other keys."""
        hashed = normal.with_columns(form=pl.col("normal").hash(1))
        forms = hashed.select("form", "normal").unique("form", keep="any").join(self._forms, on="form", how="anti")
        if len(forms):
            self._forms = pl.concat([self._forms, self._analyse(forms)]).rechunk()
        return hashed.select("key", "form").join(self._forms, on="form", how="left").select(list(_KNOWN))

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
        self._normal.update(zip(coded["form"], coded["short"], strict=True))
        table = pl.concat(
            [
                plain.with_columns(masked=self._ids(plain["short"])),
                coded.with_columns(masked=pl.lit(0, dtype=pl.UInt64)),
            ]
        )
        return table.select([pl.col(name).cast(kind) for name, kind in _FORMS.items()])

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

    def with_codes(self, frame: pl.DataFrame, rows: lines.Rows) -> pl.DataFrame:
        """Gives lines with numbers that are part of the message their own masked ids."""
        if not frame["coded"].any():
            return frame
        places = frame["coded"].arg_true()
        found = pl.DataFrame({"form": frame["form"].gather(places), "text": rows.text(_numpy(places), 4 * TEXT_CHARS)})
        found = found.lazy().select("form", codes=mask.codes(pl.col("text"))).collect()
        pairs = found.unique()
        with self._lock:
            new = [pair for pair in pairs.iter_rows() if pair not in self._coded]
            if new:
                normal = pl.Series([mask.set_codes(self._normal[form], codes) for form, codes in new], dtype=pl.String)
                self._coded.update(zip(new, self._ids(normal), strict=True))
            exact = pl.Series("masked", [self._coded[pair] for pair in pairs.iter_rows()], dtype=pl.UInt64)
        found = found.join(pairs.with_columns(exact), on=["form", "codes"], how="left", maintain_order="left")
        return frame.with_columns(frame["masked"].scatter(places, found["masked"]))


class _Shared:
    """The process's ``_Masks``, begun anew when it has grown large; blocks at work keep the old one."""

    def __init__(self) -> None:
        self._masks = _Masks()

    def masks(self) -> _Masks:
        if self._masks.is_full:
            self._masks = _Masks()
        return self._masks


_SHARED = _Shared()


@dataclass(frozen=True, slots=True)
class _Prepared:
    rows: lines.Rows
    frame: pl.DataFrame
    masks: _Masks


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
        self._records = records.Records()
        self._by_source = np.zeros(0, np.int64)
        self._uniques = pl.DataFrame(schema=UNIQUES)
        self._seen: set[int] = set()
        self._pending: list[pl.DataFrame] = []
        self._parts: list[Path] = []

    def read(self, blocks: Iterable[lines.Block]) -> None:
        """Reads all blocks: two are prepared at a time, and absorbed in order. A file of one block starts no
        threads.
        """
        source = iter(blocks)
        first, second = next(source, None), next(source, None)
        if first is None:
            return
        if second is None:
            self._absorb(self._prepare(first, 0))
            return
        with ThreadPoolExecutor(_WORKERS) as pool:
            waiting: deque[Future[_Prepared]] = deque()
            begun = 0
            for block in chain((first, second), source):
                waiting.append(pool.submit(self._prepare, block, begun))
                begun += block.count
                if len(waiting) > _WORKERS:
                    self._absorb(waiting.popleft().result())
            while waiting:
                self._absorb(waiting.popleft().result())

    def _prepare(self, block: lines.Block, before: int) -> _Prepared:
        """What a block tells without its predecessors: masked ids, levels, times."""
        rows, masks = lines.read(block), _SHARED.masks()
        frame = pl.DataFrame(
            {
                "line": np.arange(before + 1, before + block.count + 1, dtype=np.uint32),
                "offset": rows.offset,
                "length": rows.length,
                "key": rows.key,
            }
        )
        frame = frame.join(masks.learn(rows), on="key", how="left", maintain_order="left")
        frame = self._with_time(masks.with_codes(frame, rows), rows)
        return _Prepared(rows, frame, masks)

    def _with_time(self, frame: pl.DataFrame, rows: lines.Rows) -> pl.DataFrame:
        style = (
            frame["style"].to_numpy() if not frame["style"].null_count() else frame["style"].fill_null(255).to_numpy()
        )
        time = pl.repeat(None, len(frame), dtype=pl.Int64, eager=True).alias("time")
        flags = frame["flags"]
        for index in np.unique(style):
            if index == 255:
                continue
            one = times.TIME_STYLES[index]
            places = np.flatnonzero(style == index)
            value = times.read(rows, places, one, self.time_zone)
            time = value.alias("time") if len(places) == len(frame) else time.scatter(places, value)
            if one.yearless:
                stamped = places[(value < times.NEXT_YEAR).fill_null(False).to_numpy()]
                flags = flags.scatter(stamped, flags.gather(stamped) | records.YEARLESS)
        return frame.with_columns(time, flags)

    def _absorb(self, prepared: _Prepared) -> None:
        """What needs the lines before: sources in order of appearance, records, counts; writes the rows."""
        rows, frame = prepared.rows, prepared.frame
        frame = frame.with_columns(source=self._source(frame, rows))
        counts = np.bincount(frame["source"].to_numpy(), minlength=len(self.sources.all))
        counts[: len(self._by_source)] += self._by_source
        self._by_source = counts
        frame = frame.with_columns(record=self._records.assign(frame))
        yearless = (pl.col("flags") & records.YEARLESS) != 0
        self.has_yearless = self.has_yearless or bool(frame.select(yearless.any()).item())
        if self.year is None:
            dated = frame.lazy().filter(~yearless & pl.col("time").is_not_null()).select("time").head(1).collect()
            if len(dated):
                self.year = dated["time"].cast(pl.Datetime("ns")).dt.year()[0]
        self._count(frame, rows, prepared.masks)
        part = self.work / f"part-{len(self._parts):06d}.parquet"
        frame.select([pl.col(name).cast(kind) for name, kind in COLUMNS.items()]).write_parquet(part, compression="lz4")
        self._parts.append(part)
        self.lines += len(frame)

    def _source(self, frame: pl.DataFrame, rows: lines.Rows) -> pl.Series:
        """Index of each line's writer. Indices follow the order in which writers first appear."""
        who = frame["who"].to_numpy()
        source = np.zeros(len(frame), np.uint16)
        groups: list[tuple[Places, pl.Series]] = []
        firsts: list[tuple[int, int, int, dict[str, str]]] = []
        for kind in np.unique(who):
            if not kind:
                continue
            places = np.flatnonzero(who == kind)
            named = pl.DataFrame(self._named(rows, places, int(kind)))
            parts = named.columns
            words_key = named.hash_rows(1).alias("words").to_frame()
            pairs = words_key.with_row_index("first").group_by("words").agg(pl.col("first").first()).sort("first")
            pairs = pairs.with_row_index("pair")
            said_first = named[pairs["first"]]
            for pair, (first, words) in enumerate(zip(pairs["first"], said_first.iter_rows(), strict=True)):
                said = {part: "" if word in ("", -1) else str(word) for part, word in zip(parts, words, strict=True)}
                firsts.append((int(places[first]), len(groups), pair, said))
            pair_of = words_key.join(pairs, on="words", how="left", maintain_order="left")["pair"]
            groups.append((places, pair_of))
        index: list[dict[int, int]] = [{} for _ in groups]
        for _, group, pair, said in sorted(firsts, key=lambda first: first[:3]):
            index[group][pair] = self.sources.index(**{part: said.get(part, "") for part in headers.PARTS})
        for (places, pair_of), to in zip(groups, index, strict=True):
            source[places] = np.array([to[pair] for pair in range(len(to))], np.uint16)[pair_of.to_numpy()]
        return pl.Series("source", source)

    @staticmethod
    def _named(rows: lines.Rows, places: Places, who: int) -> list[pl.Series]:
        """What lines with these ``who`` bits say of their writers: some of ``headers.PARTS``, -1 or "" where one
        says nothing.
        """
        found = headers.writers(rows.text(places, headers.WRITER_CHARS), who) if who & headers.WORDS else []
        for bit, part, tag in (
            (headers.TAG, "rank", b"[rank"),
            (headers.MPI, "rank", b"[1,"),
            (headers.LOCAL, "local", b"[default"),
        ):
            if who & bit and not any(one.name == part for one in found):
                value = np.empty(len(places), np.int64)
                tag_bytes = np.frombuffer(tag, np.uint8)
                scan.tagged(rows.data, rows.start, rows.end, places, tag_bytes, headers.WRITER_CHARS, value)
                found.append(pl.Series(part, value))
        for bit, part in ((headers.LABEL, "label"), (headers.NCCL, "host")):
            if who & bit and not any(one.name == part for one in found):
                found.append(_words(rows, places, bit).alias(part))
        if who & headers.TASK and not any(one.name == "rank" for one in found):
            value = np.empty(len(places), np.int64)
            scan.leading(rows.data, rows.start, rows.end, places, value)
            found.append(pl.Series("rank", value))
        return found

    def _count(self, frame: pl.DataFrame, rows: lines.Rows, masks: _Masks) -> None:
        counted = (
            frame.lazy()
            .with_row_index("row")
            .group_by("masked")
            .agg(
                pl.len().cast(pl.UInt64).alias("count"),
                pl.col("level").max(),
                pl.col("row").first(),
                pl.col("line").first().alias("first_line"),
                pl.col("offset").first().alias("first_offset"),
            )
            .sort("row")
            .collect()
        )
        # Only the first block that holds a message gives its example.
        is_new = pl.Series([number not in self._seen for number in counted["masked"]], dtype=pl.Boolean)
        self._seen.update(counted["masked"])
        places = counted["row"].filter(is_new).cast(pl.Int64).to_numpy()
        example = pl.repeat("", len(counted), dtype=pl.String, eager=True)
        example = example.scatter(is_new.arg_true(), rows.text(places, 4 * EXAMPLE_CHARS).str.head(EXAMPLE_CHARS))
        texts = pl.Series("text", [masks.texts[number] for number in counted["masked"]], dtype=pl.String)
        counted = counted.with_columns(texts, example.alias("example"))
        self._pending.append(counted.select([pl.col(name).cast(kind) for name, kind in UNIQUES.items()]))
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
    def source_lines(self) -> list[int]:
        """Lines of each of ``sources.all``."""
        return [int(count) for count in self._by_source] or [0] * len(self.sources.all)

    @property
    def used_year(self) -> int | None:
        """The year that stamps without one were given, or None if there were none or no year is known."""
        return (self.year or self.year_hint) if self.has_yearless else None


def _words(rows: lines.Rows, places: Places, bit: int) -> pl.Series:
    """The labels or NCCL hosts of lines, "" where there is none. Only one line of each word is decoded."""
    first, last = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    word = np.empty(len(places), np.uint64)
    if bit == headers.LABEL:
        scan.labels(rows.data, rows.start, rows.end, places, first, last, word)
    else:
        scan.hosts(rows.data, rows.start, rows.end, places, headers.WRITER_CHARS, first, last, word)
    found = pl.DataFrame({"word": word, "first": first, "last": last})
    one = found.group_by("word").agg(pl.col("first", "last").first())
    text = [bytes(rows.data[begin:end]).decode("ascii") for begin, end in one.select("first", "last").iter_rows()]
    table = one.select("word").with_columns(pl.Series("text", text, dtype=pl.String))
    return found.join(table, on="word", how="left", maintain_order="left")["text"]


def _numpy(places: pl.Series) -> Places:
    return places.cast(pl.Int64).to_numpy()

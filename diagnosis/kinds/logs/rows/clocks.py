"""Clocks that disagree: files in another time zone and nodes whose clock is wrong, estimated from
messages that all of them print.

A node's skew is the median, over messages that most nodes print, of the distance from its first
line to the median node's. A file whose times lie outside the job's window is shifted by whole half
hours into it: a zone, not a skew.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import chain
from typing import Final

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.records.timeline_rows import ClockRow
from diagnosis.values.extremes import greatest, least, middle

SECOND: Final = 1_000_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
THRESHOLDS: Final = thresholds.of("clocks")
#: What the shift of a row depends on.
_KEYS: Final = ("file", "masked", "source", "is_stamped")
QUARTER: Final = THRESHOLDS.quarter_s * SECOND
ZONE_SHIFT: Final = THRESHOLDS.zone_shift_s * SECOND


class Clocks(msgspec.Struct, frozen=True, dict=True):
    """What to subtract from times: ``by_file`` (``file``, ``shift``) and, within files that mix
    zones, ``by_message`` (``file``, ``masked``, ``local``), all in ns; ``by_source`` (``source``,
    ``skew``, ``is_alone``: only its machine writes the file) of machines whose clock is wrong.
    ``corrections``: these in the report.
    """

    by_file: pl.DataFrame
    by_message: pl.DataFrame
    corrections: tuple[ClockRow, ...] = ()
    by_source: pl.DataFrame | None = None

    @cached_property
    def _moves_any(self) -> bool:
        """Whether a clock is wrong. In most jobs none is, and a job may have millions of rows."""
        has_skews = self.by_source is not None and not self.by_source.is_empty()
        return has_skews or not self.by_message.is_empty() or bool((self.by_file["shift"] != 0).any())

    def correct(self, rows: pl.DataFrame, *names: str) -> pl.DataFrame:
        """``rows`` (with ``file`` and ``masked``) with the times in ``names`` on the job's common
        clock.

        With ``source``, each writer's own clock is corrected; with ``is_stamped``, not for lines
        without a time, whose time may come from another writer.
        """
        if not self._moves_any:
            return rows
        # what is not moved is shared with ``rows``, not copied: a large job has millions
        keys = rows.select(name for name in _KEYS if name in rows.columns)
        joined = keys.join(self.by_file, on="file", how="left", maintain_order="left").join(
            self.by_message, on=["file", "masked"], how="left", maintain_order="left"
        )
        shift = pl.col("shift").fill_null(0) + pl.col("local").fill_null(0)
        if self.by_source is not None and not self.by_source.is_empty() and "source" in rows.columns:
            joined = joined.join(self.by_source, on="source", how="left", maintain_order="left")
            own = pl.col("skew").fill_null(0)
            is_alone = pl.col("is_alone").fill_null(True)
            shift += (
                pl.when(is_alone | pl.col("is_stamped")).then(own).otherwise(0) if "is_stamped" in rows.columns else own
            )
        by = joined.select(by=shift)["by"]
        return rows.with_columns([rows[name] - by for name in names])


def estimate(table: LogTable) -> Clocks:
    """The clocks of all files: zones mixed within a file first, then files in other zones, then
    nodes with a wrong clock.
    O(occurrences).
    """
    mixed = _mixed_zones(table)
    occurrences = Clocks(pl.DataFrame(schema={"file": pl.UInt32, "shift": pl.Int64}), mixed).correct(
        table.occurrences, "first_at", "last_at", "until_at"
    )
    spans = occurrences.group_by("file", maintain_order=True).agg(
        lines=pl.col("n").sum(), first_at=pl.col("first_at").min(), last_at=pl.col("last_at").max()
    )
    days = _whole_days(spans, table.undated, table.year_at)
    day = pl.col("file").replace_strict(days, default=0, return_dtype=pl.Int64)
    zones = _zones(spans.with_columns(pl.col("first_at", "last_at") - day))
    moved = [*mixed.group_by("file").agg(pl.col("local").first()).sort("file").iter_rows(), *zones.items()]
    rows = [ClockRow(table.files[file], None, "zone", round(shift / SECOND, 3)) for file, shift in moved if shift]
    shifts = {file: zones.get(file, 0) + days.get(file, 0) for file in range(len(table.files))}
    by_file = pl.DataFrame([*shifts.items()], schema={"file": pl.UInt32, "shift": pl.Int64}, orient="row")
    by_node = _skews(table, occurrences, by_file)
    skews = pl.DataFrame([*by_node.items()], schema={"node": pl.String, "skew": pl.Int64}, orient="row")
    by_source = (
        table.sources.with_columns(is_alone=pl.col("node").drop_nulls().n_unique().over("file") == 1)
        .join(skews, on="node")
        .select("source", "skew", "is_alone")
    )
    rows += [ClockRow(None, node, "skew", round(skew / SECOND, 3)) for node, skew in sorted(by_node.items())]
    return Clocks(by_file, mixed, tuple(rows), by_source)


def _mixed_zones(table: LogTable) -> pl.DataFrame:
    """Messages whose stamps jump by whole quarter hours and back within one file: two writers of
    one file in two zones.

    Only files whose time runs back by at least a quarter hour are examined; the zone with most
    lines is the file's own.
    """
    found = []
    for file in table.spans.filter(pl.col("jumps") >= THRESHOLDS.jumps)["file"].to_list():
        rows = table.stamps(file).with_columns(step=pl.col("own").diff().fill_null(0))
        quarters = (pl.col("step") / QUARTER).round().cast(pl.Int64)
        backs = rows.filter(quarters <= -1).select(k=-quarters)["k"]
        usual = least(backs.mode()) or 0
        if (backs == usual).sum() < THRESHOLDS.jumps or not rows.select((quarters == usual).any()).item():
            continue
        state = pl.when(quarters == -usual).then(0).when(quarters == usual).then(1)
        rows = rows.with_columns(state=state.forward_fill()).with_columns(
            state=pl.col("state").fill_null(1 - pl.col("state").drop_nulls().first())
        )
        is_high = float(rows["state"].mean() or 0) >= THRESHOLDS.most  # type: ignore[arg-type]
        per = rows.group_by("masked").agg(high=pl.col("state").mean() >= THRESHOLDS.most)
        other = per.filter(pl.col("high") != is_high)
        shift = -usual * QUARTER if is_high else usual * QUARTER
        found.append(
            other.select(file=pl.lit(file, dtype=pl.UInt32), masked="masked", local=pl.lit(shift, dtype=pl.Int64))
        )
    empty = pl.DataFrame(schema={"file": pl.UInt32, "masked": pl.UInt64, "local": pl.Int64})
    return pl.concat([empty, *found]).sort("file", "masked")


def _whole_days(spans: pl.DataFrame, undated: frozenset[int], taken_at: int | None) -> dict[int, int]:
    """The days (ns) by which files without dates are moved, to begin next to the longest file that
    has dates. If none has any, the longest file ends within the day before the evidence was taken.
    """
    if not undated:
        return {}
    known = spans.drop_nulls("first_at").sort("lines", "file")
    is_bare = pl.col("file").is_in(list(undated))
    dated, bare = known.filter(~is_bare), known.filter(is_bare)
    base = bare["first_at"].tail(1).sum() if dated.is_empty() else dated["first_at"][-1]
    if dated.is_empty() and bare.height and taken_at is not None:
        base += (taken_at - int(bare["last_at"][-1])) // DAY * DAY
    moved = bare.select("file", (pl.col("first_at") - base + DAY // 2) // DAY * DAY)
    return dict(moved.iter_rows())


def _zones(spans: pl.DataFrame) -> dict[int, int]:
    """Files far from the bulk of lines in time, with the half hours that bring them back."""
    spans = spans.drop_nulls("first_at")
    if spans.height < 2:
        return {}
    # most lines are written by files that begin then
    bulk = spans.sort("first_at", "file")
    heavy = bulk["lines"].cum_sum() * 2 >= bulk["lines"].sum()
    low = int(bulk["first_at"][int(heavy.arg_max() or 0)])
    slack = QUARTER // 2
    # files that begin with the bulk share its clock, and the longest of them shows the duration of
    # the job
    beside = spans.filter((pl.col("first_at") - low).abs() <= slack)
    high = greatest(beside["last_at"]) or low
    outside = {
        file: _fitting_shifts(first, last, low - slack, high + slack)
        for file, _, first, last in spans.iter_rows()
        if last < low - slack or first > high + slack
    }
    # one zone for all of them if possible, whole hours before halves
    votes = Counter(chain.from_iterable(outside.values()))
    best = {s: (-n, s % HOUR != 0, abs(s)) for s, n in votes.items()}
    found = {file: min(shifts, key=lambda s: best[s]) for file, shifts in outside.items() if shifts}
    common = Counter(found.values()).most_common(1)
    if common and common[0][1] >= THRESHOLDS.zone_files:
        # a launcher that writes after the workers' last stamp lies outside in any zone: it shares
        # the zone of the others
        shift = common[0][0]
        begun = dict(spans.select("file", "first_at").iter_rows())
        found |= {f: shift for f, fits in outside.items() if not fits and 0 <= begun[f] - shift - low <= DAY}
    return found


def _fitting_shifts(first: int, last: int, low: int, high: int) -> list[int]:
    """Zone shifts (ns) that bring a file's window to lie within the job's; O(zones).

    A writer that differs by less than an hour was silent for that time, as before a cancellation:
    no two zones are so close.
    """
    farthest = THRESHOLDS.farthest_zone_h * HOUR
    shifts = range(-farthest, farthest + 1, ZONE_SHIFT)
    return [s for s in shifts if abs(s) >= HOUR and first - s >= low and last - s <= high]


def _skews(table: LogTable, occurrences: pl.DataFrame, by_file: pl.DataFrame) -> dict[str, int]:
    if table.sources["node"].drop_nulls().n_unique() < THRESHOLDS.nodes:
        return {}
    firsts = (
        occurrences.lazy()  # without copies of all columns
        .filter("is_stamped")
        .drop_nulls("first_at")
        .join(table.sources.lazy().select("source", "node"), on="source")
        .drop_nulls("node")
        .join(by_file.lazy(), on="file")
        .group_by("node", "masked")
        .agg(at=(pl.col("first_at") - pl.col("shift")).min())
        .collect()
    )
    total = firsts["node"].n_unique()
    if total < THRESHOLDS.nodes:
        return {}
    least = max(THRESHOLDS.nodes, THRESHOLDS.common * total)
    common = firsts.with_columns(nodes=pl.len().over("masked")).filter(pl.col("nodes") >= least)
    off = (
        common.with_columns(off=pl.col("at") - pl.col("at").median().over("masked"))
        .group_by("node")
        .agg(
            skew=pl.col("off").median(),
            messages=pl.len(),
            low=pl.col("off").quantile(THRESHOLDS.low_quantile),
            high=pl.col("off").quantile(THRESHOLDS.high_quantile),
        )
        .filter(pl.col("messages") >= THRESHOLDS.nodes)
        .sort("node")
    )
    jitter = middle(off["high"] - off["low"])
    limit = max(THRESHOLDS.skew_s * SECOND, THRESHOLDS.skew_jitters * jitter)
    return {node: round(skew) for node, skew, _, low, high in off.iter_rows() if abs(skew) > limit and low * high > 0}

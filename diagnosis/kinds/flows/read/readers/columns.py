"""Maps the column names of any exporter to ours: aliases, units, protocol names, time styles."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Iterator

import msgspec
import polars as pl

from diagnosis.kinds.flows.read.flow_records import PROTOCOLS
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows
from diagnosis.kinds.flows.read.readers.column_names import (
    ALIASES,
    BY_NAME,
    SIZE_UNITS,
    TIME_UNITS,
    our_name,
    plain,
    stem,
    unit_of,
)
from diagnosis.values.extremes import middle

#: Number of values that decide a column's unit.
SAMPLE_VALUES = 4096
COUNTS = ("src_port", "dst_port", "bytes", "packets", "back_bytes", "back_packets")

_TEXT_TIMES = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%dT%H:%M:%S%.f",
    "%d/%b/%Y:%H:%M:%S%.f",
)

INSTANTS_NOTE = "There is no duration or end: each record is taken as an instant, so slow transfers cannot be found."
#: Smaller times are from the capture's own start.
_LEAST_EPOCH_S = 5e8
_PACKED_ADDRESS = "^(?:[A-Za-z0-9+/]{6}|[A-Za-z0-9+/]{22})==$"


class Columns(msgspec.Struct, frozen=True):
    """Which columns of a table are which of ours; several if IPv4 and IPv6, or TCP and UDP, have their own."""

    found: dict[str, list[str]]

    @classmethod
    def of(cls, names: Iterable[str]) -> Columns:
        """Matches names to ours.

        Raises ``UnusableFlows`` and names the missing part if an address, the time, or both byte and packet counts are
        missing.
        """
        names = list(names)
        found: dict[str, list[str]] = {}
        for name in names:
            own_name = our_name(name)
            if own_name:
                found.setdefault(own_name, []).append(name)
        for own_name, own in found.items():  # nanoseconds before milliseconds before seconds
            own.sort(key=lambda name: (plain(name) not in BY_NAME, ALIASES[own_name].index(stem(name))))
        missing = [
            label for key, label in (("src", "source address"), ("dst", "destination address")) if key not in found
        ]
        if "start" not in found and not ("end" in found and "duration" in found):
            missing.append("start time")
        if missing:
            least = "start_time, duration (or end), src, dst and bytes"
            if any(plain(name) == "frametime" for name in names):
                least = "frame.time_epoch (frame.time is for people), ip.src, ip.dst and frame.len"
            raise UnusableFlows(
                f"Columns are missing: {', '.join(missing)}. Found: {', '.join(names[:20])}. Export at least {least}."
            )
        return cls(found)

    @staticmethod
    def parts(names: Iterable[str]) -> int:
        """How many of source, destination, time and volume the names hold (0..4)."""
        have = set(map(our_name, names))
        times, volumes = have & {"start", "end", "duration"}, have & {"bytes", "packets"}
        return ("src" in have) + ("dst" in have) + bool(times) + bool(volumes)

    @staticmethod
    def fit(names: Iterable[str]) -> bool:
        """True if the names look like a flow table: at most one of the four is missing."""
        return Columns.parts(names) >= 3

    @staticmethod
    def are_enough(names: Iterable[str]) -> bool:
        """Whether names tell sender, receiver and time."""
        have = set(map(our_name, names))
        return {"src", "dst"} <= have and bool({"start"} & have or {"end", "duration"} <= have)

    def normalise(self, table: pl.DataFrame, time_zone: str, reading: Reading) -> pl.DataFrame:
        """Converts an exporter's table to ours (see ``records.SCHEMA``); bytes sent back become separate records."""
        if not table.height:
            return table.clear().select([])
        columns = [*self._times(table, time_zone, reading), *self._values(table)]
        out = pl.DataFrame(columns)
        if {"action", "dst_port"} <= self.found.keys():
            reading.refusals.add(out, table[self.found["action"][0]])
        if "sampling" in self.found:
            out = self._scaled_up(out, table, reading)
        return _both_ways(out)

    def _times(self, table: pl.DataFrame, time_zone: str, reading: Reading) -> tuple[pl.Series, pl.Series]:
        """Start and end of each row; without an end or a duration, a record is an instant."""
        start = self._time(table, "start", time_zone, reading)
        end = self._time(table, "end", time_zone, reading)
        length = self._length(table)
        if start is None and end is not None and length is not None:
            start = end - length
        if start is None:  # a stretch without any time: its rows are left out
            start = pl.Series("start", [None], dtype=pl.Int64).new_from_index(0, table.height)
        if end is None and length is None and reading.format != "tshark" and INSTANTS_NOTE not in reading.notes:
            reading.notes.append(INSTANTS_NOTE)
        if length is not None and (end is None or _is_coarse(start)):
            end = start + length
        return start.alias("start"), (end if end is not None else start).alias("end")

    def _values(self, table: pl.DataFrame) -> Iterator[pl.Series]:
        """Addresses, path, counts and protocol of each row, as far as there are columns."""
        for name, columns_of in self.found.items():
            if name in ("src", "dst", "path"):
                yield _address([table[c] for c in columns_of], name)
            elif name in COUNTS:
                value = _first_present([_number(table[c]) * (unit_of(c, SIZE_UNITS) or 1.0) for c in columns_of])
                yield value.cast(pl.Int64, strict=False).alias(name)
        if "proto" in self.found:
            yield _first_present([_protocol(table[c]) for c in self.found["proto"]]).alias("proto")

    def _time(self, table: pl.DataFrame, name: str, time_zone: str, reading: Reading) -> pl.Series | None:
        columns = [c for c in self.found.get(name, []) if table[c].null_count() < table.height]
        if not columns:
            return None
        return to_ns(table[columns[0]], time_zone, reading, unit_of(columns[0], TIME_UNITS))

    def _scaled_up(self, out: pl.DataFrame, table: pl.DataFrame, reading: Reading) -> pl.DataFrame:
        """Multiplies sampled counts by the sampling rate."""
        rate = _number(table[self.found["sampling"][0]]).fill_null(1.0)
        typical = middle(rate) or 1.0
        if typical <= 1:
            return out
        reading.sampling = typical
        return out.with_columns(
            (pl.col(c) * rate).cast(pl.Int64, strict=False) for c in ("bytes", "packets") if c in out.columns
        )

    def _length(self, table: pl.DataFrame) -> pl.Series | None:
        name = next(iter(self.found.get("duration", [])), None)
        if name is None:
            return None
        unit = unit_of(name, TIME_UNITS) or 1e9
        return (_number(table[name]) * unit).round(0).cast(pl.Int64, strict=False)


def _first_present(series: list[pl.Series]) -> pl.Series:
    """The first value that is present, for each row."""
    out = series[0]
    for other in series[1:]:
        out = out.fill_null(other) if out.dtype == other.dtype else out
    return out


def _address(series: list[pl.Series], name: str) -> pl.Series:
    """Text without blanks; ``-`` and zeros of the other family are nothing; of several values in one field the
    innermost (last) counts.
    """
    texts = [_tidy_column(s.cast(pl.String), innermost=name != "path") for s in series]
    return _first_present(texts).alias(name)


def _tidy_column(text: pl.Series, *, innermost: bool) -> pl.Series:
    """Checks the few different values first, because mostly nothing needs cleaning."""
    values = text.unique()
    tidied = _tidy_values(values, innermost=innermost)
    if len(values) and values.drop_nulls().str.contains(_PACKED_ADDRESS).all() and values.null_count() < len(values):
        return text.replace_strict(
            values, [None if v is None else _unpack_address(v) for v in values], return_dtype=pl.String
        )
    return text if tidied.equals(values, null_equal=True) else _tidy_values(text, innermost=innermost)


def _unpack_address(value: str) -> str:
    """An address of four or sixteen bytes in base64, as JSON made of protocol buffers writes it."""
    return str(ipaddress.ip_address(base64.b64decode(value)))


def _tidy_values(text: pl.Series, *, innermost: bool) -> pl.Series:
    text = text.str.strip_chars(' "').replace({"": None, "-": None, "::": None, "0.0.0.0": None})  # noqa: S104 - an address read, not one bound
    return text.str.split(",").list.last() if innermost else text


def _both_ways(table: pl.DataFrame) -> pl.DataFrame:
    """Splits records that count both directions (Zeek, bidirectional NetFlow) into one record each way."""
    if "back_bytes" not in table.columns:
        return table.drop([c for c in ("back_packets",) if c in table.columns])
    turned = {
        "src": "dst",
        "dst": "src",
        "src_port": "dst_port",
        "dst_port": "src_port",
        "back_bytes": "bytes",
        "back_packets": "packets",
    }
    forth = table.drop([c for c in ("back_bytes", "back_packets") if c in table.columns])
    back = table.filter(pl.col("back_bytes") > 0).drop([c for c in ("bytes", "packets") if c in table.columns])
    if not back.height:
        return forth
    back = back.rename({a: b for a, b in turned.items() if a in back.columns})
    return pl.concat([forth, back.select([c for c in forth.columns if c in back.columns])], how="diagonal_relaxed")


def _is_coarse(start: pl.Series) -> bool:
    """True if the start times are whole seconds: then ``start + duration`` is better than an equally coarse end."""
    return bool((start % 1_000_000_000 == 0).all())


def _number(series: pl.Series) -> pl.Series:
    if series.dtype.is_numeric():
        return series.cast(pl.Float64)
    return series.cast(pl.String).str.strip_chars(' "').cast(pl.Float64, strict=False)


def _protocol(series: pl.Series) -> pl.Series:
    if series.dtype.is_numeric():
        return series.cast(pl.Int16, strict=False).alias("proto")
    text = series.cast(pl.String).str.strip_chars(' "').str.to_uppercase()
    return (
        text.replace({name: str(number) for name, number in PROTOCOLS.items()})
        .cast(pl.Int16, strict=False)
        .alias("proto")
    )


def to_ns(series: pl.Series, time_zone: str, reading: Reading, named_unit: float | None = None) -> pl.Series:
    """Times in any of the usual forms to nanoseconds UTC.

    Numbers: the magnitude decides the unit (seconds, ms, µs, ns since 1970; small numbers are from
    the capture's start, in seconds or in ``named_unit``). Text without an offset is in ``time_zone``.
    """
    if isinstance(series.dtype, pl.Datetime):
        zoned = (
            series
            if series.dtype.time_zone
            else series.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
        )
        return zoned.dt.convert_time_zone("UTC").dt.cast_time_unit("ns").to_physical()
    if series.dtype.is_numeric():
        return _scale_to_ns(series, named_unit)
    text = series.cast(pl.String).str.strip_chars(' "')
    number = text.cast(pl.Float64, strict=False)
    if len(text) - number.null_count() > 0.5 * (len(text) - text.null_count()):
        whole = text.cast(pl.Int64, strict=False)
        return _scale_to_ns(whole if whole.null_count() == number.null_count() else number, named_unit)
    return _from_text(text, time_zone, reading)


def _scale_to_ns(series: pl.Series, named_unit: float | None) -> pl.Series:
    typical = abs(middle(series.drop_nulls().head(SAMPLE_VALUES)))
    unit = 1e9 if typical < 1e11 else 1e6 if typical < 1e14 else 1e3 if typical < 1e17 else 1.0
    if named_unit is not None and typical < _LEAST_EPOCH_S:
        unit = named_unit
    if not series.dtype.is_integer() and unit < 1e9 and bool((series == series.round(0)).all()):
        series = series.cast(pl.Int64, strict=False)  # whole milliseconds stay exact
    if series.dtype.is_integer():
        return series.cast(pl.Int64) * int(unit)
    # Two steps keep the microseconds of a float: 1.7e9 s times 1e9 leaves 256 ns of noise, which rounding to 1 µs
    # removes.
    if unit == 1e9 and typical > 1e8:
        return (series * 1e6).round(0).cast(pl.Int64, strict=False) * 1000
    return (series * unit).round(0).cast(pl.Int64, strict=False)


def _from_text(text: pl.Series, time_zone: str, reading: Reading) -> pl.Series:
    zoned = text.str.contains(r"(Z|[+-]\d\d:?\d\d)$").fill_null(False)
    if zoned.mean() > 0.5:  # type: ignore[operator]
        fixed = text.str.replace(r"Z$", "+00:00")
        parsed = fixed.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="ns", strict=False)
        if parsed.null_count() == len(parsed):
            parsed = fixed.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", time_unit="ns", strict=False)
        return parsed.dt.convert_time_zone("UTC").to_physical()
    best = max(
        (text.str.to_datetime(style, time_unit="ns", strict=False) for style in _TEXT_TIMES),
        key=lambda s: len(s) - s.null_count(),
    )
    reading.time_zone = time_zone
    note = f"Times carry no offset; they are read as {time_zone}."
    if note not in reading.notes:
        reading.notes.append(note)
    return (
        best.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
        .dt.convert_time_zone("UTC")
        .to_physical()
    )

"""One flow artifact's bytes to a ``Parsed``: normalised records as Parquet, and the quality of the capture as facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import polars as pl

from diagnosis.facts import operations
from diagnosis.kinds.flows.read.flow_records import RecordWriter, quality
from diagnosis.kinds.flows.read.readers import READERS, UnusableFlows, sniff
from diagnosis.kinds.flows.read.readers.base import Reading
from diagnosis.model import Kind, Parsed, ParseHints
from diagnosis.processing import faults

#: Receivers that are named of those that a firewall refuses.
_MAX_REFUSED: Final = 20


class _Replay:
    """A stream with its first bytes put back, so that sniffing needs no seek."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int = -1) -> bytes:
        if self._head:
            if size is None or size < 0:
                data, self._head = self._head + self._stream.read(), b""
                return data
            data, self._head = self._head[:size], self._head[size:]
            return data if len(data) == size else data + self._stream.read(size - len(data))
        return self._stream.read(size)


def parse_flow(stream: BinaryIO, path: str, hints: ParseHints, work: Path) -> Parsed:
    """Reads one flow artifact streaming; ``Parsed.columns`` names the records, ``Parsed.facts["flow"]`` the capture's
    quality.

    Never raises on content: ``Parsed.skipped`` states why a file cannot be used.
    """
    head = stream.read(1 << 16)
    name = sniff(head, path)
    if name is None:
        return Parsed(
            path,
            Kind.FLOW,
            skipped="Not a flow format that is known here. Export CSV with start_time,duration,src,dst,bytes.",
        )
    work.mkdir(parents=True, exist_ok=True)
    try:
        with RecordWriter(work) as out:
            reading = READERS[name](_Replay(head, stream), path, hints, out)  # type: ignore[arg-type]
            columns = out.finish()
    except UnusableFlows as why:
        return Parsed(path, Kind.FLOW, skipped=str(why))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError, EOFError) as error:
        if faults.is_of_machine(error):
            raise
        text = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return Parsed(path, Kind.FLOW, skipped=f"The {name} file cannot be read ({text}). Export it again, or as CSV.")
    if reading.operations:
        facts_of = {"formats": [operations.FORMAT], "states": operations.stored(reading.operations)}
        return Parsed(path, Kind.STATE, lines=reading.lines, facts=facts_of)
    skipped = None
    if not out.rows and reading.bandwidth is None:
        skipped = (
            "The file has a header but no rows. Check the time range and the filter of the export."
            if not out.dropped
            else f"None of the {out.dropped} rows has a usable time, address and byte count."
        )
    return Parsed(
        path,
        Kind.FLOW,
        lines=reading.lines,
        skipped=skipped,
        notes=(*reading.notes, *_left_out(reading, out)),
        facts={"flow": _facts(reading, out, columns)},
        columns=columns,
    )


def _facts(reading: Reading, out: RecordWriter, columns: Path) -> dict[str, Any]:
    """How the file was read, and the quality of the capture."""
    stated = {
        "format": reading.format,
        "time_zone": reading.time_zone,
        "sampling": reading.sampling,
        "bad_rows": reading.bad_rows,
        "reversed": out.reversed,
    }
    if reading.bandwidth is not None:
        stated["bandwidth"] = msgspec.to_builtins(reading.bandwidth)
    if places := reading.refusals.places():
        stated["refused"] = places[:_MAX_REFUSED]
    return stated | quality(columns)


def _left_out(reading: Reading, out: RecordWriter) -> Iterator[str]:
    """What was left out or taken otherwise than the file states, in sentences with counts."""
    if out.dropped:
        yield (
            f"{out.dropped} of {out.dropped + out.rows} rows had no usable time, address or byte count; "
            "they were left out."
        )
    if reading.bad_lines:
        lines = f"{reading.bad_lines:,} {'line holds' if reading.bad_lines == 1 else 'lines hold'}"
        yield f"{lines} no record (cut, or not in the form of the others); they were left out."
    if reading.cut_rows:
        rows = f"{reading.cut_rows:,} {'row has' if reading.cut_rows == 1 else 'rows have'}"
        yield f"{rows} more fields than the header names; fields beyond its last column were left out."
    if out.reversed:
        yield f"{out.reversed} records ended before they began; their duration is taken as zero."

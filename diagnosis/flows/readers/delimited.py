"""Delimited text with a header line: canonical CSV, nfdump's three CSV forms, tshark field exports, AWS VPC flow logs, Zeek TSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import BinaryIO

import polars as pl

from diagnosis.flows.readers.base import Reading, Unusable, blocks_of_lines
from diagnosis.flows.readers.columns import Columns, plain
from diagnosis.flows.records import RecordWriter
from diagnosis.model import ParseHints

_SEPARATORS = (",", "\t", ";", " ", "|")


@dataclass(frozen=True, slots=True)
class Header:
    """Where the columns are: names, separator, and how many leading bytes the header takes."""

    names: tuple[str, ...]
    separator: str
    size: int
    format: str


def sniff_delimited(head: bytes) -> bool:
    """True when a header line with two addresses and a time or a volume is among the first lines."""
    return find_header(head) is not None


def find_header(head: bytes) -> Header | None:
    """The header line among the first twenty lines of ``head``, or None."""
    at = 0
    for line in head.split(b"\n")[:20]:
        text = line.decode("utf-8-sig" if at == 0 else "utf-8", "replace").strip("\r")
        if text and not text.startswith("#") and "\r" not in text:  # a bare return is no table, and csv raises on it
            for separator in _SEPARATORS:
                names = next(csv.reader(io.StringIO(text), delimiter=separator), [])
                names = [name.strip() for name in names]
                if len(names) >= 3 and Columns.fit(names):
                    return Header(tuple(names), separator, min(at + len(line) + 1, len(head)), _format(names))
        at += len(line) + 1
    return None


def _format(names: list[str]) -> str:
    have = {plain(name) for name in names}
    if {"ts", "te", "td", "sa", "da"} <= have:
        return "nfdump-csv"
    if {"cnt", "af", "firstseen", "lastseen"} <= have:
        return "nfdump-csv-fast"
    if "firstseen" in have:
        return "nfdump-csv-2024"
    if "frametimeepoch" in have:
        return "tshark"
    if {"interfaceid", "srcaddr", "logstatus"} <= have:
        return "aws-vpc"
    return "canonical-csv"


def read_delimited(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """Reads block by block; rows that do not fit the header are counted, not guessed at."""
    head = stream.read(1 << 16)
    header = find_header(head)
    if header is None:
        raise Unusable(
            "No header line with source, destination and time was found. Add one, for example: start_time,duration,src,dst,bytes."
        )
    columns = Columns.of(header.names)
    reading = Reading(header.format)
    for block in blocks_of_lines(stream, head[header.size :]):
        table = _table(block, header)
        reading.lines += table.height
        before = out.dropped
        out.add(columns.normalise(table, hints.time_zone, reading))
        reading.bad_rows += out.dropped - before
    return reading


def _table(block: bytes, header: Header) -> pl.DataFrame:
    """Text columns of one block; a summary footer or a torn row gives nulls that the writer leaves out."""
    schema: dict[str, pl.DataType | type[pl.DataType]] = {name: pl.String for name in header.names}
    try:
        return pl.read_csv(
            block,
            has_header=False,
            separator=header.separator,
            schema=schema,
            truncate_ragged_lines=True,
            ignore_errors=True,
            encoding="utf8-lossy",
            quote_char='"',
            null_values=[""],
        )
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema=schema)

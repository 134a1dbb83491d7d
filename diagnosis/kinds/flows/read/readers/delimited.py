"""Delimited text with a header line: canonical CSV, nfdump's three CSV forms, tshark field exports, AWS VPC flow
logs, Zeek TSV.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from typing import BinaryIO

import msgspec
import polars as pl

from diagnosis.kinds.flows.read.flow_records import RecordWriter
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows, blocks_of_lines
from diagnosis.kinds.flows.read.readers.by_values import header_by_values
from diagnosis.kinds.flows.read.readers.column_names import ALIASES, plain
from diagnosis.kinds.flows.read.readers.columns import Columns
from diagnosis.kinds.flows.read.readers.packets.bursts import COLUMNS, Bursts
from diagnosis.model import ParseHints

#: The column for fields beyond the last one of the header.
BEYOND_COLUMN = "\0beyond"
#: Number of bytes in which the first hundred rows are searched.
SAMPLE_BYTES = 1 << 18
#: Rows from which columns are told whose names are not known.
MAX_SAMPLE_ROWS = 200

UNCLOSED_NOTE = "Some rows are malformed (a quotation mark is not closed): marks were read as any other sign."

Schema = dict[str, pl.DataType | type[pl.DataType]]
_SEPARATORS = (",", "\t", ";", " ", "|")
#: Names of address columns in the form of :func:`plain`, and the same for bytes. Two letters occur in many words.
_ADDRESSES = [name.encode() for name in (*ALIASES["src"], *ALIASES["dst"])]
_LONG_ADDRESSES = [name for name in _ADDRESSES if len(name) > 2]
_SHORT_ADDRESS = re.compile(
    rb"(?i)(?<![a-z0-9])(?:%s)(?![a-z0-9])" % b"|".join(name for name in _ADDRESSES if len(name) <= 2)
)
_FLAT = bytes(range(256)).lower()
_NO_NAME = bytes(byte for byte in range(256) if byte > 127 or not chr(byte).isalnum())
#: Separators between two column names.
_DIVIDERS = re.compile(r"(?<=\w)[^\w.\- ]+(?=\w)")


class Header(msgspec.Struct, frozen=True):
    """The columns: names, separator, and number of leading bytes of the header."""

    names: tuple[str, ...]
    separator: str
    size: int
    format: str
    #: which columns were taken for what by their values, in a sentence; empty where names tell all
    note: str = ""


#: The fields of a version 2 record, for files without their header line.
AWS = [
    "version",
    "account-id",
    "interface-id",
    "srcaddr",
    "dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "packets",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
]


def sniff_delimited(head: bytes) -> bool:
    """True when a header line with two addresses and a time or a volume is among the first lines, or the lines are a
    known headerless form.
    """
    return (
        find_header(head) is not None
        or is_sflowtool(head)
        or is_aws_custom(head)
        or unknown_separator(head) is not None
    )


def is_sflowtool(head: bytes) -> bool:
    """``sflowtool -l``: lines that begin with FLOW or CNTR and hold no time."""
    lines = [line for line in head.split(b"\n", 5)[:5] if line]
    return bool(lines) and all(line.startswith((b"FLOW,", b"CNTR,")) for line in lines)


def is_aws_custom(head: bytes) -> bool:
    """AWS records without their header and in a custom order: recognised by interface, decision and status."""
    lines = [line.split(b" ") for line in head.split(b"\n", 5)[:5] if line]
    return bool(lines) and all(
        len(parts) >= 8
        and any(part.startswith(b"eni-") for part in parts)
        and bool({b"ACCEPT", b"REJECT"} & set(parts) or {b"NODATA", b"SKIPDATA"} & set(parts))
        for parts in lines
    )


def find_header(head: bytes) -> Header | None:
    """The header line among the first twenty lines of ``head``, or None. Never raises, for any bytes."""
    if b"\0" in head[:4096]:
        return None
    at = 0
    separator = None
    lines = head.split(b"\n", 20)[:20]
    if not _may_name_addresses(b"\n".join(lines)):
        return _by_values(head)
    for line in lines:
        text = line.decode("utf-8-sig" if at == 0 else "utf-8", "replace").strip("\r")
        if text.startswith("#separator"):
            separator = text.split(" ", 1)[-1].encode().decode("unicode_escape", "replace")
        elif header := _header_in(text, head, at, min(at + len(line) + 1, len(head)), separator or "\t"):
            return header
        at += len(line) + 1
    return _by_values(head)


def _header_in(text: str, head: bytes, at: int, size: int, separator: str) -> Header | None:
    """The header that a line states, or the one that a record of AWS has; ``at``, ``size``: its first
    byte and the one after it.
    """
    if text.startswith("#fields"):
        fields = text.split(separator)[1:]
        return Header(tuple(fields), separator, size, "zeek-conn") if Columns.fit(fields) else None
    if not text or text.startswith("#"):
        return None
    found = _names(text)
    if found is None:
        return Header(tuple(AWS), " ", at, "aws-vpc") if _is_aws(text) else None
    names, mark = found
    named = Header(tuple(names), mark, size, _format(names))
    taken = None if at or Columns.are_enough(names) else _by_values(head)
    return taken or named


def _by_values(head: bytes) -> Header | None:
    """The header of a table of whose columns not all names are known."""
    lines = head[:SAMPLE_BYTES].split(b"\n", MAX_SAMPLE_ROWS)[:MAX_SAMPLE_ROWS]
    if len(head) > len(lines[0]) + 1 and head[-1:] != b"\n":
        lines = lines[:-1]  # perhaps cut
    texts = [line.decode("utf-8-sig", "replace").rstrip("\r") for line in lines]
    taken = header_by_values([text for text in texts if text])
    if taken is None:
        return None
    size = len(lines[0]) + 1 if taken.has_header else 0
    return Header(taken.names, taken.separator, size, "delimited", taken.note)


def _may_name_addresses(lines: bytes) -> bool:
    """Whether the lines contain a word that every header needs, or a record of AWS. This excludes nearly every log at
    the cost of a few searches.
    """
    flat = lines.translate(_FLAT, _NO_NAME)
    return (
        any(name in flat for name in _LONG_ADDRESSES) or _SHORT_ADDRESS.search(lines) is not None or b" eni-" in lines
    )


def _names(text: str) -> tuple[list[str], str] | None:
    """Column names and separator of a header line."""
    if len(text) > 8192 or "\r" in text:
        return None
    for separator in _SEPARATORS:
        if text.count(separator) < 2:
            continue
        try:
            names = [name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=separator), [])]
        except csv.Error:
            continue
        least = 4 if separator == " " else 3  # a sentence may contain two such words by chance
        if len(names) >= 3 and len(set(names)) == len(names) and Columns.parts(names) >= least:
            return names, separator
    return None


def unknown_separator(head: bytes) -> str | None:
    """The separator of the column names in the first line, if it is not supported."""
    line = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    marks = _DIVIDERS.findall(line) if len(line) <= 1000 else []
    if len(marks) < 3 or len(set(marks)) > 1 or marks[0] in _SEPARATORS:
        return None
    return marks[0] if Columns.parts(line.split(marks[0])) == 4 else None


def _is_aws(text: str) -> bool:
    """A version 2 record without its header."""
    parts = text.split(" ")
    return (
        len(parts) == 14 and parts[0] == "2" and parts[12] in ("ACCEPT", "REJECT", "-") and parts[2].startswith("eni-")
    )


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
    """Reads block by block; rows that do not fit the header are counted, not guessed."""
    head = stream.read(1 << 16)
    header = _header_of(head)
    columns = Columns.of(header.names)
    reading = Reading(header.format, notes=[header.note] if header.note else [])
    bursts = Bursts(out) if header.format == "tshark" else None
    schema: Schema | None = None
    clean = True
    for block in blocks_of_lines(stream, head[header.size :]):
        if schema is None:
            schema = _types(block, header)
        swift = _clean_table(block, header, schema) if clean else None
        clean = swift is not None  # if the first block needs lenient reading, the others mostly need it too
        table = _count_cut_rows(_table(block, header, schema, reading.notes), reading) if swift is None else swift
        reading.lines += table.height
        before = out.dropped
        rows = columns.normalise(table, hints.time_zone, reading)
        if bursts is not None:
            packets = _packet_rows(rows)
            reading.bad_lines += rows.height - packets.height
            bursts.add(packets)
        else:
            out.add(rows)
        reading.bad_rows += out.dropped - before
    if bursts is not None:
        bursts.finish()
        reading.notes.append("One row a packet: packets closer than 2 ms were joined to transfers.")
    return reading


def _header_of(head: bytes) -> Header:
    """The header of a file. Raises ``UnusableFlows`` with what to export instead."""
    header = find_header(head)
    if header is not None:
        if len(header.separator) == 1:
            return header
        raise UnusableFlows(f"The columns are divided by '{header.separator}'. Export with one sign, such as a tab.")
    if is_sflowtool(head):
        raise UnusableFlows(
            "sflowtool -l prints no time. Export with sflowtool -J (JSON with time), goflow2, or nfdump."
        )
    if is_aws_custom(head):
        raise UnusableFlows(
            "AWS flow logs in an order of their own need their header line: add the line of the log's format, "
            "as files in S3 have it: version … srcaddr dstaddr … bytes packets start end …"
        )
    if separator := unknown_separator(head):
        raise UnusableFlows(f"The columns are divided by '{separator}'. Export with commas, tabs, semicolons or |.")
    raise UnusableFlows(
        "No header line with source, destination and time was found. "
        "Add one, for example: start_time,duration,src,dst,bytes."
    )


def _packet_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Packet rows in the form for ``Bursts``."""
    rows = rows.with_columns(packets=pl.lit(1, dtype=pl.Int64))
    for name, kind in (
        ("src_port", pl.Int64),
        ("dst_port", pl.Int64),
        ("proto", pl.Int64),
        ("path", pl.String),
        ("bytes", pl.Int64),
    ):
        if name not in rows.columns:
            rows = rows.with_columns(pl.lit(None, dtype=kind).alias(name))
    return rows.select(COLUMNS).with_columns(pl.col("proto").cast(pl.Int64)).drop_nulls(["start", "src", "dst"])


def _types(block: bytes, header: Header) -> Schema:
    """Numbers if the first hundred rows have numbers: reading them directly is several times faster than as text."""
    sample = b"\n".join(block[:SAMPLE_BYTES].split(b"\n", 101)[:100]) + b"\n"
    text: Schema = dict.fromkeys(header.names, pl.String)
    table = _table(sample, header, text)
    schema = dict(text)
    for name in header.names:
        column = table[name].str.strip_chars().drop_nulls()
        if (
            len(column)
            and column.cast(pl.Float64, strict=False).null_count() == 0
            and not column.str.starts_with('"').any()
        ):
            long = column.str.len_chars().max()
            whole = column.str.contains(".", literal=True).any() is False
            schema[name] = pl.Int64 if whole and isinstance(long, int) and long >= 16 else pl.Float64
    return schema


def _clean_table(block: bytes, header: Header, schema: Schema) -> pl.DataFrame | None:
    """The columns of a block if every row fits, in half the time; None if a row may not fit, or if there is a comment,
    a quotation mark or a word for a missing value.
    """
    if any(mark in block for mark in (b'"', b"#", b"(")):
        return None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            table = pl.read_csv(block, has_header=False, separator=header.separator, schema=schema, quote_char=None)
        except pl.exceptions.PolarsError:
            return None
        return None if warned else table


def _table(block: bytes, header: Header, schema: Schema, notes: list[str] | None = None) -> pl.DataFrame:
    """The columns of one block; a summary footer, a comment or a torn row gives nulls that the writer leaves out.

    An open quotation mark would make one field of all that follows: then marks are read as ordinary characters.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            table = _lenient_table(block, header, schema, '"')
        except pl.exceptions.NoDataError:
            return pl.DataFrame(schema=schema)
        except pl.exceptions.PolarsError:
            table = None  # the marks are the reason: without them every row is read
        if table is not None and not warned:
            return table
        if notes is not None and UNCLOSED_NOTE not in notes:
            notes.append(UNCLOSED_NOTE)
        return _lenient_table(block, header, schema, None)


def _count_cut_rows(table: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """The columns that the header names; rows with something beyond them are counted."""
    if BEYOND_COLUMN not in table.columns:
        return table
    reading.cut_rows += table.height - table[BEYOND_COLUMN].null_count()
    return table.drop(BEYOND_COLUMN)


def _lenient_table(block: bytes, header: Header, schema: Schema, quote: str | None) -> pl.DataFrame:
    """One column more than the header names, for fields beyond the last one with a name."""
    return pl.read_csv(
        block.lstrip(b"\r\n"),
        has_header=False,
        separator=header.separator,
        schema={**schema, BEYOND_COLUMN: pl.String},
        truncate_ragged_lines=True,
        missing_columns="insert",
        ignore_errors=True,
        encoding="utf8-lossy",
        quote_char=quote,
        comment_prefix="#",
        null_values=["", "(empty)"],
    )

"""Columns of flow records whose names nobody knows are told by their values, and the page says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diagnosis.kinds.flows.read.readers import sniff
from tests.diagnosis.kinds.flows.helpers import parsed, records_of

BEGIN_S = 1_790_000_000.25
ENDS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def table(header: str, separator: str, *, turned: bool = False, dated: bool = False) -> bytes:
    """Five records: begin, end, sender, receiver, its port and the other's, bytes, packets."""
    lines = [header]
    for number in range(5):
        begin, src, dst = BEGIN_S + number, ENDS[number % 3], ENDS[(number + 1) % 3]
        ends = [dst, src] if turned else [src, dst]
        ports = ["4791", "51000"] if turned else ["51000", "4791"]
        times = [f"{begin:.6f}", f"{begin + 0.125:.6f}"]
        if dated:
            times = [f"2026-09-21 14:13:{20 + number}.250000", f"2026-09-21 14:13:{20 + number}.375000"]
        lines.append(separator.join([*times, *ends, *ports, "2048000", "500"]))
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize(
    ("header", "separator", "options"),
    [
        ("opened_at,closed_at,endpoint_a,endpoint_b,port_a,port_b,volume,frames", ",", {}),
        ("Zeit_von;Zeit_bis;Quelle;Ziel;Quellport;Zielport;Menge;Pakete", ";", {}),
        ("sTime|eTime|sIP|dIP|sPort|dPort|bytes|packets", "|", {"dated": True}),
        ("timestamp_start,timestamp_end,ip_src,ip_dst,port_src,port_dst,bytes,packets", ",", {}),
        ("b,e,receiver,sender,receiver_port,sender_port,moved,n", ",", {"turned": True}),
    ],
)
def test_columns_are_told_by_their_values(
    header: str, separator: str, options: dict[str, bool], tmp_path: Path
) -> None:
    part = parsed(table(header, separator, **options), tmp_path)
    first, *_ = records_of(part)
    assert (first["start"], first["end"] - first["start"]) == (1_790_000_000_250_000_000, 125_000_000)
    assert (first["src"], first["dst"], first["bytes"], first["packets"]) == (*ENDS[:2], 2_048_000, 500)
    assert (first["src_port"], first["dst_port"]) == (51000, 4791)
    (note,) = [note for note in part.notes if "recognised by their values" in note]
    assert f"{header.split(separator, maxsplit=1)[0]} as start" in note


def test_what_names_tell_is_not_told_as_taken_by_values(tmp_path: Path) -> None:
    known = parsed(table("start,end,src,dst,src_port,dst_port,bytes,packets", ","), tmp_path)
    assert not [note for note in known.notes if "values" in note]


@pytest.mark.parametrize(
    "other",
    [
        b"at,node_ip,gateway,rx\n" + b"1790000000.5,10.0.0.1,10.0.0.254,123456\n" * 5,  # a gateway never sends
        b"host,bmc,rack,units\n" + b"10.0.0.1,10.0.0.2,7,42\n10.0.0.2,10.0.0.1,7,42\n" * 3,  # no time
        b"at,a,b,c\n" + b"1790000000.5,10.0.0.1,10.0.0.2,3\n1790000000.5,10.0.0.2,10.0.0.1,3\n" * 3,  # no bytes
        b"2026-09-21 10:00:00 INFO 10.0.0.1 10.0.0.2 connected 2048\n" * 6,
    ],
)
def test_other_tables_with_addresses_are_no_flows(other: bytes) -> None:
    assert sniff(other, "table.csv") is None


@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_a_table_without_a_header_loses_no_row(separator: str, tmp_path: Path) -> None:
    rows = table("no header", separator).split(b"\n", 1)[1]
    part = parsed(rows, tmp_path)
    found = records_of(part)
    assert len(found) == 5
    assert (found[0]["start"], found[0]["src"], found[0]["dst"]) == (1_790_000_000_250_000_000, *ENDS[:2])
    assert (found[0]["bytes"], found[0]["packets"]) == (2_048_000, 500)
    (note,) = [note for note in part.notes if "recognised by their values" in note]
    assert "column 1 as start" in note


def elastic(number: int) -> dict[str, Any]:
    """One record as Elastic stores it."""
    begin = BEGIN_S + number
    ends = {"source": {"ip": ENDS[0], "port": 51000, "bytes": 2_048_000}, "destination": {"ip": ENDS[1], "port": 4791}}
    return {"event": {"start": begin, "end": begin + 0.125}, **ends, "network": {"transport": "udp"}, "tags": ["a"]}


@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("damage", ["", "{not json"])
def test_objects_in_objects_are_read(is_wrapped: bool, is_array: bool, damage: str, tmp_path: Path) -> None:
    rows = [elastic(number) for number in range(5)]
    rows = [{"_index": "flows", "_source": row} for row in rows] if is_wrapped else rows
    lines = [json.dumps(row) for row in rows]
    text = json.dumps(rows) if is_array else "\n".join([*lines, damage, ""])
    found = records_of(parsed(text.encode(), tmp_path, "flows.json"))
    assert len(found) == 5
    assert (found[0]["start"], found[0]["end"] - found[0]["start"]) == (1_790_000_000_250_000_000, 125_000_000)
    assert (found[0]["src"], found[0]["dst"], found[0]["bytes"]) == (*ENDS[:2], 2_048_000)
    assert (found[0]["src_port"], found[0]["dst_port"]) == (51000, 4791)


def test_objects_that_are_too_deep_are_left_out(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(200):
        deep = {"x": deep}
    lines = [json.dumps({**elastic(number), "deep": deep}) for number in range(5)]
    assert len(records_of(parsed("\n".join([*lines, ""]).encode(), tmp_path, "flows.json"))) == 5

"""Columns of flow records are known by their names, which also state the unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.kinds.flows.helpers import parsed, records_of


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (
            "first_us,last_us,srcaddr,dstaddr,dOctets,dPkts",
            "1790000000250000,1790000000375000,10.0.0.1,10.0.0.2,2048,2",
        ),
        (
            "firstMs,lastMs,srcaddr,dstaddr,total_octets,total_packets",
            "1790000000250,1790000000375,10.0.0.1,10.0.0.2,2048,2",
        ),
        ("begin_ns,elapsed_ms,from_ip,to_ip,size_kb,pkts", "1790000000250000000,125,10.0.0.1,10.0.0.2,2.048,2"),
        ("flow.start,durationus,ip.src,ip.dst,kbytes,packets_total", "1790000000.25,125000,10.0.0.1,10.0.0.2,2.048,2"),
        (
            "First Epoch,Duration (s),Source IP,Destination IP,Bytes (KiB),Packets",
            "1790000000.25,0.125,10.0.0.1,10.0.0.2,2,2",
        ),
        ("begin,seconds,from_ip,to_ip,bits", "2026-09-21T14:13:20.250000+00:00,0.125,10.0.0.1,10.0.0.2,16384"),
    ],
)
def test_names_of_columns_state_their_unit(header: str, row: str, tmp_path: Path) -> None:
    (record,) = records_of(parsed(f"{header}\n{row}\n".encode(), tmp_path))
    assert (record["start"], record["end"] - record["start"]) == (1_790_000_000_250_000_000, 125_000_000)
    assert (record["bytes"], record["packets"]) in ((2048, 2), (2048, None))


def test_small_times_are_in_the_unit_that_their_name_states(tmp_path: Path) -> None:
    part = parsed(b"first_ms,last_ms,srcaddr,dstaddr,doctets\n86400250,86400375,10.0.0.1,10.0.0.2,2048\n", tmp_path)
    (record,) = records_of(part)
    assert (record["start"], record["end"] - record["start"]) == (86_400_250_000_000, 125_000_000)

"""Everything that a reader of flow records leaves out is reported with its number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.diagnosis.kinds.flows.helpers import parsed, records_of
from tests.diagnosis.kinds.flows.test_pcap import ethernet, ip4, pcap, udp

HEADER = "start_time,duration,src,dst,bytes\n"
ROW = "1700000000.5,0.25,10.0.0.1,10.0.0.2,4096"
BEYOND = "{} more fields than the header names; fields beyond its last column were left out."
NO_RECORD = "{} no record (cut, or not in the form of the others); they were left out."


def csv(*rows: str) -> bytes:
    return (HEADER + "".join(f"{row}\n" for row in rows)).encode()


@pytest.mark.parametrize("quoted", ["", '"'])  # the fast way of reading, and the lenient one
def test_a_row_with_more_fields_than_the_header_is_kept_and_reported(quoted: str, tmp_path: Path) -> None:
    rows = [ROW.replace("10.0.0.1", f"{quoted}10.0.0.1{quoted}")] * 3 + [f"{ROW},leaf1,spine2", f"{ROW},leaf1"]
    part = parsed(csv(*rows), tmp_path)

    assert len(records_of(part)) == 5
    assert list(part.notes) == [BEYOND.format("2 rows have")]


def test_a_sign_that_ends_every_row_is_nothing_beyond_the_header(tmp_path: Path) -> None:
    part = parsed(csv(*[f"{ROW},"] * 4), tmp_path)

    assert (len(records_of(part)), part.notes) == (4, ())


def test_a_row_that_breaks_off_before_its_addresses_is_reported(tmp_path: Path) -> None:
    part = parsed(csv(ROW, ROW, "1700000000.5,0.25,10.0."), tmp_path)

    assert len(records_of(part)) == 2
    assert list(part.notes) == ["1 of 3 rows had no usable time, address or byte count; they were left out."]


def test_packets_of_tshark_without_an_address_are_reported(tmp_path: Path) -> None:
    head = "frame.time_epoch,ip.src,ip.dst,udp.srcport,udp.dstport,frame.len\n"
    text = head + "".join(f"1700000000.{n}00,10.0.0.1,10.0.0.2,49152,4791,4096\n" for n in range(1, 5))
    part = parsed((text + "1700000000.600,,,,,60\n" * 3).encode(), tmp_path)

    assert NO_RECORD.format("3 lines hold") in part.notes


def test_entries_of_google_without_a_connection_are_reported(tmp_path: Path) -> None:
    joined = {"src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "src_port": 49152, "dest_port": 4791, "protocol": 17}
    entry = {"connection": joined, "start_time": "2023-11-14T22:13:20Z", "end_time": "2023-11-14T22:13:25Z"}
    lines = [json.dumps({"jsonPayload": entry | {"bytes_sent": "4096", "packets_sent": "4"}})] * 3
    part = parsed("\n".join([*lines, '{"textPayload": "an audit entry"}', '{"jsonPayload": {"conn']).encode(), tmp_path)

    assert len(records_of(part)) == 3
    assert list(part.notes)[-1] == NO_RECORD.format("2 lines hold")


def test_cut_tuples_of_azure_are_reported_and_those_that_open_a_connection_are_not(tmp_path: Path) -> None:
    whole = "1700000000,10.0.0.1,10.0.0.2,49152,4791,U,O,A,C,4,4096,1,64"
    tuples = [whole, whole.replace(",C,4,4096,1,64", ",B,0,0,0,0"), "1700000000,10.0.0.1,10.0", whole[:-3] + "x"]
    record = {"properties": {"flows": [{"flows": [{"flowTuples": tuples}]}]}, "category": "FlowEvent"}
    part = parsed(json.dumps({"records": [record]}).encode(), tmp_path)

    assert NO_RECORD.format("2 lines hold") in part.notes


def test_what_is_no_object_in_an_array_is_reported(tmp_path: Path) -> None:
    row = {
        "first": "2023-11-14T22:13:20.001",
        "last": "2023-11-14T22:13:20.599",
        "in_bytes": 4096,
        "src4_addr": "10.0.0.1",
        "dst4_addr": "10.0.1.1",
    }
    part = parsed(json.dumps([row, row, "cut", None]).encode(), tmp_path)

    assert len(records_of(part)) == 2
    assert NO_RECORD.format("2 lines hold") in part.notes


def test_packets_that_are_not_ip_are_reported(tmp_path: Path) -> None:
    transfer = ethernet(ip4("10.0.0.1", "10.0.0.2", 17, udp(49152, 4791, b"x" * 64)))
    part = parsed(pcap(transfer, ethernet(b"\0" * 28, kind=0x0806)), tmp_path)

    assert "1 packet holds no whole IP header (ARP and the like, or cut); they were left out." in part.notes

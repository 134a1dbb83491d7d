# ruff: noqa: E501 - exporters' rows are quoted as they are
"""Every text format by example, and the sentences about unusable files."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnosis.kinds import flows
from diagnosis.kinds.flows import parse_flow, sniff
from diagnosis.kinds.flows.capture.capture import load_capture
from diagnosis.kinds.flows.read.readers import base
from diagnosis.kinds.flows.read.readers.base import blocks_of_lines
from diagnosis.model import ParseHints
from tests.diagnosis.kinds.flows.helpers import parsed, records_of
from tests.diagnosis.kinds.reports import flows_json

NS = 1_000_000_000
FORMATS = {
    "canonical-csv": (
        b"start_time,duration,src,dst,src_port,dst_port,proto,bytes,packets,switches\n"
        b"1700000000.001,0.598,10.0.0.1,10.0.1.1,49152,4791,UDP,66903424,16160,leaf3;spine1;leaf7\n"
    ),
    "nfdump-csv-2024": (
        b"firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n"
        b"2023-11-14 22:13:20.001,0.598,17,10.0.0.1,49152,10.0.1.1,4791,16160,66903424,1\n"
    ),
    "nfdump-csv-fast": (
        b"cnt,af,firstSeen,lastSeen,proto,srcAddr,srcPort,dstAddr,dstPort,srcAS,dstAS,input,output,flags,srcTos,packets,bytes\n"
        b"1,2,1700000000001,1700000000599,17,10.0.0.1,49152,10.0.1.1,4791,0,0,0,0,........,0,16160,66903424\n"
    ),
    "nfdump-ndjson": (
        b'{"cnt":1,"type":"FLOW","first":"2023-11-14T22:13:20.001","last":"2023-11-14T22:13:20.599","in_packets":16160,"in_bytes":66903424,'
        b'"proto":17,"src_port":49152,"dst_port":4791,"src4_addr":"10.0.0.1","dst4_addr":"10.0.1.1","sampled":0}\n'
    ),
    "goflow2": (
        b'{"type":"IPFIX","time_received_ns":1700000001000000000,"sampling_rate":1,"sampler_address":"leaf3","time_flow_start_ns":1700000000001000000,'
        b'"time_flow_end_ns":1700000000599000000,"bytes":66903424,"packets":16160,"src_addr":"10.0.0.1","dst_addr":"10.0.1.1","etype":"IPv4","proto":"UDP",'
        b'"src_port":49152,"dst_port":4791}\n'
    ),
    "zeek-conn": (
        b"#separator \\x09\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tduration\torig_bytes\tresp_bytes\torig_pkts\tresp_pkts\n"
        b"#types\ttime\tstring\n1700000000.001000\tC1\t10.0.0.1\t49152\t10.0.1.1\t4791\tudp\t0.598000\t66903424\t0\t16160\t0\n#close\t2023\n"
    ),
    "zeek-json": (
        b'{"ts":1700000000.001,"uid":"C1","id.orig_h":"10.0.0.1","id.orig_p":49152,"id.resp_h":"10.0.1.1","id.resp_p":4791,"proto":"udp",'
        b'"duration":0.598,"orig_bytes":66903424,"resp_bytes":0,"orig_pkts":16160}\n'
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_one_transfer_reads_the_same_from_every_format(name: str, tmp_path: Path) -> None:
    assert sniff(FORMATS[name], "whatever.bin") is not None
    part = parsed(FORMATS[name], tmp_path)
    assert part.skipped is None
    assert part.facts["flow"]["format"] == name
    (row,) = records_of(part)
    assert (row["start"], row["end"]) == (1700000000 * NS + 1_000_000, 1700000000 * NS + 599_000_000)
    assert (row["src"], row["dst"], row["src_port"], row["dst_port"], row["proto"]) == (
        "10.0.0.1",
        "10.0.1.1",
        49152,
        4791,
        17,
    )
    assert (row["bytes"], row["packets"]) == (66903424, 16160)


def test_parquet_is_read_by_the_same_column_names(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pl.DataFrame(
        {"start": [1700000000.25], "end": [1700000000.5], "src": ["a"], "dst": ["b"], "bytes": [7], "leaf": ["leaf1"]}
    ).write_parquet(buffer)
    (row,) = records_of(parsed(buffer.getvalue(), tmp_path))
    assert (row["start"], row["end"], row["bytes"], row["path"]) == (
        1700000000_250_000_000,
        1700000000_500_000_000,
        7,
        "leaf1",
    )


def test_whole_second_nfdump_uses_its_duration_and_its_own_time_zone_and_drops_the_summary(tmp_path: Path) -> None:
    text = (
        b"ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out\n"
        b"2023-11-15 06:13:20,2023-11-15 06:13:20,0.598,10.0.0.1,10.0.1.1,49152,4791,UDP,........,0,0,16160,66903424,0,0,0,0\n"
        b"Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,66903424,16160,1,2,3\n"
    )
    part = parsed(text, tmp_path, time_zone="Asia/Shanghai")
    (row,) = records_of(part)
    assert (row["start"], row["end"] - row["start"]) == (1700000000 * NS, 598_000_000)
    assert part.facts["flow"]["resolution_s"] == 1.0
    assert any("no offset" in note for note in part.notes)
    assert any("left out" in note for note in part.notes)


@pytest.mark.parametrize(("grid_ms", "resolution_s"), [(1, 0.001), (10, 0.01), (100, 0.1), (200, 0.2), (250, 0.05)])
def test_times_that_an_exporter_rounds_are_known_to_be_exact_to_its_grid(
    tmp_path: Path, grid_ms: int, resolution_s: float
) -> None:
    rows = "".join(f"{1700000000 + k * grid_ms / 1000:.3f},0.5,10.0.0.1,10.0.1.1,4096\n" for k in range(0, 400, 3))
    part = parsed(b"start_time,duration,src,dst,bytes\n" + rows.encode(), tmp_path)
    assert part.facts["flow"]["resolution_s"] == resolution_s


def test_both_directions_of_one_zeek_connection_are_two_records(tmp_path: Path) -> None:
    text = FORMATS["zeek-json"].replace(b'"resp_bytes":0', b'"resp_bytes":77')
    assert {(r["src"], r["dst"], r["bytes"]) for r in records_of(parsed(text, tmp_path))} == {
        ("10.0.0.1", "10.0.1.1", 66903424),
        ("10.0.1.1", "10.0.0.1", 77),
    }


def test_ipv4_and_ipv6_rows_and_a_broken_line_share_one_file(tmp_path: Path) -> None:
    six = FORMATS["nfdump-ndjson"].replace(
        b'"src4_addr":"10.0.0.1","dst4_addr":"10.0.1.1"', b'"src6_addr":"fd01::1","dst6_addr":"fd01::2"'
    )
    part = parsed(FORMATS["nfdump-ndjson"] + b"{broken\n" + six, tmp_path)
    assert {r["src"] for r in records_of(part)} == {"10.0.0.1", "fd01::1"}
    assert part.facts["flow"]["bad_rows"] == 1


def test_tshark_packets_become_transfers_and_the_innermost_address_counts(tmp_path: Path) -> None:
    text = (
        b"frame.time_epoch,ip.src,ip.dst,udp.srcport,udp.dstport,frame.len\n"
        b'"1700000000.000001","192.168.0.1,10.0.17.1","192.168.0.2,10.0.18.1","49169","4791","4170"\n'
        b'"1700000000.000100","10.0.17.1","10.0.18.1","49169","4791","4170"\n'
        b'"1700000000.500000","10.0.17.1","10.0.18.1","49169","4791","100"\n'
    )
    assert [(r["src"], r["bytes"], r["packets"]) for r in records_of(parsed(text, tmp_path))] == [
        ("10.0.17.1", 8340, 2),
        ("10.0.17.1", 100, 1),
    ]


@pytest.mark.parametrize(
    "header",
    [
        b"version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status\n",
        b"",
    ],
)
def test_vpc_logs_give_volumes_and_the_report_says_why_not_for_steps(header: bytes, tmp_path: Path) -> None:
    row = b"2 1 eni-0a 10.0.134.187 10.0.14.231 31790 31566 6 4 562 1617604407 1617604466 ACCEPT OK\n"
    part = parsed(header + row * 3 + b"2 1 eni-0a - - - - - - - 1617604407 1617604466 - NODATA\n", tmp_path)
    assert part.facts["flow"]["format"] == "aws-vpc"
    report = flows_json([part])
    assert report["usable_for_timeline"] is False
    assert "whole seconds" in report["why_not"]
    assert "jobs and volumes only" in report["why_not"]


def _vpc_row(sender: str, port: int, action: str, receiver: str = "10.0.14.1") -> bytes:
    return f"2 1 eni-0a {sender} {receiver} 41022 {port} 6 4 562 1617604407 1617604466 {action} OK\n".encode()


def test_a_port_at_which_a_firewall_refuses_several_machines_is_found(tmp_path: Path) -> None:
    refused = _vpc_row("10.0.14.2", 29500, "REJECT") + _vpc_row("10.0.14.3", 29500, "REJECT")
    (found,) = flows.KIND.analyse([parsed(refused + _vpc_row("10.0.14.2", 443, "ACCEPT"), tmp_path)])
    assert (found.outcome.adds, found.is_fault) == ("network.packet_loss", True)
    assert found.words == "2 machines to 10.0.14.1 port 29500: refused"


@pytest.mark.parametrize(
    "rows",
    [
        _vpc_row("10.0.14.2", 29500, "REJECT"),
        _vpc_row("1.2.3.4", 22, "REJECT") + _vpc_row("1.2.3.5", 22, "REJECT"),
        b"".join(_vpc_row(f"10.0.14.{k}", 29500, "REJECT") for k in (2, 3)) + _vpc_row("10.0.14.4", 29500, "ACCEPT"),
    ],
    ids=["one machine", "strangers", "another one passed"],
)
def test_other_refusals_say_nothing(rows: bytes, tmp_path: Path) -> None:
    assert flows.KIND.analyse([parsed(rows, tmp_path)]) == []


def test_records_without_a_duration_are_read_and_the_report_says_what_is_lost(tmp_path: Path) -> None:
    part = parsed(b"start_time,src,dst,bytes\n1700000000.5,a,b,100\n1700000001.5,a,b,100\n", tmp_path)
    assert len(records_of(part)) == 2
    assert any("no duration or end" in note for note in part.notes)


REFUSED = {
    "sflowtool": (
        b"FLOW,10.0.0.254,0,0,00902773db08,001083265e00,0x0800,0,0,10.0.0.1,10.0.0.254,17,0x00,64,35690,161,0x00,143,125,80\n",
        "no time",
    ),
    "column missing": (b"start_time,duration,src,bytes\n1,2,a,3\n", "destination address"),
    "no rows": (b"start_time,duration,src,dst,bytes\n", "header but no rows"),
    "wrong delimiter": (b"start_time#duration#src#dst#bytes\n1#2#a#b#3\n", "divided by '#'"),
    "a capture of nothing": (
        b"\xd4\xc3\xb2\xa1\x02\0\x04\0" + b"\0" * 8 + b"\xff\xff\0\0\x01\0\0\0",
        "no whole packet",
    ),
    "broken parquet": (b"PAR1 and then nothing of the kind", "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_gets_a_sentence(name: str, tmp_path: Path) -> None:
    data, words = REFUSED[name]
    part = parsed(data, tmp_path)
    assert part.skipped is not None
    assert words in part.skipped
    report = flows_json([part])
    assert report["usable_for_timeline"] is False
    assert report["why_not"]


def test_reversed_times_absurd_volumes_and_torn_rows_cost_only_themselves(tmp_path: Path) -> None:
    text = b"start_time;duration;src;dst;bytes\n1700000000.5;-0.2;a;b;100\n1700000001.5;0.2;a;b;1000000000\n1700000002.5;0.2;a;b;-5\n1700000003.5;0.2;a\n"
    part = parsed(text, tmp_path)
    assert [(r["bytes"], r["end"] - r["start"]) for r in records_of(part)] == [(100, 0), (1000000000, 200_000_000)]
    assert part.facts["flow"]["reversed"] == 1


def test_packet_samples_are_scaled_and_not_used_for_steps(tmp_path: Path) -> None:
    line = b'{"type":"SFLOW_5","sampling_rate":100,"time_flow_start_ns":%d,"time_flow_end_ns":%d,"bytes":1500,"packets":1,"src_addr":"a","dst_addr":"b","proto":"UDP"}\n'
    part = parsed(
        b"".join(line % (1700000000 * NS + k * 1_234_567, 1700000000 * NS + k * 1_234_567) for k in range(50)), tmp_path
    )
    assert {r["bytes"] for r in records_of(part)} == {150_000}
    assert "sampled" in flows_json([part])["why_not"]


def test_port_counters_show_bandwidth_over_time(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "SaveTimeUTC": [1716480000000 + 500 * k for k in range(100)],
            "PortName": ["p1"] * 100,
            "InOctets": [1000, 3000] * 50,
            "OutOctets": [10] * 100,
        }
    )
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    part = parsed(buffer.getvalue(), tmp_path)
    (port,) = part.facts["flow"]["bandwidth"]["ports"]
    assert part.skipped is None
    assert sum(port["in_bps"]) * part.facts["flow"]["bandwidth"]["slice_s"] / 8 == pytest.approx(200_000, rel=0.02)


def test_a_gap_between_port_readings_is_no_peak(tmp_path: Path) -> None:
    seconds = [*range(100), *range(400, 500)]
    counter = [1000 * s for s in seconds]
    table = pl.DataFrame(
        {"time": [1.7e9 + s for s in seconds], "port": "p1", "inOctets": counter, "outOctets": counter}
    )
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    (port,) = parsed(buffer.getvalue(), tmp_path).facts["flow"]["bandwidth"]["ports"]
    assert port["in_bps"] == pytest.approx([8000] * len(port["in_bps"]))


def test_a_line_that_never_ends_is_cut_after_some_blocks() -> None:
    found = list(blocks_of_lines(io.BytesIO(b'1,2\n3,"' + b"x" * 50_000), size=1_000))
    assert b"".join(found) == b'1,2\n3,"' + b"x" * 50_000
    assert max(map(len, found)) <= 3_000


def test_rows_of_later_blocks_are_read_like_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnosis.kinds.flows.read.readers.base.blocks_of_lines.__defaults__", (b"", 512))
    text = b"start_time,duration,src,dst,bytes\n" + b"".join(
        b"1700000000.%03d,0.001,a,b,%d\n" % (k, k) for k in range(300)
    )
    assert [r["bytes"] for r in records_of(parsed(text, tmp_path))] == list(range(300))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.sampled_from(
        [
            b"",
            b"PAR1",
            b"\xd4\xc3\xb2\xa1",
            b"\x0a\x0d\x0d\x0a",
            b"{",
            b"[{",
            b"start_time,duration,src,dst,bytes\n",
            b"#fields\tts\tid.orig_h\n",
        ]
    ),
    tail=st.binary(max_size=400),
)
def test_any_bytes_are_refused_or_read_but_never_raise(
    head: bytes, tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = head + tail
    sniff(data, "x")
    part = parse_flow(io.BytesIO(data), "x", ParseHints(), tmp_path_factory.mktemp("any"))
    assert part.skipped or part.columns is not None


def test_a_record_of_decades_ago_does_not_stretch_the_capture(tmp_path: Path) -> None:
    rows = b"".join(b"%.3f,0.01,a,b,100\n" % (1_700_000_000 + k / 10) for k in range(400))
    part = parsed(b"start_time,duration,src,dst,bytes\n" + rows + b"12.5,0.01,a,b,100\n", tmp_path)
    capture = load_capture([part])
    assert capture is not None
    assert capture.span_s < 60
    assert any("1 record lies more than 30 days" in note for note in capture.notes)


@pytest.mark.parametrize("stamp", ["-1e10", "1e19", "99999999999999999999"])
def test_a_time_beyond_all_calendars_costs_its_row_only(stamp: str, tmp_path: Path) -> None:
    good = "1700000000.5,0.1,a,b,100\n" * 9
    part = parsed(f"start_time,duration,src,dst,bytes\n{good}{stamp},0.1,a,b,100\n".encode(), tmp_path)
    assert part.facts["flow"]["records"] == 9
    assert part.facts["flow"]["bad_rows"] == 1


CSV = "start_time,duration,src,dst,bytes\n"


def rows_of_csv(count: int = 4000) -> list[str]:
    return [
        f"{1_700_000_000 + i / 1000:.6f},0.01,10.0.0.{i % 9 + 1},10.0.1.{i % 9 + 1},{1000 + i}" for i in range(count)
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("mark", "lost"), [('"10.0.0', 0), ('"10.\n0.0', 2)], ids=["one mark", "a line break behind it"]
)
def test_a_quotation_mark_that_is_not_closed_costs_its_row_at_most(mark: str, lost: int, tmp_path: Path) -> None:
    rows = rows_of_csv()
    rows[2500] = rows[2500].replace("10.0.0", mark)
    part = parsed((CSV + "\n".join(rows)).encode(), tmp_path)
    assert part.skipped is None
    assert part.facts["flow"]["records"] == len(rows) - (lost > 0)
    assert any("quotation mark is not closed" in note for note in part.notes)


@pytest.mark.parametrize("first", ["", "\r", "1700000000.0,0.01"], ids=["blank", "return", "torn"])
def test_a_blank_or_torn_first_row_is_no_reason_to_refuse_the_rest(first: str, tmp_path: Path) -> None:
    rows = rows_of_csv(50)
    part = parsed((CSV + first + "\n" + "\n".join(rows)).encode(), tmp_path)
    assert part.facts["flow"]["records"] == 50


def test_a_stretch_without_times_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = partial(blocks_of_lines, size=8192)
    monkeypatch.setattr("diagnosis.kinds.flows.read.readers.delimited.blocks_of_lines", small)
    blank = ["," + row.partition(",")[2] for row in rows_of_csv(2000)]
    rows = [*rows_of_csv(2000), *blank, *rows_of_csv(2000)]
    part = parsed((CSV + "\n".join(rows) + "\n").encode(), tmp_path)
    assert part.facts["flow"]["records"] == 4000


def test_goflow2_of_the_first_version_uses_the_finest_times(tmp_path: Path) -> None:
    row = {"Type": "NETFLOW_V9", "TimeReceived": 1700000001, "SamplingRate": 0, "SamplerAddress": "192.168.1.1"}
    row |= {"TimeFlowStart": 1700000000, "TimeFlowEnd": 1700000000, "TimeFlowStartMs": 1700000000123}
    row |= {"TimeFlowEndMs": 1700000000623, "Bytes": 4096, "SrcAddr": "10.0.0.1", "DstAddr": "10.0.0.2", "Proto": 17}
    part = parsed((json.dumps(row) + "\n").encode(), tmp_path)
    (record,) = records_of(part)
    assert (record["start"], record["end"]) == (1700000000123000000, 1700000000623000000)
    assert part.facts["flow"]["format"] == "goflow2"


def test_a_file_of_one_record_is_not_misread_for_its_summary(tmp_path: Path) -> None:
    data = (
        b"ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt\n"
        b"2023-11-14 22:13:20.123,2023-11-14 22:13:20.623,0.500,10.0.0.1,10.0.0.2,1,2,UDP,.,0,0,10,4096\n"
        b"Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,4096,10,1,1,1\n"
    )
    (record,) = records_of(parsed(data, tmp_path))
    assert record["end"] - record["start"] == 500_000_000


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"5 vpc-1 eni-1 10.0.0.1 10.0.0.2 4791 17 ACCEPT OK 10 5000 1700000000 1700000060\n" * 3, "need their header"),
        (
            b"#separator \\x7c\\x7c\n#fields||ts||id.orig_h||id.resp_h||orig_bytes\n1||10.0.0.1||10.0.0.2||5\n",
            "one sign",
        ),
        (b"frame.time\tip.src\tip.dst\tframe.len\nNov 14, 2023\t10.0.0.1\t10.0.0.2\t5\n", "frame.time_epoch"),
        (b'{"records": [{"category": "FlowLogFlowEvent", "flowRecords": {"flows": [', "damaged"),
    ],
    ids=["aws without header", "two signs", "time for people", "azure cut off"],
)
def test_what_cannot_be_read_is_refused_with_what_to_export(data: bytes, said: str, tmp_path: Path) -> None:
    assert said in str(parsed(data, tmp_path).skipped)


def test_an_open_mark_before_very_many_short_lines_costs_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(base.LIMITS), "lines", 100)
    data = b'start_time,duration,src,dst,bytes\n1772000000,1,"10.0.0.1,10.0.0.2,' + b"x\n" * 5_000
    told = parse_flow(io.BytesIO(data), "flows.csv", ParseHints(), tmp_path).skipped
    assert told == "Most of its 5,000 lines so far are too short for a record of a flow."

"""Packets beside the flow records of the same traffic."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from diagnosis.kinds.flows.tell.overlapping import drop_double_views
from diagnosis.model import Kind, Parsed


def part(folder: Path, name: str, pairs: str, begin: int, end: int) -> Parsed:
    """A file of the format that its name ends with: one record a second of each pair ("ab": a to b)."""
    rows = [(pair[0], pair[1], t * 10**9, t * 10**9 + 1) for pair in pairs.split() for t in range(begin, end)]
    columns = folder / f"{name}.parquet"
    pl.DataFrame(rows, schema=["src", "dst", "start", "end"], orient="row").write_parquet(columns)
    facts = {"format": name.rpartition(".")[2], "t0": float(begin), "t1": float(end)}
    return Parsed(name, Kind.FLOW, lines=len(rows), facts={"flow": facts}, columns=columns)


@pytest.mark.parametrize(
    ("packets", "is_kept"),
    [(("ab ba", 4, 6), False), (("ab ca", 4, 6), True), (("ab", 18, 22), True), (("ab", 12, 14), True)],
    ids=["the same", "other pairs", "goes on longer", "a pair that the records lack then"],
)
def test_packets_are_left_out_only_if_the_records_show_their_traffic(
    packets: tuple[str, int, int], *, is_kept: bool, tmp_path: Path
) -> None:
    records = [part(tmp_path, "early.csv", "ab ba bc", 0, 10), part(tmp_path, "late.csv", "bc", 10, 20)]
    sample = part(tmp_path, "sample.pcap", *packets)
    kept, notes = drop_double_views([*records, sample])
    assert kept == [*records, *([sample] if is_kept else [])]
    assert len(notes) == (not is_kept)


def test_a_packet_capture_alone_is_kept(tmp_path: Path) -> None:
    sample = part(tmp_path, "sample.pcap", "ab", 0, 5)
    assert drop_double_views([sample]) == ([sample], [])

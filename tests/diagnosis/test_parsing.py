"""parse and merge: what a line becomes, and that nothing is lost or raised."""

import io
import tracemalloc
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from diagnosis import Kind, Level, Parsed, ParseHints, merge, parse
from diagnosis.files.parsed import load, save
from diagnosis.files.recognise import is_divisible
from diagnosis.kinds.logs.columns.sources import Sources
from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.read.lines import blocks
from diagnosis.kinds.logs.read.reader import LogReader
from diagnosis.kinds.logs.rows import stored_rows

LOG = b"""[rank3]: [2026-03-01 08:00:00,250] [INFO] [loader.py:12:open] opened /data/part-1.bin with 12 workers
[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/train.py", line 7, in <module>
[rank3]:     main()
[rank3]: ValueError: bad sample 17
[rank4]: [2026-03-01 08:00:01,500] [ERROR] [launch.py:9:main] exits with return code = -9
[rank4]: [2026-03-01 08:00:01,500] [INFO] [loader.py:12:open] opened /data/part-22.bin with 9 workers
"""


def read(data: bytes, work: Path, path: str = "logs/node-7.log", **hints: object) -> Parsed:
    return parse(io.BytesIO(data), path, ParseHints(**hints), work)  # type: ignore[arg-type]


def columns(parsed: Parsed) -> pl.DataFrame:
    return stored_rows.read([stored_rows.lines_of(parsed)], COLUMNS)


def uniques(parsed: Parsed) -> pl.DataFrame:
    assert parsed.uniques is not None
    return pl.read_parquet(parsed.uniques)


def test_every_line_points_back_to_its_own_bytes(tmp_path: Path) -> None:
    table = columns(read(LOG, tmp_path))
    lines = LOG.split(b"\n")
    assert table["line"].to_list() == list(range(1, 8))
    for number, offset, length in table.select("line", "offset", "length").iter_rows():
        assert LOG[offset : offset + length] == lines[number - 1]


def test_the_same_message_has_one_id_whatever_its_parameters(tmp_path: Path) -> None:
    parsed = read(LOG, tmp_path)
    ids = columns(parsed)["masked"]
    assert ids[0] == ids[6]
    row = uniques(parsed).filter(pl.col("masked") == ids[0]).row(0, named=True)
    assert row["text"] == "[loader.py:<NUM>:open] opened <PATH> with <NUM> workers"
    assert (row["count"], row["first_line"], row["first_offset"], row["level"]) == (2, 1, 0, Level.INFO)
    assert row["example"].startswith("[rank3]: [2026-03-01 08:00:00,250]")


def test_exit_codes_stay_in_the_message(tmp_path: Path) -> None:
    texts = uniques(read(LOG, tmp_path))["text"].to_list()
    assert "[launch.py:<NUM>:main] exits with return code = -9" in texts


def test_time_rank_and_node_are_read(tmp_path: Path) -> None:
    parsed = read(LOG, tmp_path, time_zone="Asia/Shanghai")
    table = columns(parsed)
    assert table["time"][0] == 1_772_323_200_250_000_000
    assert table["time"][1] is None
    first, sixth = (parsed.sources[table["source"][index]] for index in (0, 5))
    assert (first.node, first.rank, sixth.node, sixth.rank) == ("node-7", 3, "node-7", 4)


def test_a_traceback_is_one_record(tmp_path: Path) -> None:
    assert columns(read(LOG, tmp_path))["record"].to_list() == [1, 2, 2, 2, 2, 6, 7]


def test_merged_ranges_equal_the_whole(tmp_path: Path) -> None:
    whole = read(LOG, tmp_path / "whole")
    starts = [0, *(index + 1 for index, byte in enumerate(LOG) if byte == 10)]
    for cut in starts[1:-1]:
        parts = [read(LOG[:cut], tmp_path / f"a{cut}"), read(LOG[cut:], tmp_path / f"b{cut}", offset=cut)]
        merged = merge(parts, tmp_path / f"m{cut}")
        assert merged.sources == whole.sources
        assert columns(merged).equals(columns(whole))
        assert uniques(merged).equals(uniques(whole))


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    parsed = read(LOG, tmp_path)
    save(parsed, tmp_path)
    assert load(tmp_path) == parsed


def test_what_an_older_version_saved_is_loaded(tmp_path: Path) -> None:
    parsed = replace(read(LOG, tmp_path), occurrences=tmp_path / "cells.parquet")
    path = save(replace(parsed, occurrences=None), tmp_path)
    path.write_text(path.read_text().replace('"occurrences": null', '"cells": "cells.parquet"'))
    assert load(tmp_path) == parsed


def test_an_empty_file_and_a_program_say_what_to_do(tmp_path: Path) -> None:
    empty = read(b"", tmp_path / "a")
    assert empty.skipped and "empty" in empty.skipped
    program = read(b"\x7fELF\x02\x01\x01" + bytes(500), tmp_path / "b", path="train.log")
    assert program.kind is Kind.OTHER and program.skipped and "ELF" in program.skipped


def test_only_plain_logs_are_parsed_in_ranges() -> None:
    assert is_divisible(LOG, "x.log")
    assert not is_divisible(b'{"msg": "started", "level": "info"}\n' * 5, "x.log")
    assert not is_divisible(DMESG, "x.log")
    assert not is_divisible(LOG.decode().encode("utf-16"), "x.log")
    assert not is_divisible(b"\x7fELF\x02\x01\x01" + bytes(500), "x.log")


DMESG = b"""[    0.000000] Linux version 6.8.0 (builder@host) #101 SMP Tue Nov 14 13:30:08 UTC 2023
[    2.000000] rtc_cmos 00:04: setting system clock to 2026-03-01T08:00:02 UTC (1772352002)
<3>[ 3600.500000][  T421] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.
"""
BOOT = 1_772_352_000_000_000_000


def test_kernel_lines_that_count_from_boot_are_dated_by_one_that_states_both(tmp_path: Path) -> None:
    parsed = read(DMESG, tmp_path)
    assert columns(parsed)["time"].to_list() == [BOOT, BOOT + 2 * 10**9, BOOT + 3600_500_000_000]
    assert "dated by lines that also state" in " ".join(parsed.notes)
    assert uniques(parsed)["text"][2].startswith("NVRM: Xid")


def test_kernel_lines_take_the_boot_that_a_system_log_next_to_them_tells(tmp_path: Path) -> None:
    syslog = b"Mar  1 08:00:10 trn-17 kernel: [   10.000000] eth0: link up\n2026-03-01 08:00:00 start\n"
    table = columns(read(b"[   40.000000] mlx5_core 0000:1a:00.0 ib2: Link down\n" + syslog, tmp_path))
    assert table["time"].to_list() == [BOOT + 40 * 10**9, BOOT + 10 * 10**9, BOOT]


def test_kernel_lines_have_no_time_where_the_boot_is_not_told_or_not_one(tmp_path: Path) -> None:
    lost = read(b"[ 3600.500000] NVRM: Xid (PCI:0000:1a:00): 79\n", tmp_path / "a")
    assert columns(lost)["time"].to_list() == [None]
    assert "1 line states seconds since boot only" in " ".join(lost.notes)
    again = DMESG + DMESG.replace(b"1772352002", b"1772438402")
    assert columns(read(again, tmp_path / "b"))["time"].null_count() == 6


def test_other_seconds_in_brackets_are_no_uptime(tmp_path: Path) -> None:
    log = b"[1772352000.500000] loss 2.1\n[12.5] loss 2.0 at 2026-03-01T08:00:01Z\n"
    parsed = read(log, tmp_path)
    assert columns(parsed)["time"].to_list() == [BOOT + 500_000_000, BOOT + 10**9]
    assert parsed.notes == ()


def test_the_lines_of_each_writer_are_counted_over_all_blocks(tmp_path: Path) -> None:
    data = b"".join(b"[rank%d]: step %d\n" % (n % 3, n) for n in range(300))
    reader = LogReader([Sources("x.log")], tmp_path)
    reader.read(blocks(io.BytesIO(data), block_bytes=500))
    reader.finish()
    ranks = [source.rank for source in reader.logs[0].sources.all]
    assert dict(zip(ranks, reader.logs[0].counts, strict=True)) == {None: 0, 0: 100, 1: 100, 2: 100}


class LongLine(io.RawIOBase):
    """Lines of progress around a line of ``size`` bytes, which nobody holds as a whole."""

    def __init__(self, size: int) -> None:
        around = b"2026-03-01 08:00:00,250 [INFO] iteration %d\n"
        self._pieces = iter([around % 1, *[b"x" * (1 << 20)] * (size >> 20), b"\n", around % 2])
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self._rest = self._rest or next(self._pieces, b"")
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def test_a_line_of_any_length_takes_no_more_memory_than_a_block_and_a_sentence_says_what_was_read(
    tmp_path: Path,
) -> None:
    peaks = []
    for mb in (40, 120):
        tracemalloc.start()
        parsed = parse(LongLine(mb << 20), "node-7.log", ParseHints(), tmp_path / str(mb))  # type: ignore[arg-type]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert columns(parsed)["length"].to_list() == [42, mb << 20, 42]
        assert parsed.notes == (
            "Of lines longer than 65,536 bytes only the beginning and the end were read. All can be shown.",
        )
    assert peaks[1] < peaks[0] + (8 << 20)
    assert max(peaks) < 128 << 20

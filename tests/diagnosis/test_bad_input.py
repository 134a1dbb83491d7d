"""Whatever the bytes, parse answers, loses nothing, and every line points back to its own bytes."""

import gzip
import io
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis import Kind, Parsed, ParseHints, merge, parse
from diagnosis.__main__ import main
from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.read import lines
from diagnosis.kinds.logs.rows import stored_rows
from tests.hostile_files import PANICKING_PARQUET

PIECES = [
    b"\n", b"\r\n", b"\r", b"\0", b"\x1b[31m", b"[rank3]: ", b"  12: ", b"worker-2: ", b"2026-03-01 08:00:00,123 ",
    b"2026-13-99T99:99:99Z ", b"[ERROR] ", b"Traceback (most recent call last):", b"    at x", b"ValueError: 7",
    b" 45%|##  | 4/9 [00:01<00:02]", b"exit code 137", b"Xid (PCI:0000:3b:00): 79", b"\xff\xfe", b"\xe4",
    "漢😀".encode(),
    b'{"msg": "x", "time": 1e999}', b"\xef\xbb\xbf", b"a" * 3000, b"0x", b"::::",
    b"Feb 29 08:00:00 n1 kernel: ", b"E0230 08:00:00.000000 1 x]",
]  # fmt: skip


def columns_of(parsed: Parsed) -> pl.DataFrame:
    return stored_rows.read([stored_rows.lines_of(parsed)], COLUMNS)


def parsed_log(data: bytes, **hints: object) -> tuple[Parsed, pl.DataFrame]:
    with TemporaryDirectory() as work:
        parsed = parse(io.BytesIO(data), "x.log", ParseHints(kind=Kind.LOG, **hints), Path(work))  # type: ignore[arg-type]
        return parsed, columns_of(parsed)


_PIECE = st.sampled_from(PIECES) | st.binary(max_size=8)


@settings(max_examples=45, deadline=None)  # reading has a price of its own, so half of them are long
@given(st.lists(_PIECE, min_size=1, max_size=30) | st.lists(_PIECE, min_size=20, max_size=90))
def test_any_bytes_are_lines_that_point_back_to_themselves(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    if not data or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    if lines.BLOCK_BYTES and data.count(0) > 0.2 * len(data):  # may be taken for UTF-16, see below
        return
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    wanted = data[start:].split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    parsed, table = parsed_log(data)
    assert parsed.lines == len(wanted) == len(table)
    for row, line in zip(table.iter_rows(named=True), wanted, strict=True):
        assert data[row["offset"] : row["offset"] + row["length"]] == line
        assert 1 <= row["record"] <= row["line"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(PIECES[3:] + [b"\n"] * 8), min_size=8, max_size=80), st.integers(0, 10**6))
def test_any_cut_at_a_newline_merges_to_the_whole(pieces: list[bytes], seed: int) -> None:
    data = b"n1: start\n" + b"".join(pieces).replace(b"\0", b"") + b"\n"
    ends = [index + 1 for index, byte in enumerate(data[:-1]) if byte == 10]
    cut = random.Random(seed).choice(ends)
    with TemporaryDirectory() as folder:
        work = Path(folder)

        def part(raw: bytes, offset: int, name: str) -> Parsed:
            return parse(io.BytesIO(raw), "x.log", ParseHints(kind=Kind.LOG, offset=offset), work / name)

        whole, merged = part(data, 0, "w"), merge([part(data[:cut], 0, "a"), part(data[cut:], cut, "b")], work / "m")
        assert merged.lines == whole.lines
        assert columns_of(merged).equals(columns_of(whole))
        assert merged.sources == whole.sources
        assert merged.uniques and whole.uniques
        assert pl.read_parquet(merged.uniques).equals(pl.read_parquet(whole.uniques))


def test_the_same_bytes_give_the_same_files(tmp_path: Path) -> None:
    data = "".join(
        f"[rank{n % 5}]: 2026-03-01 08:00:{n % 60:02d} worker {n} lost 0x{n:x}\n" for n in range(5000)
    ).encode()
    for name in ("a", "b"):
        parse(io.BytesIO(data), "x.log", ParseHints(), tmp_path / name)
    for table in ("columns.parquet", "uniques.parquet"):
        assert (tmp_path / "a" / table).read_bytes() == (tmp_path / "b" / table).read_bytes()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_is_read_and_offsets_count_its_bytes(encoding: str) -> None:
    text = "[rank1]: 2026-03-01 08:00:00 start\n[rank2]: ERROR näh\nlast"
    data = text.encode(encoding)
    parsed, table = parsed_log(data)
    bare = encoding if encoding != "utf-16" else "utf-16-le"
    found = [data[o : o + n].decode(bare) for o, n in table.select("offset", "length").iter_rows()]
    assert found == text.split("\n")
    assert any("UTF-16" in note for note in parsed.notes)
    assert parsed.sources[table["source"][1]].rank == 2


def test_a_line_far_longer_than_a_block_keeps_its_ends_and_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines.blocks, "__kwdefaults__", {**(lines.blocks.__kwdefaults__ or {}), "block_bytes": 1 << 18})
    data = b"first\n[rank3]: ERROR begins" + b"x" * (5 << 20) + b"ends\nlast 7\n"
    parsed, table = parsed_log(data)
    assert parsed.lines == 3
    assert table["offset"].to_list() == [0, 6, len(data) - 7]
    assert table["length"].to_list() == [5, len(data) - 14, 6]
    assert parsed.sources[table["source"][1]].rank == 3


def test_blocks_of_any_size_give_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(
        b"[rank%d]: [2026-03-01 08:00:%02d] step %d\n  detail %d\n" % (n % 3, n % 60, n, n) for n in range(300)
    )
    _, whole = parsed_log(data)
    for size in (97, 1000, 4096):
        monkeypatch.setattr(
            lines.blocks, "__kwdefaults__", {**(lines.blocks.__kwdefaults__ or {}), "block_bytes": size}
        )
        assert parsed_log(data)[1].equals(whole)


BINARY = {
    "ELF": b"\x7fELF\x02\x01\x01" + bytes(300),
    "JPEG": b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256)) * 4,
    "binary": random.Random(1).randbytes(5000),
}


@pytest.mark.parametrize("name", BINARY)
def test_what_is_no_log_is_left_out_with_a_sentence(name: str, tmp_path: Path) -> None:
    parsed = parse(io.BytesIO(BINARY[name]), "train.log", ParseHints(), tmp_path)
    assert parsed.kind is Kind.OTHER
    assert parsed.skipped and name in parsed.skipped and parsed.skipped.endswith(".")
    assert parsed.bytes == len(BINARY[name])


def test_a_truncated_stream_keeps_what_came_before_and_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d of the log\n" % n for n in range(50_000)))
    with gzip.open(io.BytesIO(whole[: len(whole) // 2])) as stream:
        parsed = parse(stream, "x.log", ParseHints(), tmp_path)  # type: ignore[arg-type]
    assert parsed.lines > 1000
    assert any("truncated or damaged" in note for note in parsed.notes)


def test_an_unknown_time_zone_is_reported_and_utc_used(tmp_path: Path) -> None:
    parsed = parse(io.BytesIO(b"2026-03-01 08:00:00 x\n"), "x.log", ParseHints(time_zone="Mars/Olympus"), tmp_path)
    assert columns_of(parsed)["time"][0] == 1_772_352_000_000_000_000
    assert any("Mars/Olympus" in note for note in parsed.notes)


def test_markup_in_a_log_is_kept_as_text(tmp_path: Path) -> None:
    parsed = parse(io.BytesIO(b"<script>alert(1)</script>\n"), "x.log", ParseHints(), tmp_path)
    assert parsed.uniques
    assert "<script>" in pl.read_parquet(parsed.uniques)["example"][0]


def test_a_panic_of_a_library_costs_one_file_and_a_sentence(tmp_path: Path) -> None:
    parsed = parse(io.BytesIO(PANICKING_PARQUET), "flows.parquet", ParseHints(), tmp_path / "w")
    assert parsed.skipped is not None
    assert "cannot be read" in parsed.skipped


def test_the_command_line_survives_a_panic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flows.parquet").write_bytes(PANICKING_PARQUET)
    (tmp_path / "run.log").write_bytes(b"2026-03-01 08:00:00 RuntimeError: CUDA error: device-side assert triggered\n")
    assert main([str(tmp_path), "--json"]) == 0
    assert "flows.parquet" in capsys.readouterr().out


def test_the_command_line_tells_a_panic_of_the_whole_analysis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of range")

    (tmp_path / "run.log").write_bytes(b"2026-03-01 08:00:00 a line\n")
    monkeypatch.setattr("diagnosis.pipeline.diagnose", panic)
    assert main([str(tmp_path)]) == 1
    assert "the analysis failed (PanicException: index out of range)" in capsys.readouterr().err

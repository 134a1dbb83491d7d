"""A log with too many different messages is still read completely, in bounded memory, and its notes say so."""

import io
import random
from pathlib import Path

import polars as pl
import pytest

from diagnosis import Parsed, ParseHints, merge, parse
from diagnosis.kinds.logs.read import reader
from diagnosis.kinds.logs.rows import events, messages, stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.kinds.logs.text import mask
from diagnosis.model import Level
from diagnosis.pipeline import diagnose

XID = b"kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4243, GPU has fallen off the bus.\n"


def different(count: int) -> bytes:
    """Lines of which no two say the same."""
    rng = random.Random(3)
    words = ["".join(rng.choices("ghijklmnopqrstuvwxyz", k=7)) for _ in range(count)]
    return b"".join(f"2026-03-01 08:00:00 loader took {word} of shard {n}\n".encode() for n, word in enumerate(words))


def read(data: bytes, work: Path, offset: int = 0) -> tuple[Parsed, pl.DataFrame, pl.DataFrame]:
    parsed = parse(io.BytesIO(data), "n1.log", ParseHints(offset=offset), work)
    assert parsed.columns and parsed.uniques
    return parsed, pl.read_parquet(parsed.columns), pl.read_parquet(parsed.uniques)


def test_further_messages_are_counted_by_their_first_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_MESSAGES", 100)
    parsed, columns, uniques = read(different(1_000), tmp_path)
    assert len(uniques) == 101
    assert parsed.facts["folded_lines"] == 900
    assert any("first words" in note for note in parsed.notes)
    assert uniques.row(100, named=True)["text"] == "loader took <MORE>"
    assert uniques["count"][100] == 900
    assert uniques["count"].sum() == 1_000
    assert set(columns["masked"]) == set(uniques["masked"])


def test_a_fault_after_a_flood_of_messages_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_MESSAGES", 100)
    parsed, _, uniques = read(different(500) + XID, tmp_path)
    assert uniques["example"].str.contains("Xid").sum() == 1
    assert "Xid (PCI:<PCI>): 79" in uniques["text"][-1]
    told = diagnose([parsed], read=lambda path, offset, length: b"")
    assert any("first words" in sentence and "n1.log" in sentence for sentence in told.missing)


def test_even_different_beginnings_end_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_MESSAGES", 100)
    data = b"".join(line.split(b" took ")[1] for line in different(2_000).splitlines(keepends=True))
    _, _, uniques = read(data, tmp_path)
    assert len(uniques) == 201
    assert uniques["text"][-1] == mask.OTHER_MESSAGES
    assert uniques["count"].sum() == 2_000


def test_ranges_of_such_a_log_keep_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_MESSAGES", 100)
    data = different(600)
    cut = data.index(b"\n", len(data) // 2) + 1
    parts = [read(data[:cut], tmp_path / "a")[0], read(data[cut:], tmp_path / "b", offset=cut)[0]]
    merged = merge(parts, tmp_path / "m")
    assert merged.lines == 600
    assert merged.facts["folded_lines"] == sum(part.facts["folded_lines"] for part in parts) > 0


def said(texts: list[str], to: Path, level: Level = Level.INFO, count: int = 1) -> Path:
    """A file's table of distinct messages."""
    table = {"masked": [mask.identity(t) for t in texts], "text": texts, "example": texts, "level": level.value}
    to.parent.mkdir(exist_ok=True)
    types = {"masked": pl.UInt64, "level": pl.UInt8, "count": pl.UInt64}
    pl.DataFrame({**table, "count": count}, schema_overrides=types).write_parquet(to)
    return to


def words(count: int, verb: str = "began") -> list[str]:
    return [f"loader {chr(97 + n // 26)}{chr(97 + n % 26)} {verb}" for n in range(count)]


def test_a_job_keeps_the_messages_of_each_kind_with_most_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_MESSAGES", 20)
    rare, often = words(60), words(15, "ended")
    tables = [
        said(rare, tmp_path / "a.parquet"),
        said(often, tmp_path / "b.parquet", count=3),
        said(words(5, "broke"), tmp_path / "c.parquet", Level.ERROR),
        said(["loader exit 7"], tmp_path / "d.parquet"),
    ]
    kept, is_cut = messages.merge_messages([Rows(file, None, 0) for file in tables])
    assert is_cut
    assert {*often, *words(5, "broke"), "loader exit 7"} <= set(kept["text"])
    assert len(kept) == 20 + 6
    assert kept["masked"].is_sorted()


def test_messages_are_merged_a_few_files_at_a_time_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [Rows(said(words(30)[n:], tmp_path / f"{n}.parquet", count=n + 1), None, 0) for n in range(10)]
    whole, is_cut = messages.merge_messages(tables)
    monkeypatch.setattr(messages, "_MAX_BATCH_FILES", 3)
    assert messages.merge_messages(tables)[0].equals(whole)
    assert not is_cut
    assert dict(whole.select("text", "count").iter_rows())["loader aj began"] == sum(range(1, 11))


def test_logs_that_take_turns_in_two_tables_are_merged_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [said(words(30), tmp_path / f"{n}.parquet") for n in range(2)]
    turns = [Rows(tables[n % 2], n // 2, 1) for n in range(60)]
    reads = []
    read_rows = stored_rows.read
    monkeypatch.setattr(stored_rows, "read", lambda rows, names: reads.append(len(rows)) or read_rows(rows, names))
    monkeypatch.setattr(messages, "_MAX_BATCH_FILES", 3)

    merged, _ = messages.merge_messages(turns)

    assert reads == [60]
    assert merged["count"].to_list() == [2] * 30


def test_a_job_of_nothing_but_different_messages_is_diagnosed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MAX_MESSAGES", 50)
    flood = different(400) + b"2026-03-01 08:00:01 ERROR CUDA error: an illegal memory access was encountered\n"
    logs = {"n1.log": flood, "n2.log": different(380)}
    parsed = [parse(io.BytesIO(data), path, ParseHints(), tmp_path / path) for path, data in logs.items()]
    table = events.build(parsed)
    assert table.is_cut
    assert table.spans["lines"].to_list() == [401, 380]
    assert set(table.occurrences["masked"]) <= set(table.messages["masked"])
    told = diagnose(parsed, read=lambda path, offset, length: logs[path][offset : offset + length])
    assert any("more different messages" in sentence for sentence in told.missing)
    assert "illegal memory access" in told.headline


def test_three_times_as_many_different_errors_ask_the_tables_no_more_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [0]
    choose = pl.DataFrame.filter

    def counted(table: pl.DataFrame, *chosen: pl.Expr) -> pl.DataFrame:
        asked[-1] += 1
        return choose(table, *chosen)

    rng = random.Random(4)
    vocabulary = [line.split()[4] for line in different(400).splitlines()]
    monkeypatch.setattr(pl.DataFrame, "filter", counted)
    for count in (100, 300):
        data = b"".join(b"ERROR " + b" ".join(rng.choices(vocabulary, k=12)) + b"\n" for _ in range(count))
        parsed, _, _ = read(data, tmp_path / str(count))
        diagnose([parsed], read=lambda path, at, size, data=data: data[at : at + size])
        asked.append(0)
    assert asked[1] < asked[0] + 40

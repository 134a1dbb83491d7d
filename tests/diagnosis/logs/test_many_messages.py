"""A log with more different messages than can be held is still read whole, in bounded memory, and says so."""

import io
import random
from pathlib import Path

import polars as pl
import pytest

from diagnosis import Parsed, ParseHints, merge, parse
from diagnosis.logs import mask, reader, templates
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
    monkeypatch.setattr(reader, "MOST_MESSAGES", 100)
    parsed, columns, uniques = read(different(1_000), tmp_path)
    assert len(uniques) == 101
    assert parsed.facts["folded_lines"] == 900
    assert any("first words" in note for note in parsed.notes)
    assert uniques.row(100, named=True)["text"] == "loader took <MORE>"
    assert uniques["count"][100] == 900
    assert uniques["count"].sum() == 1_000
    assert set(columns["masked"]) == set(uniques["masked"])


def test_a_fault_after_a_flood_of_messages_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_MESSAGES", 100)
    parsed, _, uniques = read(different(500) + XID, tmp_path)
    assert uniques["example"].str.contains("Xid").sum() == 1
    assert "Xid (PCI:<PCI>): 79" in uniques["text"][-1]
    told = diagnose([parsed], read=lambda path, offset, length: b"")
    assert any("first words" in sentence and "n1.log" in sentence for sentence in told.missing)


def test_even_different_beginnings_end_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_MESSAGES", 100)
    data = b"".join(line.split(b" took ")[1] for line in different(2_000).splitlines(keepends=True))
    _, _, uniques = read(data, tmp_path)
    assert len(uniques) == 201
    assert uniques["text"][-1] == mask.ANY
    assert uniques["count"].sum() == 2_000


def test_ranges_of_such_a_log_keep_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_MESSAGES", 100)
    data = different(600)
    cut = data.index(b"\n", len(data) // 2) + 1
    parts = [read(data[:cut], tmp_path / "a")[0], read(data[cut:], tmp_path / "b", offset=cut)[0]]
    merged = merge(parts, tmp_path / "m")
    assert merged.lines == 600
    assert merged.facts["folded_lines"] == sum(part.facts["folded_lines"] for part in parts) > 0


def test_only_more_different_messages_than_can_be_clustered_are_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(texts: list[str]) -> pl.DataFrame:
        return pl.DataFrame(
            {"masked": [mask.identity(text) for text in texts], "text": texts}, schema_overrides={"masked": pl.UInt64}
        )

    monkeypatch.setattr(templates, "MAX_CLUSTERED", 20)
    words = [f"loader {chr(97 + n // 26)}{chr(97 + n % 26)} began" for n in range(60)]
    assert not templates.is_degraded([table(words[:15])] * 9)
    assert not templates.is_degraded([table([f"x{n}<NUM>{n} done" for n in range(60)])])
    assert templates.is_degraded([table(words[:30]), table(words[30:])])
    assert templates.mine([table(words)])["template"].n_unique() == 60

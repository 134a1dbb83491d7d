"""Small files that are read together give what each gives alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.files import parse_pool
from diagnosis.kinds.logs import log_parsing
from diagnosis.kinds.logs.columns.tables import COLUMNS, UNIQUES
from diagnosis.kinds.logs.read import known
from diagnosis.kinds.logs.rows import occurrences, stored_rows
from diagnosis.model import Parsed, ParseHints

LINES = (
    "2026-03-01 08:00:00,123 INFO [rank3]: step 12 loss 3.5",
    "2026-03-01 08:00:01,500 ERROR [rank3]: CUDA error: out of memory",
    "2026-03-01T08:00:02+01:00 node-7 trainer: saved checkpoint 40",
    "Mar  1 08:00:03 node-9 kernel: [  123.456789] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus",
    "[   99.000001] eth0: link down",
    "[default0]:Traceback (most recent call last):",
    '  File "train.py", line 9, in <module>',
    "ValueError: shapes (3,4) and (5,6) do not match",
    "",
    "   ",
    "ünïcode 訓練が停止しました step=7",
    "x" * 70_000,
    "I0301 08:00:04.000001 12345 main.cc:9] ready",
)
FILES = st.lists(st.lists(st.sampled_from(LINES), min_size=1, max_size=8), min_size=2, max_size=5)


def both(folder: Path, texts: list[bytes], hints: ParseHints) -> tuple[list[Parsed | str], list[Parsed | str]]:
    """What is read of files one by one, and together."""
    sources = []
    for number, text in enumerate(texts):
        sources.append(folder / f"node-{number}.log")
        sources[-1].write_bytes(text)

    def tasks(name: str) -> list[parse_pool.Task]:
        return [parse_pool.Task(file, file.name, hints, folder / name / file.name) for file in sources]

    return [parse_pool.parse_one(task) for task in tasks("alone")], list(parse_pool.parse_all(tasks("together"), 1))


def told(parsed: Parsed, name: str) -> object:
    """What is the same: only a file that is read alone may be a range of another one, only others are counted."""
    value = getattr(parsed, name)
    apart = ("ends", "edges", "stamps")
    return {key: fact for key, fact in value.items() if key not in apart} if name == "facts" else value


@settings(max_examples=40)
@given(files=FILES, ends=st.booleans(), zone=st.sampled_from(["UTC", "Europe/Berlin", "Nowhere/Town"]))
def test_files_read_together_give_what_each_gives_alone(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], ends: bool, zone: str
) -> None:
    texts = [("\n".join(lines) + "\n" * ends).encode() for lines in files]

    alone, together = both(tmp_path_factory.mktemp("files"), texts, ParseHints(time_zone=zone))

    for one, other in zip(alone, together, strict=True):
        assert isinstance(one, Parsed) and isinstance(other, Parsed)
        for name in ("path", "kind", "sha256", "bytes", "lines", "skipped", "notes", "sources", "facts"):
            assert told(one, name) == told(other, name), name
        assert (one.columns is None) == (other.columns is None)
        if one.columns is not None:
            assert stored_rows.read([stored_rows.lines_of(one)], COLUMNS).equals(
                stored_rows.read([stored_rows.lines_of(other)], COLUMNS)
            )
            messages = [stored_rows.read([stored_rows.messages_of(p)], UNIQUES) for p in (one, other)]
            assert messages[0].equals(messages[1])
    logs = [p for p in together if isinstance(p, Parsed) and p.columns is not None]
    rows, bases = [stored_rows.lines_of(p) for p in logs], [10 * number for number in range(len(logs))]
    counted, read = (
        occurrences.occurrences_of_files(rows, bases, None, None, logs),
        occurrences.occurrences_of_files(rows, bases, None, None),
    )
    assert counted[0].equals(read[0])
    assert counted[1].equals(read[1])
    for p, lines in zip(logs, rows, strict=True):
        if "stamps" in p.facts:
            assert [p.facts["stamps"]] == occurrences.years(stored_rows.read([lines], COLUMNS), [lines.size])


def test_other_files_of_a_batch_are_read_alone(tmp_path: Path) -> None:
    texts = [b"step 1\n", b"\x80\x02 pickle", b"", b'{"msg": "step 2", "level": "info"}\n' * 3, b"step 3\n"]

    alone, together = both(tmp_path, texts, ParseHints())

    assert [isinstance(one, Parsed) and one.kind for one in together] == [
        isinstance(one, Parsed) and one.kind for one in alone
    ]


def test_a_file_that_cannot_be_read_with_others_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("one line of one file")

    monkeypatch.setattr(log_parsing, "prepare_files", fails)

    alone, together = both(tmp_path, [b"step 1\n", b"step 2\n"], ParseHints())

    assert [one.lines for one in together if isinstance(one, Parsed)] == [1, 1]
    assert known.shared.get() is not None and len(alone) == 2

"""Of an old job the telling lines are kept, and they alone lead to the same verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis import keeping
from diagnosis.files import kept_lines
from diagnosis.files.gathering import Evidence, gather
from diagnosis.keeping import PLANS, choose_rows, condense, verdict
from diagnosis.model import ParseHints
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json

STEPS = "".join(f"2026-11-21 03:{n // 60:02d}:{n % 60:02d},000 INFO iteration {n} loss 2.5\n" for n in range(600))
OOM = "2026-11-21 03:10:01,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def job(folder: Path, last: str = OOM) -> Evidence:
    for node in range(6):
        file = folder / "job" / f"node-{node}.log"
        file.parent.mkdir(exist_ok=True)
        once = f"2026-11-21 02:59:00,000 INFO driver {'odd' if node == 4 else 'usual'} build\n"
        file.write_text(once + STEPS + (last if node == 3 else ""))
    (folder / "tables").mkdir()
    return gather([folder / "job"], folder / "tables")


def kept_of(found: Evidence, folder: Path) -> pl.DataFrame:
    folder.mkdir()
    assert condense(found.parsed, read=found.read, hints={}, out=folder / "kept.parquet") is not None
    return kept_lines.read((folder / "kept.parquet").read_bytes())


def test_cited_and_rare_lines_are_kept_and_ordinary_ones_thinned_out(tmp_path: Path) -> None:
    found = job(tmp_path)
    kept = kept_of(found, tmp_path / "kept")
    texts = [row.decode() for row in kept["text"]]
    assert OOM.strip() in texts
    assert any("driver odd build" in text for text in texts)
    assert 0 < sum("iteration" in text for text in texts) < 100, "of 3,600"
    assert kept.filter(pl.col("path") == "node-3.log")["line"].max() == 602, "lines keep their numbers"


def test_the_kept_lines_lead_to_the_same_verdict(tmp_path: Path) -> None:
    found = job(tmp_path)
    kept = kept_of(found, tmp_path / "kept")
    for (path,), rows in kept.group_by("path", maintain_order=True):
        again = tmp_path / "again" / str(path)
        again.parent.mkdir(exist_ok=True)
        again.write_bytes(b"\n".join(rows["text"]) + b"\n")
    (tmp_path / "more").mkdir()
    rest = gather([tmp_path / "again"], tmp_path / "more")
    before, after = (to_json(diagnose(one.parsed, read=one.read)) for one in (found, rest))
    assert before["conclusion"]["condition"] == "failed"
    assert verdict(before) == verdict(after)


def test_a_job_whose_verdict_needs_more_lines_keeps_more_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = job(tmp_path)
    said = iter(["of all lines", "of too few", "of all lines"])
    counts = []

    def counted(logs: Any, cited: Any, plan: Any) -> pl.DataFrame:
        rows = choose_rows(logs, cited, plan)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(keeping, "choose_rows", counted)
    monkeypatch.setattr(keeping, "diagnose", lambda *_, **__: None)
    monkeypatch.setattr(keeping, "to_json", lambda _: {})
    monkeypatch.setattr(keeping, "verdict", lambda _: next(said))
    assert condense(found.parsed, read=found.read, hints={}, out=tmp_path / "a") is not None
    assert len(counts) == 2
    assert counts[0] < counts[1]
    monkeypatch.setattr(keeping, "verdict", lambda _: object())
    assert condense(found.parsed, read=found.read, hints={}, out=tmp_path / "b") is None


def test_the_choice_depends_on_the_lines_alone(tmp_path: Path) -> None:
    found = job(tmp_path)
    first, second = (choose_rows(found.parsed, set(), PLANS[0]) for _ in range(2))
    assert first.equals(second)


def test_a_log_in_utf_16_is_not_condensed(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "a.log").write_bytes(STEPS.encode("utf-16"))
    (tmp_path / "tables").mkdir()
    found = gather([folder], tmp_path / "tables")
    hints = {"a.log": ParseHints()}
    assert condense(found.parsed, read=found.read, hints=hints, out=tmp_path / "kept") is None


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(1, 50),
        st.none() | st.integers(0, 10**18),
        st.sampled_from([0, 7, 2**64 - 1]),
    ),
    max_size=12,
    unique_by=lambda row: row[:2],
)


@given(rows=ROWS)
def test_kept_lines_are_read_as_they_were_stored(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int | None, int]]
) -> None:
    out = tmp_path_factory.mktemp("kept") / "kept.parquet"
    names = ("path", "line", "time", "masked")
    lines = {name: [row[n] for row in sorted(rows, key=lambda row: row[:2])] for n, name in enumerate(names)}
    more = {"who": "rank 1", "level": 2, "text": b"a line"}
    kept = pl.DataFrame(
        lines | {name: [value] * len(rows) for name, value in more.items()}, schema=kept_lines.KEPT_SCHEMA
    )
    kept_lines.write(kept, out)
    found = kept_lines.read(out.read_bytes())
    assert found.schema == kept.schema
    assert found.drop("time", "masked").equals(kept.drop("time", "masked"))
    assert found["time"].to_list() == [None if at is None else at // 10**6 * 10**6 for at in kept["time"]]
    assert found["masked"].n_unique() == kept["masked"].n_unique()

    kept_lines.write_without(out.read_bytes(), "a", out)
    assert kept_lines.read(out.read_bytes())["line"].equals(found.filter(pl.col("path") != "a")["line"])
    kept.write_parquet(out)
    assert kept_lines.read(out.read_bytes()).equals(kept), "as version 0.1 stored them"

"""A sealed set shows figures and nothing else until it is opened, which is recorded."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from exams import sealed
from measure import logs, sets
from measure.evidence import SHARED
from measure.sets import JobSet

pytestmark = pytest.mark.skipif(not (SHARED / "tools" / "score.py").exists(), reason="no scorer; set FAULTLINE_SHARED")


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JobSet:
    """A sealed set of two made-up jobs."""
    open_set = sets.load()["courses"]
    few = JobSet("sealed-x", "", lambda seed: iter(list(open_set.jobs(seed))[:2]), sets.nothing, is_sealed=True)
    monkeypatch.setattr(sets, "load", lambda: {"sealed-x": few})
    monkeypatch.setattr(sealed, "_RECORD", tmp_path / "opened.toml")
    return few


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["measure logs", "sealed-x", *arguments])
    logs.main()


@pytest.mark.parametrize("asked", [["--show"], ["--only", "node"], ["--out", "x.json"]])
def test_nothing_of_a_sealed_job_is_shown(shut: JobSet, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    with pytest.raises(SystemExit, match="sealed"):
        run(monkeypatch, *asked)
    assert sealed.opened() == {}


def test_measuring_a_sealed_set_prints_figures_alone(
    shut: JobSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "told", lambda *_: {"logs": None, "suspects": [], "headline": ""})
    run(monkeypatch)
    printed = capsys.readouterr().out
    assert "category_ok" in printed
    assert not [job.name for job in shut.jobs(1) if job.name in printed]


def test_opening_is_recorded_once_with_its_day(
    shut: JobSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "told", lambda *_: {"logs": None, "suspects": [], "headline": ""})
    run(monkeypatch, "--open", "--show")
    assert list(sealed.opened()) == ["x"]
    sealed.record("x", date(2020, 1, 1))
    assert sealed.opened()["x"].year > 2020

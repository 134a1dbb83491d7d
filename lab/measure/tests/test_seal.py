"""A sealed set shows only figures until it is opened, and the opening is recorded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lab.exams import sealed
from lab.exams.job import Job
from lab.measure import logs, score, sets
from lab.measure.evidence import SHARED
from lab.measure.sets import JobSet

pytestmark = pytest.mark.skipif(not (SHARED / "tools" / "score.py").exists(), reason="no scorer; set FAULTLINE_SHARED")


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JobSet:
    """A sealed set of two made-up jobs."""
    open_set = sets.load()["courses"]
    few = JobSet("sealed-x", "", lambda seed: iter(list(open_set.jobs(seed))[:2]), sets.no_jobs, is_sealed=True)
    monkeypatch.setattr(sets, "load", lambda: {"sealed-x": few})
    monkeypatch.setattr(sealed, "_RECORD", tmp_path / "opened.toml")
    return few


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, name: str = "sealed-x") -> None:
    monkeypatch.setattr("sys.argv", ["measure logs", name, *arguments])
    logs.main()


def perfect(job: Job) -> dict[str, Any]:
    """The report that states the truth of a job."""
    truth, by_template = job.truth, defaultdict[str, list[dict[str, Any]]](list)
    if truth["healthy"]:
        return {"logs": {"is_failure": False, "nodes": [], "lines": [], "events": []}, "suspects": []}
    for path, held in truth["lines"].get("root", {}).items():
        for tid, ranges in held.items():
            by_template[tid] += [{"file": path, "line": n} for low, high in ranges for n in range(low, high + 1)]
    said = {
        **{k: truth[k] for k in ("category", "subcategory", "symptom", "stage")},
        **{"is_failure": True, "iteration": truth["iteration"]["failed"], "confidence": 1.0},
        "nodes": [{"node": n, "score": 1.0, "suspect": True} for n in truth["faulty_nodes"]],
        "lines": [line for lines in by_template.values() for line in lines],
        "events": [{"template": tid, "role": "root", "lines": lines} for tid, lines in by_template.items()],
    }
    return {"logs": said, "suspects": [{"entity": truth["switch"]}]}


@pytest.mark.parametrize("asked", [["--show"], ["--only", "node"], ["--out", "x.json"]])
def test_nothing_of_a_sealed_job_is_shown(shut: JobSet, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    with pytest.raises(SystemExit, match="sealed"):
        run(monkeypatch, *asked)
    assert sealed.opened() == {}


def test_measuring_a_sealed_set_prints_figures_alone(
    shut: JobSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "report_of", lambda *_: {"logs": None, "suspects": [], "headline": ""})
    run(monkeypatch)
    printed = capsys.readouterr().out
    assert "category_ok" in printed
    assert not [job.name for job in shut.jobs(1) if job.name in printed]


def test_opening_is_recorded_once_with_its_day(
    shut: JobSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "report_of", lambda *_: {"logs": None, "suspects": [], "headline": ""})
    run(monkeypatch, "--open", "--show")
    assert list(sealed.opened()) == ["x"]
    sealed.record("x", date(2020, 1, 1))
    assert sealed.opened()["x"].year > 2020


def test_one_word_names_every_set_that_is_still_sealed(
    shut: JobSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "report_of", lambda *_: {"logs": None, "suspects": [], "headline": ""})
    run(monkeypatch, name=sets.SEALED)
    assert "sealed-x, seeds" in capsys.readouterr().out
    known = {"sealed-x": shut, "x": replace(shut, name="x", is_sealed=False)}
    assert sets.chosen_sets([sets.SEALED], known) == [shut]
    assert [s.name for s in sets.chosen_sets(["x", sets.SEALED], known)] == ["x", "sealed-x"]


def test_the_scorer_gives_full_marks_for_the_truth_of_a_sealed_job() -> None:
    for of in (s for s in sets.load().values() if s.name.startswith(f"{sets.SEALED}-")):
        for number, job in enumerate(islice(of.jobs(5), 8)):
            found = score.row(job, perfect(job))
            held = {k: v for k, v in found.items() if k in score.GOALS and v is not None and k not in score.CONFIDENCE}
            wrong = [k for k, v in held.items() if (v > 0 if k in score.FLAWS else v < 1)]
            assert held and not wrong, number

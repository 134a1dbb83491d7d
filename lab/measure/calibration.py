"""Fits how sure verdicts are, by what was measured of them: `python -m lab.measure calibration [--write]`.

Takes the verdicts of whole jobs: the public jobs of the read part, the real jobs that ended well, and made-up worlds
(``--worlds SET:SEED…``). Two logistic functions, of verdicts about a failure and of those that nothing failed, with a
ridge; a source with many jobs counts as the square root of their number. Prints for each kind and set, with whole
sources left out (ten groups of sources): the Brier score, and how many of the verdicts said with at least .90 are
right; the same of the confidence in use. ``--write`` stores the fits on all jobs in
``diagnosis/verdict_probability.json``.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

import diagnosis
from diagnosis.history import History
from diagnosis.kinds.logs.decide import verdict_probability
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from lab.measure import public, sets
from lab.measure.evidence import members, parse_files
from lab.measure.logs import history, report_of

type Vector = npt.NDArray[np.float64]

FOLDS: Final = 10
#: Strength of the ridge.
RIDGE: Final = 1.0
#: A verdict said with at least this confidence counts as a sure one.
SURE: Final = 0.90
WORLDS: Final = ("clusters:3",)
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "failure": ("votes", "by_form", "rivalled", "several_files", "several_machines"),
    "no_failure": ("succeeded", "running", "problem", "open_exception", "several_files"),
}
#: Columns whose weight may only have this sign; the fit chooses the sign of the others.
SIGNS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("votes", "succeeded", "running"), 1),
    **dict.fromkeys(("by_form", "rivalled", "problem", "open_exception", "several_files"), -1),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict: its set, its source, its kind, its columns, the confidence in use, and whether it was right."""

    of: str
    source: str
    kind: str
    columns: tuple[float, ...]
    told: float
    is_right: bool


def main() -> int:
    """Print the figures with whole sources left out."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--worlds", nargs="*", default=list(WORLDS), metavar="SET:SEED")
    options.add_argument("--also", nargs="*", default=[], type=Path, metavar="FOLDER", help="labels.csv and jobs/")
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    judged = [*_public_jobs(), *_real_jobs(), *_worlds(chosen.worlds)]
    for folder in chosen.also:
        judged += _labelled(folder.name, public.labels(folder), folder / "jobs")
    fits = {}
    for kind, names in NAMES.items():
        of_kind = [one for one in judged if one.kind == kind]
        print_figures(kind, of_kind, left_out(of_kind))
        found = [round(float(value), 3) for value in fit(of_kind)]
        fits[kind] = {
            "fitted_on": f"{len(of_kind)} verdicts",
            "intercept": found[0],
            "weights": dict(zip(names, found[1:], strict=True)),
        }
    text = json.dumps({"made_by": "python -m lab.measure calibration --write", "fits": fits}, indent=2) + "\n"
    print(text)
    if chosen.write:
        Path(diagnosis.__file__).with_name("verdict_probability.json").write_text(text, encoding="utf-8")
    return 0


def print_figures(kind: str, judged: Sequence[Judged], found: Vector) -> None:
    """One line a set."""
    told = np.array([one.told for one in judged])
    right = np.array([one.is_right for one in judged], dtype=np.float64)
    of_set = np.array([one.of for one in judged])
    for name in dict.fromkeys(of_set):
        is_in = of_set == name
        before, after = (_figures(said[is_in], right[is_in]) for said in (told, found))
        print(
            f"{kind}, {name}: {is_in.sum()} verdicts, right {right[is_in].mean():.3f}; in use {before}; fitted {after}"
        )


def _figures(said: Vector, right: Vector) -> str:
    is_sure = said >= SURE
    share = f"{right[is_sure].mean():.3f}" if is_sure.any() else "-"
    return f"Brier {np.mean((said - right) ** 2):.3f}, sure {is_sure.sum()}, of them right {share}"


def left_out(judged: Sequence[Judged]) -> Vector:
    """The fitted confidence of each verdict, its source left out of the fit."""
    sources = sorted({one.source for one in judged})
    fold = {source: number % FOLDS for number, source in enumerate(sources)}
    found = np.zeros(len(judged))
    for number in range(FOLDS):
        weights = fit([one for one in judged if fold[one.source] != number])
        for place, one in enumerate(judged):
            if fold[one.source] == number:
                found[place] = _probabilities(_table([one]), weights)[0]
    return found


def fit(judged: Sequence[Judged]) -> Vector:
    """Intercept and weights of a logistic regression with a ridge. O(rounds × verdicts)."""
    names = NAMES[judged[0].kind]
    of_source = Counter(one.source for one in judged)
    shares = np.array([of_source[one.source] ** -0.5 for one in judged])
    table, right = _table(judged), np.array([one.is_right for one in judged], dtype=np.float64)

    def loss(weights: Vector) -> tuple[float, Vector]:
        found = np.clip(_probabilities(table, weights), 1e-9, 1 - 1e-9)
        misfit = -np.sum(shares * (right * np.log(found) + (1 - right) * np.log(1 - found)))
        ridge = np.concatenate([[0.0], RIDGE * weights[1:]])
        slope = table.T @ (shares * (found - right)) + ridge
        return float(misfit + weights @ ridge / 2), slope

    limits = {1: (0.0, None), -1: (None, 0.0), 0: (None, None)}
    bounds = [(None, None), *(limits[SIGNS.get(name, 0)] for name in names)]
    found = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x, dtype=np.float64)


def _table(judged: Sequence[Judged]) -> Vector:
    return np.array([(1.0, *one.columns) for one in judged], dtype=np.float64)


def _probabilities(table: Vector, weights: Vector) -> Vector:
    return np.asarray(1 / (1 + np.exp(-(table @ weights))), dtype=np.float64)


def _public_jobs() -> Iterator[Judged]:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(public.PUBLIC / "logs.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        yield from _labelled("public", public.jobs("read"), Path(folder))


def _labelled(of: str, labels: Iterable[public.Label], folder: Path) -> Iterator[Judged]:
    for label in labels:
        files = dict(members(folder / label.name))
        with tempfile.TemporaryDirectory() as work, _columns() as seen:
            parsed, read = parse_files(files, Path(work))
            figures = public.row(label, to_json(diagnose(parsed, read=read)))
        yield from _judged(of, label.source, seen, label.is_failure, figures.get("leaf"))


def _real_jobs() -> Iterator[Judged]:
    of = sets.load()["real"]
    for job in of.jobs(1):
        with _columns() as seen:
            report_of(job, of, History())
        if job.truth["outcome"] == "success":
            yield from _judged("real", f"real {job.family}", seen, False, None)


def _worlds(names: Iterable[str]) -> Iterator[Judged]:
    known = sets.load()
    for name, seed in (world.split(":") for world in names):
        of = known[name]
        healthy = history(of.successes(int(seed)))
        for job in of.jobs(int(seed)):
            with _columns() as seen:
                answer = report_of(job, of, healthy)
            right = of.row(job, answer).get("subcategory_ok")
            yield from _judged(name, name, seen, not job.truth.get("healthy"), right)


def _judged(
    of: str,
    source: str,
    seen: Mapping[str, list[tuple[Mapping[str, float], float]]],
    has_failed: bool,
    right: float | None,
) -> Iterator[Judged]:
    """The last verdict of a job; nothing of a verdict about a failure whose truth is not known."""
    for kind, rows in seen.items():
        is_right = not has_failed if kind == "no_failure" else right
        if rows and is_right is not None:
            columns, told = rows[-1]
            yield Judged(of, source, kind, tuple(columns[name] for name in NAMES[kind]), told, bool(is_right))


@contextmanager
def _columns() -> Iterator[dict[str, list[tuple[Mapping[str, float], float]]]]:
    """The columns and the confidence in use of each verdict that is calibrated meanwhile, by kind."""
    seen: dict[str, list[tuple[Mapping[str, float], float]]] = defaultdict(list)
    usual: Callable[[str, Mapping[str, float]], float] = verdict_probability.probability

    def spy(kind: str, columns: Mapping[str, float]) -> float:
        found = usual(kind, columns)
        seen[kind].append((columns, found))
        return found

    with patch.object(verdict_probability, "probability", spy):
        yield seen


if __name__ == "__main__":
    raise SystemExit(main())

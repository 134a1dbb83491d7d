"""Fits the order of candidates for the root line: `python -m lab.measure ranker [--write]`.

Takes the tables of candidates (`diagnosis.kinds.logs.causes.root_events.candidates`) of the public jobs of the read
part, of the set ``real`` and of the small cases, whose root lines were labelled by reading, of one machine each. A
conditional logit: of the candidates of one job the labelled ones should score highest. Weights have the sign that
their meaning demands; a source with many jobs counts as the square root of their number. Prints how often a root line
comes first with whole sources left out (ten groups of sources); ``--write`` stores the fit on all jobs.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.optimize import minimize

import diagnosis
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.root_events import candidates
from diagnosis.kinds.logs.columns import physical
from diagnosis.model import Kind
from diagnosis.pipeline import diagnose
from lab.measure import public, sets
from lab.measure.evidence import SHARED, members, parse_files

type Vector = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

CASES: Final = SHARED / "data" / "cases"
FOLDS: Final = 10
#: Strength of the ridge.
RIDGE: Final = 0.3
#: Columns whose weight may only have this sign; the fit chooses the sign of the others.
SIGNS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("rule", "rule_strong", "rule_decisive", "error", "problem_word"), 1),
    **dict.fromkeys(("first_exception", "near_end", "after_progress"), 1),
    **dict.fromkeys(("explained", "consequence", "mild", "survived", "went_on"), -1),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One job: its source, its candidates as rows of ``measures``, and which of them a reader accepts."""

    name: str
    source: str
    measures: Vector
    is_right: Mask


def main() -> int:
    """Print the figures of each set with whole sources left out."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    judged = [*_public_jobs(), *_real_jobs(), *_cases()]
    usable = [job for job in judged if job.is_right.any()]
    print_figures(judged, usable)
    found = {name: round(float(value), 3) for name, value in zip(candidates.NAMES, fit(usable), strict=True)}
    stored = {"made_by": "python -m lab.measure ranker --write", "fitted_on": f"{len(usable)} jobs"}
    text = json.dumps(stored | {"weights": found}, indent=2) + "\n"
    print(text)
    if chosen.write:
        Path(diagnosis.__file__).with_name("ranker.json").write_text(text, encoding="utf-8")
    return 0


def print_figures(judged: Sequence[Judged], usable: Sequence[Judged]) -> None:
    """One line a set: jobs, those whose root line is a candidate at all, and those where it comes first."""
    sources = sorted({job.source for job in usable})
    fold = {source: number % FOLDS for number, source in enumerate(sources)}
    first: Counter[str] = Counter()
    for number in range(FOLDS):
        weights = fit([job for job in usable if fold[job.source] != number])
        for job in usable:
            if fold[job.source] == number:
                first[_set_of(job)] += int(job.is_right[np.argmax(job.measures @ weights)])
    of_set, possible = Counter(map(_set_of, judged)), Counter(map(_set_of, usable))
    for name, jobs in of_set.items():
        print(f"{name}: {jobs} jobs, a candidate in {possible[name]}, first in {first[name]} with its source left out")


def fit(judged: Sequence[Judged]) -> Vector:
    """The weights of a conditional logit with a ridge. O(rounds × candidates)."""
    of_source = Counter(job.source for job in judged)
    shares = [of_source[job.source] ** -0.5 for job in judged]

    def loss(weights: Vector) -> tuple[float, Vector]:
        value, slope = RIDGE * float(weights @ weights) / 2, RIDGE * weights
        for job, share in zip(judged, shares, strict=True):
            scores = job.measures @ weights
            odds = np.exp(scores - scores.max())
            right = odds * job.is_right
            value -= share * float(np.log(right.sum() / odds.sum()))
            slope = slope + share * (job.measures.T @ (odds / odds.sum() - right / right.sum()))
        return value, slope

    limits = {1: (0.0, None), -1: (None, 0.0), 0: (None, None)}
    bounds = [limits[SIGNS.get(name, 0)] for name in candidates.NAMES]
    found = minimize(loss, np.zeros(len(candidates.NAMES)), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x, dtype=np.float64)


def _set_of(job: Judged) -> str:
    return job.name.partition("/")[0]


def _public_jobs() -> Iterator[Judged]:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(public.PUBLIC / "logs.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        for label in public.jobs("read"):
            if label.is_failure:
                files = dict(members(Path(folder) / label.name))
                lines = {path: _lines_of_label(label, path) for path in files}
                yield from _judged(f"public/{label.name}", label.source, files, lines)


def _lines_of_label(label: public.Label, path: str) -> frozenset[int]:
    return frozenset(number for file, number in label.root_lines if path.endswith(file))


def _real_jobs() -> Iterator[Judged]:
    of = sets.load()["real"]
    for job in of.jobs(1):
        lines = dict.fromkeys(job.files, frozenset(job.truth["root_lines"]))
        yield from _judged(f"real/{job.name}", f"real {job.family}", job.files, lines, of.kind)


def _cases() -> Iterator[Judged]:
    """The small cases that state a root line; each is a source of its own."""
    for name, wanted in json.loads((CASES / "expected.json").read_text(encoding="utf-8")).items():
        if line := wanted.get("root_line"):
            yield from _judged(f"case/{name}", name, {name: (CASES / name).read_bytes()}, {name: frozenset([line])})


def _judged(
    name: str,
    source: str,
    files: Mapping[str, bytes],
    lines: Mapping[str, Collection[int]],
    kind: Kind | None = None,
) -> Iterator[Judged]:
    """The last attempt of a job; nothing if no line of it is a candidate."""
    with tempfile.TemporaryDirectory() as work, _tables() as seen:
        parsed, read = parse_files(files, Path(work), kind=kind)
        diagnose(parsed, read=read)
        if not seen or seen[-1][1].is_empty():
            return
        facts, table = seen[-1]
        if facts.total > 1:
            return
        right = _events_of(facts, lines)
    yield Judged(
        name, source, table.select(candidates.NAMES).to_numpy(), table["event"].is_in(sorted(right)).to_numpy()
    )


@contextmanager
def _tables() -> Iterator[list[tuple[FailureFacts, pl.DataFrame]]]:
    """The facts and candidates of each attempt that is diagnosed meanwhile."""
    seen: list[tuple[FailureFacts, pl.DataFrame]] = []
    usual = candidates.candidates

    def spy(facts: FailureFacts) -> pl.DataFrame:
        seen.append((facts, usual(facts)))
        return seen[-1][1]

    with patch.object(candidates, "candidates", spy):
        yield seen


def _events_of(facts: FailureFacts, lines: Mapping[str, Collection[int]]) -> set[int]:
    """The events whose lines are labelled, by file and physical line."""
    found: set[int] = set()
    for number, path in enumerate(facts.table.files):
        if wanted := lines.get(path):
            masked = facts.catalogue.of["masked"].to_list()
            rows = facts.table.rows(masked, files=[number])
            places = physical.numbers(facts.table.lines[number].file, rows["line"].to_list(), rows["offset"].to_list())
            labelled = rows.filter(pl.Series(places, dtype=pl.Int64).is_in(sorted(wanted)))
            found |= set(labelled.join(facts.catalogue.of, on="masked")["event"].to_list())
    return found

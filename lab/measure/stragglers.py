"""Fits the weights of stragglers and tests them on left-out recordings: `python -m lab.measure stragglers DIR…`.

Of each recording with slow steps: the evidence of :mod:`stragglers` on its injected stretch, and on
runs of usual steps, where the right answer is nobody. Prints the weights fitted on all, and for each recording the
answer of the weights that were fitted on the others.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from diagnosis.evidence.inventory import Machine
from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.capture.capture import load_capture
from diagnosis.kinds.flows.slow.delays import EVIDENCE, Delays, find_raised_stretches, measure_delays
from diagnosis.kinds.flows.slow.slowness import slow_steps
from diagnosis.kinds.flows.slow.stragglers import THRESHOLDS, is_judged, join_stretches, probabilities, stretches
from diagnosis.kinds.flows.steps.windows import align_windows
from diagnosis.kinds.flows.tell.engine import analyse
from diagnosis.model import ParseHints
from lab.measure.recorded import Recording, recordings

#: Pull of the weights towards ``PRIOR``: so few recordings are separable, and their weights would grow without limit.
#: Few recordings show uplinks, so what is known counts more there: several pairs across an uplink that are slow at once
#: are no accident.
RIDGE = np.array([{"across": 0.3}.get(name, 0.03) for name in (*EVIDENCE, "nobody")])
PRIOR = np.array([{"across": 8.0}.get(name, 4.0) for name in (*EVIDENCE, "nobody")])
#: Number of stretches with the answer nobody, from the usual steps of a recording, and of shorter stretches from
#: injected ones.
DRAWS = 5
#: A step that took so many times the usual time shows the fault.
FAULTY = 3.0


@dataclass(frozen=True)
class Case:
    """One stretch: evidence of the candidates, the right ones (the faulty one; any of those of several faults; -1:
    nobody), its weight and names.
    """

    recording: str
    evidence: np.ndarray
    right: tuple[int, ...]
    weight: float
    names: tuple[str, ...]
    steps: int
    is_whole: bool


def cases(recording: Recording) -> list[Case]:
    """The stretches of one recording."""
    with tempfile.TemporaryDirectory() as work:
        parsed = parse_flow(io.BytesIO(recording.files["flows.parquet"]), "flows.parquet", ParseHints(), Path(work))
        hosts = [(n, h) for j in json.loads(recording.files["job.json"])["jobs"] for n, h in j["hosts"].items()]
        known = [Machine(node=n, address=h["ip"], switch=h["switch"]) for n, h in hosts]
        capture = load_capture([parsed], known)
    if capture is None:
        return []
    capture = align_windows(capture)
    jobs, _, _ = analyse(capture, without=frozenset({"stragglers"}))
    job = max(jobs, key=lambda a: 0 if a.steps is None else len(a.steps))
    if job.steps is None:
        return []
    mask, usual, _ = slow_steps(job.steps)
    dice = np.random.default_rng(0)
    delays = measure_delays(job.job, job.steps, capture)
    if delays is None:
        return []
    all_cases: list[Case] = []
    injected = _faulty_iterations(recording)
    judged = [s for s in stretches(mask) if is_judged(s, job.steps, usual)]
    for stretch in join_stretches(judged, find_raised_stretches(delays, usual)):
        hit = np.mean([np.abs(injected - (k + 1)).min() <= 1 for k in stretch.steps])
        if 0 < hit <= 0.5:
            continue
        right = _right_candidates(recording, delays) if hit else (-1,)
        all_cases += _case(recording.name, delays, list(stretch.steps), right, 1.0, is_whole=True)
        for _ in range(DRAWS if len(stretch.steps) > THRESHOLDS.steps else 0):
            part = dice.choice(
                stretch.steps, int(dice.integers(THRESHOLDS.steps, len(stretch.steps) + 1)), replace=False
            )
            all_cases += _case(recording.name, delays, sorted(part.tolist()), right, 1.0 / DRAWS)
    near_fault = np.convolve(mask, np.ones(5), "same") > 0
    for _ in range(DRAWS):
        first, length = int(dice.integers(2, max(3, len(mask) - 12))), int(dice.integers(THRESHOLDS.steps, 13))
        run = [k for k in range(first, first + length) if k < len(mask) and not near_fault[k] and k in delays.steps]
        run = [k for k in run if np.abs(injected - (k + 1)).min() > 1]
        if len(run) >= THRESHOLDS.steps:
            all_cases += _case(recording.name, delays, run, (-1,), 1.0 / DRAWS)
    return all_cases


def _faulty_iterations(recording: Recording) -> np.ndarray:
    """The iterations with the fault: those of the truth, and others of a slow job that took much longer than usual (the
    truth lists only the first time of a fault that comes and goes).
    """
    if not recording.truth.get("slow"):
        return np.array([-9])
    job = recording.truth["jobs"][0]
    lengths = recording.jobs[job["id"]].lengths
    long = [int(k) + 1 for k in np.flatnonzero(lengths > FAULTY * float(np.median(lengths))) if k > 1]
    return np.array(sorted({*(job["slow_steps_injected"] or job["slow_steps_observed"] or [-9]), *long}))


def _right_candidates(recording: Recording, delays: Delays) -> tuple[int, ...]:
    """The numbers of the faulty candidates; -1 if there is none."""
    names = set(recording.truth["faulty_nodes"])
    if recording.is_uplink:
        found = [n for n, c in enumerate(delays.candidates) if c.is_path][:1]
    else:
        found = [n for n, c in enumerate(delays.candidates) if set(c.names) <= names]
    return tuple(found) or (-1,)


def _case(
    name: str, delays: Delays, stretch: Sequence[int], right: tuple[int, ...], weight: float, *, is_whole: bool = False
) -> list[Case]:
    evidence = delays.evidence(stretch)
    if evidence is None:
        return []
    names = tuple("+".join(c.names) for c in delays.candidates)
    return [Case(name, evidence, right, weight, names, len(stretch), is_whole)]


def fit(cases: Sequence[Case]) -> np.ndarray:
    """The weights of the evidence, none negative, and that of nobody."""

    def loss(weights: np.ndarray) -> float:
        sure = [float(probabilities(c.evidence, weights[:-1], weights[-1])[list(c.right)].sum()) for c in cases]
        wrong = -sum(c.weight * np.log(max(p, 1e-12)) for c, p in zip(cases, sure, strict=True))
        return float(wrong + (RIDGE * (weights - PRIOR) ** 2).sum())

    start = np.ones(len(EVIDENCE) + 1)
    return np.asarray(minimize(loss, start, bounds=[(0.0, None)] * len(start)).x)


def main() -> int:
    """Print the weights and the answer for each left-out recording."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("places", nargs="+", type=Path, metavar="DIR")
    options.add_argument("--leave-out", metavar="TEXT", help="no recordings whose names begin so")
    options.add_argument("--evidence", action="store_true", help="print the evidence of each candidate too")
    chosen = options.parse_args()
    cases_by_name: dict[str, list[Case]] = {}
    for place in chosen.places:
        for recording in recordings(place, leave_out=chosen.leave_out):
            if recording.wanted in ("degraded", "healthy"):
                cases_by_name[recording.name] = cases(recording)
    everything = [c for rows in cases_by_name.values() for c in rows]
    weights = fit(everything)
    print("weights", dict(zip((*EVIDENCE, "nobody"), weights.round(2).tolist(), strict=True)))
    first, of, false, calm = 0, 0, 0, 0
    for name, rows in cases_by_name.items():
        without = fit([c for c in everything if c.recording != name])
        for case in rows:
            p = probabilities(case.evidence, without[:-1], without[-1])
            best = int(np.argmax(p))
            if case.right == (-1,):
                calm += 1
                false += best < len(case.names)
            if not case.is_whole:
                continue
            of += case.right != (-1,)
            first += int(np.argmax(p[:-1])) in case.right
            ranking = ", ".join(f"{case.names[n]} {p[n]:.2f}" for n in np.argsort(-p[:-1])[:3])
            right = " or ".join(case.names[n] for n in case.right if n >= 0) or "nobody"
            print(f"{name:20} {case.steps:3} steps: {ranking}; nobody {p[-1]:.2f}; true: {right}")
            if chosen.evidence:
                for at, row in enumerate(case.evidence):
                    print(f"    {case.names[at]:16}", row.round(2).tolist())
    print(f"left out: right one first {first} of {of}; somebody named for nobody's stretch {false} of {calm}")
    return 0

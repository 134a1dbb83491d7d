"""Finds who delayed a stretch of slow steps, with probabilities.

For each slow step :mod:`waiting` measures how long each member and each transfer delayed the job beyond
the usual. The evidence on each candidate (a machine, or the uplinks of a leaf) is the share of the step's excess, as
median over the stretch's steps. A conditional logit weighs it against *nobody*. Its few weights are fitted on
recordings of real training: ``python -m lab.measure stragglers`` prints them, and the answer for each recording that is
left out of the fit. More steps with the same evidence weigh more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.arrays import close_holes, runs
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.slow.delays import (
    EVIDENCE,
    MAX_SEARCHED_RECORDS,
    MAX_USUAL_BETWEEN,
    Candidate,
    Delays,
    find_raised_stretches,
    measure_delays,
)
from diagnosis.kinds.flows.slow.slowness import SlowReport, slow_steps
from diagnosis.kinds.flows.slow.two_at_once import with_two
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.waiting import shows_turns
from diagnosis.values.plain import percent
from diagnosis.values.stats import MAX_WEIGHT as MOST_SURE

THRESHOLDS: Final = thresholds.of("stragglers")


#: Evidence that a slow network shows and a slow machine does not; this share of the lateness is enough, because whoever
#: waits for the network is late too.
_NETWORK_EVIDENCE: Final = ("into", "sent", "silent", "across", "lost")

#: Fitted weights of the evidence.
WEIGHTS: Final = np.array(THRESHOLDS.weights)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Slow steps (numbers from 0) that belong together."""

    steps: tuple[int, ...]

    @property
    def first(self) -> int:
        """Its first step."""
        return self.steps[0]

    @property
    def last(self) -> int:
        """Its last step."""
        return self.steps[-1]


@packable
@dataclass(frozen=True, slots=True)
class StragglerResult:
    """The result of :func:`find_stragglers`; ``shows_turns``: the records are fine enough to show who delayed the
    others, so that findings from whole transfers of a ring count less. ``unnamed``: begin and end of stretches that
    nobody explains.
    """

    found: list[SlowReport]
    shows_turns: bool
    unnamed: tuple[tuple[float, float], ...] = ()


def find_stragglers(job: JobFlows, steps: Steps, capture: Capture) -> StragglerResult:
    """One finding for each stretch of slow steps that names a machine, an uplink, or few
    candidates. O(n log n) in the records of those steps.
    """
    mask, usual, _ = slow_steps(steps)
    wanted = [s for s in stretches(mask) if is_judged(s, steps, usual)]
    delays = measure_delays(job, steps, capture) if wanted or len(job.flows) <= MAX_SEARCHED_RECORDS else None
    if delays is None:
        return StragglerResult([], shows_turns(job, steps, capture))
    found: list[SlowReport] = []
    unnamed: list[tuple[float, float]] = []
    for stretch in join_stretches(wanted, find_raised_stretches(delays, usual)):
        evidence = delays.evidence(stretch.steps)
        if evidence is not None:
            candidates, evidence = with_two(delays.candidates, evidence)
            sizes = np.array([float(c.alternatives) for c in candidates])
            p = probabilities(evidence)
            if culprits := _smallest_set(p, sizes):
                found.append(_finding(culprits, delays, stretch, steps, usual=usual))
            elif p[-1] >= THRESHOLDS.nobody_p:
                unnamed.append((float(steps.start[stretch.first]), float(steps.end[stretch.last])))
    return StragglerResult(found, shows_turns=True, unnamed=tuple(unnamed))


def stretches(slow: Bools) -> list[Stretch]:
    """Slow steps with at most ``delays.MAX_USUAL_BETWEEN`` usual ones between them."""
    found = []
    for first, last in runs(close_holes(slow, MAX_USUAL_BETWEEN)):
        steps = first + np.flatnonzero(slow[first : last + 1])
        found.append(Stretch(tuple(steps.tolist())))
    return found


def join_stretches(slow: Sequence[Stretch], lasting: Sequence[tuple[int, ...]]) -> list[Stretch]:
    """The stretches of slow steps, and the ones in which somebody delayed step after step (``lasting``). One that holds
    a whole stretch of slow steps shows where that began and ended; of others that overlap such a stretch, none; of
    those that overlap each other, the one with the longest delays, which comes first in ``lasting``.
    """
    out: list[Stretch] = []
    left = list(slow)
    for steps in lasting:
        inside = [s for s in left if steps[0] <= s.first and s.last <= steps[-1]]
        overlapping = [s for s in (*out, *left) if s not in inside and steps[0] <= s.last and steps[-1] >= s.first]
        if not overlapping:
            out.append(Stretch(steps))
            left = [s for s in left if s not in inside]
    return sorted([*out, *left], key=lambda s: s.first)


def is_judged(stretch: Stretch, steps: Steps, usual: float) -> bool:
    """Whether a stretch is more than an occasional slow step."""
    longest = float(steps.normalised_s[list(stretch.steps)].max())
    return bool(len(stretch.steps) >= THRESHOLDS.steps or longest >= THRESHOLDS.standstill * usual)


def probabilities(evidence: Floats, weights: Floats = WEIGHTS, nobody: float = THRESHOLDS.nobody_weight) -> Floats:
    """The probability of each candidate, and last of nobody. ``evidence``: candidates × evidence."""
    value = np.append(evidence @ weights, nobody + np.log(len(evidence)))
    value = np.exp(value - value.max())
    return np.asarray(value / value.sum())


def join_findings(known: Sequence[SlowReport], named: StragglerResult) -> list[SlowReport]:
    """The findings on groups and switches joined with those of :func:`find_stragglers`: one answer for each stretch. An
    earlier finding of the same time is replaced by one that is surer or names fewer; it stays if it names the same. If
    the records show turns, a ring with one unknown culprit is no separate finding, because its hops are no whole
    transfers there; nor is what :func:`drop_unexplained` leaves out.
    """
    out = drop_unexplained([s for s in known if not (named.shows_turns and _is_vague(s))], named)
    for one in named.found:
        meanwhile = [s for s in out if s.kind in ("slow_group", "slow_switch") and _is_about_stretch(s, one.t0, one.t1)]
        same = [s for s in meanwhile if _names_in(s) == _names_in(one) and s.link == one.link]
        surer = [
            s for s in meanwhile if s.confidence >= one.confidence and len(_names_in(s)) <= max(1, len(_names_in(one)))
        ]
        if same:
            out = [s for s in out if s not in meanwhile or s in same]
        elif not surer:
            out = [s for s in out if s not in meanwhile] + [one]
    return out


def drop_unexplained(known: Sequence[SlowReport], named: StragglerResult) -> list[SlowReport]:
    """The findings without members that were late in a stretch that nobody explains: single turns were weighed there,
    which show more than the sums of a step.
    """
    return [slow for slow in known if slow.measure != "late" or not _is_about_any(slow, named.unnamed)]


def _is_about_any(slow: SlowReport, spans: Iterable[tuple[float, float]]) -> bool:
    return any(_is_about_stretch(slow, t0, t1) for t0, t1 in spans)


def _is_vague(slow: SlowReport) -> bool:
    """A group of transfers with one culprit that is not known."""
    return slow.kind == "slow_group" and not slow.measure and len(_names_in(slow)) != 1


def _names_in(slow: SlowReport) -> set[object]:
    """The names in a finding: machines, else members; for a switch, the candidate switches."""
    return set(slow.candidates) if slow.kind == "slow_switch" else set(slow.nodes or slow.culprits)


def _is_about_stretch(known: SlowReport, t0: float, t1: float) -> bool:
    """Whether a finding is about the stretch from t0 to t1: mostly at its time, and not of the whole capture."""
    common = min(known.t1, t1) - max(known.t0, t0)
    is_meanwhile = common > THRESHOLDS.common * (t1 - t0)
    is_short = known.t1 - known.t0 <= THRESHOLDS.longest * (t1 - t0)
    return bool(is_meanwhile and is_short)


def _smallest_set(p: Floats, sizes: Floats) -> list[tuple[int, float]]:
    """The candidates to report with their probabilities, the smallest set, in order of the probability of each name (a
    candidate has ``sizes`` of them); none if nobody is more likely, or the set is
    large.
    """
    if p[-1] >= THRESHOLDS.nobody_p:
        return []
    order = [int(at) for at in np.argsort(-p[:-1] / sizes, kind="stable")]
    total, smallest = 0.0, list[tuple[int, float]]()
    for at in order[: min(THRESHOLDS.set_size, max(1, len(order) // 2))]:
        smallest.append((at, float(p[at])))
        total += float(p[at])
        if total >= THRESHOLDS.set_p * (1.0 - float(p[-1])):
            return smallest
    return []


#: The reason for a machine and for an uplink, by the strongest evidence.
_REASONS: Final = {
    "late": "the others waited for {it}",
    "into": "what was sent to {it} came through late",
    "sent": "what {they} sent came through late",
    "silent": "{they} answered late what was sent to {it}",
    "across": "what crosses {it} came through late",
    "lost": "what was sent to {it} was lost and repeated",
}


def _candidate_text(candidate: Candidate) -> str:
    if candidate.kind == "link":
        return f"the link between {' and '.join(candidate.leaves)}"
    names = " and ".join(candidate.names)
    return f"the uplinks of {names}" if candidate.is_path else names


def _finding(
    culprits: Sequence[tuple[int, float]], delays: Delays, stretch: Stretch, steps: Steps, *, usual: float
) -> SlowReport:
    known_shares = delays.shares(stretch.steps)
    assert known_shares is not None
    candidates, shares = with_two(delays.candidates, known_shares)
    chosen = [candidates[at] for at, _ in culprits]
    first, p = culprits[0]
    evidence = dict(zip(EVIDENCE, np.minimum(shares[first], 1.0).tolist(), strict=True))
    network = max(_NETWORK_EVIDENCE, key=lambda name: evidence[name])
    is_late = evidence[network] < THRESHOLDS.network * evidence["late"]
    kind = "late" if is_late else network
    is_path = chosen[0].is_path
    if is_path:
        kind = max(("across", "into"), key=lambda name: evidence[name])
    of = "of the steps" if kind == "lost" else "of the lost time"
    who = ", or ".join(_candidate_text(c) for c in chosen)
    are_two = len(chosen) == 1 and chosen[0].kind == "two"
    words = {"it": "them", "they": "they"} if are_two else {"it": "it", "they": "it"}
    why = _REASONS["across" if is_path else kind].format_map(words)
    slow = SlowReport(
        "slow_switch" if is_path else "slow_group",
        float(steps.start[stretch.first]),
        float(steps.end[stretch.last]),
        f"{'' if len(chosen) == 1 else 'Either '}{who}: {why} ({percent(evidence[kind])} {of}).",
        factor=float(np.median(steps.normalised_s[list(stretch.steps)])) / usual,
        confidence=round(min(p, MOST_SURE), 3),
        shares=_shares(culprits, candidates),
    )
    slow.candidates = list(chain.from_iterable(c.leaves or c.names for c in chosen if c.is_path))
    slow.link = next((c.names[0] for c in chosen if c.kind == "link"), "")
    slow.members = slow.culprits = sorted(set(chain.from_iterable(c.members for c in chosen)))
    slow.nodes = list(chain.from_iterable(c.names for c in chosen if c.is_machine))
    if is_path:
        slow.switch = slow.candidates[0]
        return slow
    slow.measure = "late" if is_late else "transfers"
    return slow


def _shares(culprits: Iterable[tuple[int, float]], candidates: Sequence[Candidate]) -> dict[str, float]:
    """The probability of each name: alternative names of one candidate share its own."""
    shares: dict[str, float] = {}
    for at, p in culprits:
        one = candidates[at]
        own = dict.fromkeys(one.names, p / one.alternatives)
        shares = {name: round(shares.get(name, 0.0) + own.get(name, 0.0), 3) for name in {**shares, **own}}
    return shares

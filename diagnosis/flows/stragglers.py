"""Finds who delayed a stretch of slow steps, with probabilities.

For each slow step :mod:`diagnosis.flows.waiting` measures how long each member and each transfer delayed the job beyond
the usual. The evidence on each candidate (a machine, or the uplinks of a leaf) is the share of the step's excess, as
median over the stretch's steps. A conditional logit weighs it against *nobody*. Its few weights are fitted on
recordings of real training: ``python -m measure stragglers`` prints them, and the answer for each recording that is
left out of the fit. More steps with the same evidence weigh more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from diagnosis.flows.arrays import runs
from diagnosis.flows.capture import Bools, Capture, Floats
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.slowness import Slow, slow_steps
from diagnosis.flows.steps import Steps
from diagnosis.flows.waiting import shows_turns, waiting
from diagnosis.stats import MOST as MOST_SURE
from diagnosis.stats import spread

#: Slow steps of one stretch may have this many usual ones between them.
BETWEEN: Final = 2
#: A stretch is judged from this many slow steps, or if one took this many times the usual time.
LEAST: Final = 3
STANDSTILL: Final = 4.0
#: More steps than this with the same evidence add no certainty.
VOICES: Final = 16
#: Reported: one candidate from this probability, else the smallest set that reaches it together, of at most this many.
TOLD: Final = 0.5
SET: Final = 4

#: A candidate may have delayed more than the step lost (others would have waited anyway), but at most this counts.
MOST: Final = 1.5
#: Seconds count beyond this many standard deviations of usual steps.
NOISE: Final = 2.0
#: A slow link shows hanging transfers; silence of its two sides counts up to this many times that.
BESIDE: Final = 2.0

#: The evidence on a candidate, as shares of the lost time: ``held``: it should have acted, or transfers to it hung (for
#: uplinks: transfers across them); ``sent``: its transfers hung; ``silent``: transfers to it got no answer.
EVIDENCE: Final = ("held", "sent", "silent")
#: Fitted weights of the evidence, and of nobody (per candidate).
WEIGHTS: Final = np.array([6.7, 4.0, 5.3])
NOBODY: Final = 4.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A machine (``kind`` node, one name) or the uplinks of a leaf (``kind`` switch; several names if they cannot be
    separated). ``members``: address ids; ``is_machine``: the name is a machine's and no address.
    """

    kind: str
    names: tuple[str, ...]
    members: tuple[int, ...]
    is_machine: bool = False


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


@dataclass(frozen=True, slots=True)
class Held:
    """The delays by each candidate: ``shares`` [analysed steps, candidates, evidence], shares of the step's excess;
    ``hung`` [steps, candidates]: the part of ``held`` in which transfers hung.
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[int, ...]
    shares: Floats
    hung: Floats

    def evidence(self, stretch: Iterable[int]) -> Floats | None:
        """Candidates × evidence of a stretch; None if none of its steps was analysed."""
        rows = [self.steps.index(k) for k in stretch if k in self.steps]
        if not rows:
            return None
        voices = float(np.sqrt(min(len(rows), VOICES)))
        scale = np.array([1.0 if name == "silent" else voices for name in EVIDENCE])
        return np.asarray(np.median(self.shares[rows], axis=0) * scale)


@dataclass(frozen=True, slots=True)
class Named:
    """The result of :func:`stragglers`; ``shows_turns``: the records are fine enough to show who delayed whom, so that
    findings from whole transfers of a ring count less.
    """

    found: list[Slow]
    shows_turns: bool


def stragglers(job: JobFlows, steps: Steps, capture: Capture) -> Named:
    """One finding for each stretch of slow steps that names a machine, an uplink, or few candidates."""
    mask, usual, _ = slow_steps(steps)
    wanted = [s for s in stretches(mask) if is_judged(s, steps, usual)]
    held = held_up(job, steps, capture) if wanted else None
    if held is None:
        return Named([], shows_turns(job, steps, capture))
    found: list[Slow] = []
    for stretch in wanted:
        evidence = held.evidence(stretch.steps)
        if evidence is not None:
            told = _told(probabilities(evidence))
            if told:
                found.append(_finding(told, held, evidence, stretch, steps, usual=usual))
    return Named(found, shows_turns=True)


def stretches(slow: Bools) -> list[Stretch]:
    """Slow steps with at most ``BETWEEN`` usual ones between them."""
    closed = slow.copy()
    for first, last in runs(~slow):
        if first > 0 and last < len(slow) - 1 and last - first + 1 <= BETWEEN:
            closed[first : last + 1] = True
    return [Stretch(tuple(k for k in range(first, last + 1) if slow[k])) for first, last in runs(closed)]


def is_judged(stretch: Stretch, steps: Steps, usual: float) -> bool:
    """Whether a stretch is more than an occasional slow step."""
    return len(stretch.steps) >= LEAST or float(steps.judged[list(stretch.steps)].max()) >= STANDSTILL * usual


def held_up(job: JobFlows, steps: Steps, capture: Capture) -> Held | None:
    """The shares of all candidates in the analysed steps; None if the records do not show pauses."""
    slow, usual, limit = slow_steps(steps)
    found = waiting(job, steps, slow, capture)
    if found is None:
        return None
    calm = ~slow[found.steps]
    name_of = {m: capture.machine(m) for hop in found.hops for m in hop}
    leaf_of = {name_of[m]: capture.places[m].switch for m in name_of if m in capture.places}
    excess = np.maximum(steps.judged[found.steps], limit) - usual  # tiny shares count as none
    hops = [(name_of[a], name_of[b]) for a, b in found.hops]
    candidates: list[Candidate] = []
    shares: list[Floats] = []
    hung: list[Floats] = []
    for name in sorted(set(name_of.values())):
        members = tuple(sorted(m for m, n in name_of.items() if n == name))
        out = np.array([a == name != b for a, b in hops])
        into = np.array([b == name != a for a, b in hops])
        thinking, hanging = found.thinking[:, out].sum(axis=1), found.hanging[:, into].sum(axis=1)
        sums = [thinking + hanging, found.hanging[:, out].sum(axis=1), found.unanswered[:, into].sum(axis=1)]
        is_machine = any(m in capture.places and capture.places[m].node == name for m in members)
        candidates.append(Candidate("node", (name,), members, is_machine))
        shares.append(_shares(sums, excess, calm))
        hung.append(hanging / excess)
    for names, crossing in _uplinks(hops, leaf_of):
        hanging = np.maximum(found.hanging[:, crossing].sum(axis=1), 0.0)
        both = hanging + np.maximum(found.thinking[:, crossing].sum(axis=1), 0.0)
        nothing = np.zeros_like(both)
        candidates.append(Candidate("switch", names, ()))
        hung.append(hanging / excess)
        shares.append(_shares([np.minimum(both, BESIDE * hanging), nothing, nothing], excess, calm))
    looked_at = tuple(int(k) for k in found.steps)
    return Held(tuple(candidates), looked_at, np.stack(shares, axis=1), np.stack(hung, axis=1))


def _shares(seconds: Sequence[Floats], excess: Floats, calm: Bools) -> Floats:
    """Seconds beyond their variation in usual steps, as shares of the steps' excess: steps × evidence."""
    beyond = [part - NOISE * spread(part[calm]) for part in seconds]
    return np.clip(np.stack(beyond, axis=1) / excess[:, None], 0.0, MOST)


def probabilities(evidence: Floats, weights: Floats = WEIGHTS, nobody: float = NOBODY) -> Floats:
    """The probability of each candidate, and last of nobody. ``evidence``: candidates × evidence."""
    value = np.append(evidence @ weights, nobody + np.log(len(evidence)))
    value = np.exp(value - value.max())
    return np.asarray(value / value.sum())


def settled(known: Sequence[Slow], named: Sequence[Slow], *, shows_turns: bool = False) -> list[Slow]:
    """The findings on groups and switches joined with those of :func:`stragglers`: one answer for each stretch. An
    earlier finding of the same time is replaced by one that is surer or names fewer; it stays if it names the same. If
    ``shows_turns``, a ring with one unknown culprit is no separate finding, because its hops are no whole transfers
    there.
    """
    out = [s for s in known if not (shows_turns and _is_vague(s))]
    for one in named:
        beside = [s for s in out if s.kind in ("slow_group", "slow_switch") and _meanwhile(s, one)]
        same = [s for s in beside if _who(s) == _who(one)]
        surer = [s for s in beside if s.confidence >= one.confidence and len(_who(s)) <= max(1, len(_who(one)))]
        if same:
            out = [s for s in out if s not in beside or s in same]
        elif not surer:
            out = [s for s in out if s not in beside] + [one]
    return out


def _is_vague(slow: Slow) -> bool:
    """A group of transfers with one culprit that is not known."""
    return slow.kind == "slow_group" and not slow.measure and len(_who(slow)) != 1


def _who(slow: Slow) -> set[object]:
    """The names in a finding: machines, else members; for a switch, the candidate switches."""
    return set(slow.candidates) if slow.kind == "slow_switch" else set(slow.nodes or slow.culprits)


def _meanwhile(known: Slow, one: Slow) -> bool:
    """Whether a finding is about the stretch of another: mostly at its time, and not of the whole capture."""
    common = min(known.t1, one.t1) - max(known.t0, one.t0)
    return common > 0.5 * (one.t1 - one.t0) and known.t1 - known.t0 <= 3 * (one.t1 - one.t0)


def _uplinks(hops: Sequence[tuple[str, str]], leaf_of: dict[str, str]) -> list[tuple[tuple[str, ...], Bools]]:
    """Each leaf that has other hops than those that cross its boundary; leaves crossed by the same hops are one
    candidate.
    """
    found: dict[bytes, tuple[list[str], Bools]] = {}
    for leaf in sorted(set(leaf_of.values()) - {""}):
        inside = np.array([[leaf_of.get(name) == leaf for name in hop] for hop in hops]).reshape(-1, 2)
        crossing = inside[:, 0] != inside[:, 1]
        if crossing.any() and not crossing.all():
            found.setdefault(crossing.tobytes(), ([], crossing))[0].append(leaf)
    return [(tuple(names), crossing) for names, crossing in found.values()]


def _told(p: Floats) -> list[tuple[int, float]]:
    """The candidates to report with their probabilities: the first alone if it is enough, else the smallest set; none
    if nobody is more likely, or the set is large.
    """
    if p[-1] >= TOLD:
        return []
    order = [int(at) for at in np.argsort(-p[:-1], kind="stable")]
    total, told = 0.0, list[tuple[int, float]]()
    for at in order[:SET]:
        told.append((at, float(p[at])))
        total += float(p[at])
        if total >= TOLD:
            return told
    return []


#: The reason for a machine and for an uplink, by the strongest evidence.
_WHY: Final = {
    "held": "the others waited for it",
    "sent": "what it sent came through late",
    "silent": "what was sent to it was not answered",
}
_WHY_LINK: Final = "what crosses its uplinks came through late"


def _finding(
    told: Sequence[tuple[int, float]], held: Held, evidence: Floats, stretch: Stretch, steps: Steps, *, usual: float
) -> Slow:
    chosen = [held.candidates[at] for at, _ in told]
    first, p = told[0]
    best = int(np.argmax(evidence[first] * WEIGHTS))
    rows = [held.steps.index(k) for k in stretch.steps if k in held.steps]
    share = min(1.0, float(np.median(held.shares[rows, first, best])))
    is_link = chosen[0].kind == "switch"
    when = (
        f"step {stretch.first + 1}" if len(stretch.steps) == 1 else f"steps {stretch.first + 1} to {stretch.last + 1}"
    )
    who = " or ".join(" and ".join(c.names) for c in chosen)
    why = _WHY_LINK if is_link else _WHY[EVIDENCE[best]]
    slow = Slow(
        "slow_switch" if is_link else "slow_group",
        float(steps.start[stretch.first]),
        float(steps.end[stretch.last]),
        f"{'' if len(chosen) == 1 else 'One of '}{who}: {why} in {when} ({share:.0%} of the lost time).",
        factor=float(np.median(steps.judged[list(stretch.steps)])) / usual,
        confidence=round(min(p, MOST_SURE), 3),
        shares={
            name: round(q / len(held.candidates[at].names), 3) for at, q in told for name in held.candidates[at].names
        },
    )
    if is_link:
        slow.candidates = list(chosen[0].names)
        slow.switch = slow.candidates[0]
        return slow
    slow.measure = "late" if float(np.median(held.hung[rows, first])) < 0.5 * share else "transfers"
    slow.members = slow.culprits = sorted({m for c in chosen for m in c.members})
    slow.nodes = [n for c in chosen if c.is_machine for n in c.names]
    return slow

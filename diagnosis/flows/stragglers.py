"""Who held up a stretch of slow steps, with probabilities.

For each slow step :mod:`diagnosis.flows.waiting` says how long each member and each transfer held up the job beyond the
usual. As shares of the step's excess, the median over the stretch's steps, these are the evidence on each candidate: a
machine, or the uplinks of a leaf. A conditional logit weighs them against *nobody*: its few weights are fitted on
recordings of real training (``python -m measure stragglers`` prints them, and what each recording left out is told by
the others). More steps of one voice weigh more.
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

#: Slow steps of one stretch may have so many usual ones between them.
BETWEEN: Final = 2
#: A stretch is judged from so many slow steps on, or when one took so many times the usual time.
LEAST: Final = 3
STANDSTILL: Final = 4.0
#: More steps than this of one voice are no more certain.
VOICES: Final = 16
#: Told: one candidate from this probability on, else the smallest set that reaches it together, of at most so many.
TOLD: Final = 0.5
SET: Final = 4

#: A candidate can have held up more than the step lost (others would have waited anyway), but counts no more than this.
MOST: Final = 1.5
#: Seconds count beyond so many standard deviations of usual steps.
NOISE: Final = 2.0
#: A slow link shows as transfers that hang; silence of its two sides counts up to so many times that.
BESIDE: Final = 2.0

#: What the evidence on a candidate is: ``held``, the share of the lost time in which it was to act or what was sent to
#: it hung (of uplinks: what crosses them); ``sent``, the share in which what it sent hung; ``silent``, the share in
#: which words to it were not answered.
EVIDENCE: Final = ("held", "sent", "silent")
#: Fitted weights of the evidence, and of nobody (per candidate).
WEIGHTS: Final = np.array([6.7, 4.0, 5.3])
NOBODY: Final = 4.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A machine (``kind`` node, one name) or the uplinks of a leaf (``kind`` switch; several names where they cannot be
    told apart). ``members``: address ids; ``is_machine``: the name is a machine's and no address.
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
    """What each candidate held up: ``shares`` [looked-at steps, candidates, evidence], shares of the step's excess;
    ``hung`` [steps, candidates]: the part of ``held`` in which transfers hung.
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[int, ...]
    shares: Floats
    hung: Floats

    def evidence(self, stretch: Iterable[int]) -> Floats | None:
        """Candidates × evidence of a stretch; None where none of its steps was looked at."""
        rows = [self.steps.index(k) for k in stretch if k in self.steps]
        if not rows:
            return None
        voices = float(np.sqrt(min(len(rows), VOICES)))
        scale = np.array([1.0 if name == "silent" else voices for name in EVIDENCE])
        return np.asarray(np.median(self.shares[rows], axis=0) * scale)


@dataclass(frozen=True, slots=True)
class Named:
    """What :func:`stragglers` found; ``shows_turns``: the records are fine enough to say whose turn it was, so that
    what rests on whole transfers of a ring says less."""

    found: list[Slow]
    shows_turns: bool


def stragglers(job: JobFlows, steps: Steps, capture: Capture) -> Named:
    """One finding for each stretch of slow steps that names a machine, an uplink, or few of which one is meant."""
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
    """Whether a stretch is more than the odd slow step."""
    return len(stretch.steps) >= LEAST or float(steps.judged[list(stretch.steps)].max()) >= STANDSTILL * usual


def held_up(job: JobFlows, steps: Steps, capture: Capture) -> Held | None:
    """The shares of all candidates in the steps that are looked at; None where the records do not show pauses."""
    slow, usual, limit = slow_steps(steps)
    found = waiting(job, steps, slow, capture)
    if found is None:
        return None
    calm = ~slow[found.steps]
    name_of = {m: capture.machine(m) for hop in found.hops for m in hop}
    leaf_of = {name_of[m]: capture.places[m].switch for m in name_of if m in capture.places}
    excess = np.maximum(steps.judged[found.steps], limit) - usual  # shares of next to nothing are none
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
    """Seconds beyond what they vary by in usual steps, as shares of the steps' excess: steps × evidence."""
    beyond = [part - NOISE * spread(part[calm]) for part in seconds]
    return np.clip(np.stack(beyond, axis=1) / excess[:, None], 0.0, MOST)


def probabilities(evidence: Floats, weights: Floats = WEIGHTS, nobody: float = NOBODY) -> Floats:
    """The probability of each candidate, and last of nobody. ``evidence``: candidates × evidence."""
    value = np.append(evidence @ weights, nobody + np.log(len(evidence)))
    value = np.exp(value - value.max())
    return np.asarray(value / value.sum())


def settled(known: Sequence[Slow], named: Sequence[Slow], *, shows_turns: bool = False) -> list[Slow]:
    """The findings on groups and switches with those of :func:`stragglers`: one word on each stretch. What was known of
    the same time gives way to a finding that is surer or names fewer; where it names the very same, it stands. Where
    turns are seen, a ring of which one member is meant is none of its own: its hops are no whole transfers there."""
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
    """A group of transfers of which one member, unknown which, is meant."""
    return slow.kind == "slow_group" and not slow.measure and len(_who(slow)) != 1


def _who(slow: Slow) -> set[object]:
    """Whom a finding names: machines, else members; of a switch, the switches of which one is meant."""
    return set(slow.candidates) if slow.kind == "slow_switch" else set(slow.nodes or slow.culprits)


def _meanwhile(known: Slow, one: Slow) -> bool:
    """Whether a finding is about the stretch of another: mostly at its time, and not of the whole capture."""
    common = min(known.t1, one.t1) - max(known.t0, one.t0)
    return common > 0.5 * (one.t1 - one.t0) and known.t1 - known.t0 <= 3 * (one.t1 - one.t0)


def _uplinks(hops: Sequence[tuple[str, str]], leaf_of: dict[str, str]) -> list[tuple[tuple[str, ...], Bools]]:
    """Each leaf with hops inside or of others beside those that cross its boundary; leaves crossed by the same hops are
    one candidate."""
    found: dict[bytes, tuple[list[str], Bools]] = {}
    for leaf in sorted(set(leaf_of.values()) - {""}):
        inside = np.array([[leaf_of.get(name) == leaf for name in hop] for hop in hops]).reshape(-1, 2)
        crossing = inside[:, 0] != inside[:, 1]
        if crossing.any() and not crossing.all():
            found.setdefault(crossing.tobytes(), ([], crossing))[0].append(leaf)
    return [(tuple(names), crossing) for names, crossing in found.values()]


def _told(p: Floats) -> list[tuple[int, float]]:
    """Candidates to tell with their probabilities: the first alone where it suffices, else the smallest set; none
    where nobody is likelier, or the set is large."""
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


#: Why a machine, and why an uplink, by the evidence that weighs most.
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

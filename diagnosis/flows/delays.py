"""How long each machine and each leaf's uplinks delayed the job in each step: the evidence on the candidates.

:mod:`diagnosis.flows.waiting` measures hops. Here the hops of a candidate are added, seconds count beyond their
variation in usual steps, and a stretch of steps becomes one row of evidence a candidate: shares of the time that the
stretch lost. O(steps · hops).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from diagnosis.flows.arrays import runs
from diagnosis.flows.capture import Bools, Capture, Floats
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.slowness import slow_steps
from diagnosis.flows.steps import Steps
from diagnosis.flows.waiting import Waiting, waiting
from diagnosis.stats import SIGMA, spread

#: More steps than this with the same evidence add no certainty.
VOICES: Final = 16
#: A candidate may have delayed more than the step lost (others would have waited anyway), but at most this counts.
MOST: Final = 1.5
#: Seconds count beyond this many standard deviations of usual steps.
NOISE: Final = 2.0
#: A slow link shows hanging transfers; silence of its two sides counts up to this many times that.
BESIDE: Final = 2.0
#: A slow uplink delays more than one of the pairs across it: all but the slowest together this share of the slowest.
OTHERS: Final = 0.4
#: Slow steps of one stretch may have this many usual ones between them.
BETWEEN: Final = 2

#: The evidence on a candidate, as shares of the lost time: ``late``: it should have sent; ``into``, ``sent``: transfers
#: to it or from it hung; ``silent``: transfers to it got no answer; ``across``: transfers across the uplinks hung;
#: ``narrow``: only those of one pair, as if one of its two machines were slow; ``elsewhere`` (negative): other
#: transfers hung, more than for the candidate that explains most. ``lost``: share of the steps in which bytes to it
#: were repeated.
EVIDENCE: Final = ("late", "into", "sent", "silent", "across", "narrow", "elsewhere", "lost")

#: A candidate's delay is raised from this many standard deviations, and this share of a usual step.
RAISED: Final = 4.0
RAISED_SHARE: Final = 0.03
#: So many steps, and this share of their stretch, must have it.
RAISED_STEPS: Final = 5
RAISED_PART: Final = 0.5
#: Those steps must lose this share of the usual time, and this many times as much as steps outside lose.
LOST: Final = 0.03
LOST_MORE: Final = 1.5
#: A capture with more records is not searched for stretches without slow steps.
SEARCHED: Final = 600_000


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
class Held:
    """The delays by each candidate: ``seconds`` [analysed steps, candidates, evidence] beyond the usual (``lost``: 0 or
    1, less the share in usual steps), ``scatter`` [candidates, evidence]: their variation in usual steps; ``excess``
    [steps]: how much longer than usual each step took; ``least``: an excess below which a step lost nothing.
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[int, ...]
    seconds: Floats
    scatter: Floats
    excess: Floats
    least: float

    def evidence(self, stretch: Iterable[int]) -> Floats | None:
        """Candidates × evidence of a stretch; None if none of its steps was analysed."""
        shares = self.shares(stretch)
        if shares is None:
            return None
        voices = float(np.sqrt(min(len(self._rows(stretch)), VOICES)))
        return np.asarray(shares * np.array([1.0 if name == "silent" else voices for name in EVIDENCE]))

    def shares(self, stretch: Iterable[int]) -> Floats | None:
        """Candidates × evidence as shares of the time that the stretch lost."""
        rows = self._rows(stretch)
        if not rows:
            return None
        counted = EVIDENCE.index("lost")
        most = MOST * np.maximum(self.excess[rows], self.least)[:, None, None]
        capped = np.clip(self.seconds[rows], -most, most)
        capped[:, :, counted] = self.seconds[rows][:, :, counted]
        beyond = capped.mean(axis=0) - NOISE * self.scatter / np.sqrt(len(rows))
        lost = np.full(len(EVIDENCE), max(float(self.excess[rows].mean()), self.least))
        lost[counted] = 1.0
        shares = np.clip(beyond / lost, 0.0, MOST)
        other = EVIDENCE.index("elsewhere")
        shares[:, other] = shares[:, other].min() - shares[:, other]
        return np.asarray(shares)

    def _rows(self, stretch: Iterable[int]) -> list[int]:
        number = {k: at for at, k in enumerate(self.steps)}
        return [number[k] for k in stretch if k in number]


def held_up(job: JobFlows, steps: Steps, capture: Capture) -> Held | None:
    """The delays by all candidates in the analysed steps (all steps of a small capture); None if the records do not
    show pauses.
    """
    slow, usual, limit = slow_steps(steps)
    found = waiting(job, steps, slow, capture, all_steps=len(job.flows) <= SEARCHED)
    if found is None:
        return None
    calm = ~slow[found.steps]
    name_of = {m: capture.machine(m) for hop in found.hops for m in hop}
    leaf_of = {name_of[m]: capture.places[m].switch for m in name_of if m in capture.places}
    hops = [(name_of[a], name_of[b]) for a, b in found.hops]
    candidates: list[Candidate] = []
    seconds: list[Floats] = []
    nothing = np.zeros(len(found.steps))
    for name in sorted(set(name_of.values())):
        members = tuple(sorted(m for m, n in name_of.items() if n == name))
        out = np.array([a == name != b for a, b in hops])
        into = np.array([b == name != a for a, b in hops])
        is_machine = any(m in capture.places and capture.places[m].node == name for m in members)
        candidates.append(Candidate("node", (name,), members, is_machine))
        parts = (found.thinking[:, out], found.hanging[:, into], found.hanging[:, out], found.unanswered[:, into])
        again = (found.repeated[:, into] > 0).any(axis=1).astype(float)
        row = [part.sum(axis=1) for part in parts]
        row += [nothing, nothing, found.hanging[:, ~(out | into)].sum(axis=1), again]
        seconds.append(np.stack(row, axis=1))
    for names, crossing in _uplinks(hops, leaf_of):
        candidates.append(Candidate("switch", names, ()))
        row = [nothing] * 4 + [*_across(found, hops, crossing, calm), found.hanging[:, ~crossing].sum(axis=1), nothing]
        seconds.append(np.stack(row, axis=1))
    table = np.stack(seconds, axis=1)
    scatter = SIGMA * np.median(np.abs(table[calm] - np.median(table[calm], axis=0)), axis=0)
    for name in ("across", "narrow", "lost"):  # never negative, so their median and its distances say little
        at = EVIDENCE.index(name)
        table[:, :, at] -= table[calm, :, at].mean(axis=0)
        scatter[:, at] = table[calm, :, at].std(axis=0)
    excess = steps.judged[found.steps] - usual
    return Held(tuple(candidates), tuple(int(k) for k in found.steps), table, scatter, excess, 0.5 * (limit - usual))


def raised(held: Held, usual: float) -> list[tuple[int, ...]]:
    """Stretches in which one candidate delayed the job in step after step, although the single steps need not be
    slow: a fault of little strength in a noisy job. Only where consecutive steps were analysed.
    """
    found: list[tuple[int, ...]] = []
    if len(held.steps) < 4 * RAISED_STEPS or np.any(np.diff(held.steps) != 1):
        return found
    own = [at for at, name in enumerate(EVIDENCE) if name not in ("elsewhere", "lost")]
    least = np.maximum(RAISED_SHARE * usual, RAISED * held.scatter[:, own])
    for at in range(len(held.candidates)):
        series = held.seconds[:, at]
        high = (series[:, own] > least[at]).any(axis=1) | (series[:, -1] > 0)
        for first, last in runs(closed(high)):
            inside = np.zeros(len(high), dtype=bool)
            inside[first : last + 1] = True
            often = high[inside].sum() >= RAISED_STEPS and high[inside].mean() >= RAISED_PART
            if often and inside.mean() <= 0.5 and _loses(held.excess, inside, usual):
                found.append(tuple(held.steps[k] for k in range(first, last + 1)))
    return found


def _loses(excess: Floats, inside: Bools, usual: float) -> bool:
    """Whether the steps inside lose time, more than those outside do."""
    lost = np.maximum(excess, 0.0)
    mean = float(lost[inside].mean())
    return mean >= LOST * usual and mean >= LOST_MORE * float(lost[~inside].mean())


def closed(mask: Bools) -> Bools:
    """The mask without holes of at most ``BETWEEN`` steps."""
    closed = mask.copy()
    for first, last in runs(~mask):
        if first > 0 and last < len(mask) - 1 and last - first + 1 <= BETWEEN:
            closed[first : last + 1] = True
    return closed


def _across(found: Waiting, hops: Sequence[tuple[str, str]], crossing: Bools, calm: Bools) -> tuple[Floats, Floats]:
    """Seconds by which uplinks delayed each step: of several pairs, and of one pair alone."""
    pairs: dict[frozenset[str], list[int]] = {}
    for at in np.flatnonzero(crossing).tolist():
        pairs.setdefault(frozenset(hops[at]), []).append(at)
    both = found.hanging + found.thinking
    each = np.stack([both[:, own].sum(axis=1) for own in pairs.values()])
    each = np.maximum(each - NOISE * np.array([spread(row[calm]) for row in each])[:, None], 0.0)
    total, largest = each.sum(axis=0), each.max(axis=0)
    if len(pairs) > 1:
        total *= np.clip((total - largest) / (OTHERS * np.maximum(largest, 1e-9)), 0.0, 1.0)
    hanging = np.maximum(found.hanging[:, crossing], 0.0)
    across = np.minimum(total, BESIDE * hanging.sum(axis=1))
    return across, np.maximum(hanging.max(axis=1) - across, 0.0)


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

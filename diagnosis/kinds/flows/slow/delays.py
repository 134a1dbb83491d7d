"""How long each machine and each leaf's uplinks delayed the job in each step: the evidence on the candidates.

:mod:`waiting` measures hops. Here the hops of a candidate are added, seconds count beyond their
variation in usual steps, and a stretch of steps becomes one row of evidence a candidate: shares of the time that the
stretch lost. O(steps · hops).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.arrays import close_holes, runs
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.slow.slowness import slow_steps
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.waiting import HopDelays, measure_waiting
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("delays")

#: More steps than this with the same evidence add no certainty.
MAX_COUNTED_STEPS: Final = 16
#: Slow steps of one stretch may have this many usual ones between them.
MAX_USUAL_BETWEEN: Final = 2

#: The evidence on a candidate, as shares of the lost time: ``late``: it should have sent; ``into``, ``sent``: transfers
#: to it or from it hung (for uplinks, ``into``: those of one pair of machines across them alone, which the port of one
#: of the two explains as well); ``silent``: transfers to it got no answer; ``across``: those of several pairs across
#: the uplinks hung; ``beside``: machines of other pairs than the one that hung sent late across them, because answers
#: wait in the same queue; ``elsewhere`` (negative): other transfers hung, more than for the candidate that explains
#: most; ``others`` (negative): another machine was late too. ``lost``: share of the steps in which bytes to it were
#: repeated.
EVIDENCE: Final = ("late", "into", "sent", "silent", "across", "beside", "elsewhere", "others", "lost")

_UPLINK: Final = [EVIDENCE.index(name) for name in ("across", "into", "beside")]

#: A capture with more records is not searched for stretches without slow steps.
MAX_SEARCHED_RECORDS: Final = 600_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A machine (``kind`` node, one name), two that are slow at once (two), the uplinks of a leaf
    (switch; several names if they cannot be separated), or what joins the only two leaves (link, one
    name, ``leaves``: their names). ``members``: address ids; ``is_machine``: the name is a machine's
    and no address.
    """

    kind: str
    names: tuple[str, ...]
    members: tuple[int, ...]
    is_machine: bool = False
    leaves: tuple[str, ...] = ()

    @property
    def is_path(self) -> bool:
        """Whether it joins leaves and is no machine."""
        return self.kind in ("switch", "link")

    @property
    def alternatives(self) -> int:
        """Of how many names one is meant: of two at once both are."""
        return 1 if self.kind == "two" else len(self.names)


@dataclass(frozen=True, slots=True)
class PairDelays:
    """How long transfers of each pair of machines hung (``hanging``) and its machines were silent before they sent to
    each other (``thinking``): [analysed steps, pairs], seconds beyond the usual and its variation in usual steps.
    """

    hanging: Floats
    thinking: Floats
    calm: Bools

    def shares(self, rows: Sequence[int], most: Floats) -> Floats:
        """The seconds for ``across``, ``into`` and ``beside``, as mean of the rows."""
        hung, silent = (
            np.maximum(
                np.clip(part[rows], -most[:, None], most[:, None]).mean(axis=0)
                - THRESHOLDS.noise_errors * stats.spreads(part[self.calm], 0) / np.sqrt(len(rows)),
                0.0,
            )
            for part in (self.hanging, self.thinking)
        )
        total, at = float(hung.sum()), int(hung.argmax())
        largest = float(hung[at])
        several = total
        if len(hung) > 1:
            several *= min(1.0, (total - largest) / (THRESHOLDS.others * max(largest, 1e-9)))
        narrow = max(largest - several, 0.0)  # of one pair alone
        return np.array([several, narrow, min(float(np.delete(silent, at).sum()), narrow)])


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays by each candidate: ``seconds`` [analysed steps, candidates, evidence] beyond the usual (``lost``: 0 or
    1, less the share in usual steps), ``scatter`` [candidates, evidence]: their variation in usual steps; ``excess``
    [steps]: how much longer than usual each step took; ``min_excess``: an excess below which a step lost nothing.
    ``pairs``: of each candidate that is no machine, the seconds of each pair of machines across it [steps, pairs].
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[int, ...]
    seconds: Floats
    scatter: Floats
    excess: Floats
    min_excess: float
    pairs: Mapping[int, PairDelays] = field(default_factory=dict)

    def evidence(self, stretch: Iterable[int]) -> Floats | None:
        """Candidates × evidence of a stretch; None if none of its steps was analysed."""
        shares = self.shares(stretch)
        if shares is None:
            return None
        voices = float(np.sqrt(min(self._counted_steps(stretch), MAX_COUNTED_STEPS)))
        return np.asarray(shares * np.array([1.0 if name == "silent" else voices for name in EVIDENCE]))

    def _counted_steps(self, stretch: Iterable[int]) -> float:
        """As how many equally slow steps the stretch counts: if one of them lost most of the time,
        what delayed that one is no evidence of the others.
        """
        lost = np.maximum(self.excess[self._rows(stretch)], self.min_excess)
        return float(lost.sum() ** 2 / (lost**2).sum())

    def _weights(self, rows: Sequence[int]) -> Floats:
        """The weight of each step, at most 1, so that none outweighs the others of its stretch."""
        lost = np.maximum(self.excess[rows], self.min_excess)
        slow = lost[lost > self.min_excess]
        if not len(slow):
            return np.ones(len(lost))
        weights: Floats = np.minimum(1.0, THRESHOLDS.outweighs * float(np.median(slow)) / lost)
        return weights

    def shares(self, stretch: Iterable[int]) -> Floats | None:
        """Candidates × evidence as shares of the time that the stretch lost."""
        rows = self._rows(stretch)
        if not rows:
            return None
        counted = EVIDENCE.index("lost")
        most = THRESHOLDS.most * np.maximum(self.excess[rows], self.min_excess)[:, None, None]
        weights = self._weights(rows)
        capped = np.clip(self.seconds[rows], -most, most) * weights[:, None, None]
        capped[:, :, counted] = self.seconds[rows][:, :, counted]
        noise = np.maximum(self.scatter, stats.spreads(capped, 0))
        beyond = capped.mean(axis=0) - THRESHOLDS.noise_errors * noise / np.sqrt(len(rows))
        lost_s = float((self.excess[rows] * weights).mean())
        lost = np.full(len(EVIDENCE), max(lost_s, self.min_excess))
        lost[counted] = 1.0
        shares = np.clip(beyond / lost, 0.0, THRESHOLDS.most)
        for at, pairs in self.pairs.items():
            shares[at, _UPLINK] = pairs.shares(rows, most[:, 0, 0]) / lost[0]
        shares = np.minimum(shares, THRESHOLDS.most)
        other = EVIDENCE.index("elsewhere")
        shares[:, other] = shares[:, other].min() - shares[:, other]
        late = shares[:, EVIDENCE.index("late")]
        for at in range(len(late)):
            shares[at, EVIDENCE.index("others")] = -np.delete(late, at).max(initial=0.0)
        return np.asarray(shares)

    def _rows(self, stretch: Iterable[int]) -> list[int]:
        number = {k: at for at, k in enumerate(self.steps)}
        return [number[k] for k in stretch if k in number]


def measure_delays(job: JobFlows, steps: Steps, capture: Capture) -> Delays | None:
    """The delays by all candidates in the analysed steps (all steps of a small capture); None if the records do not
    show pauses.
    """
    slow, usual, limit = slow_steps(steps)
    found = measure_waiting(job, steps, slow, capture, all_steps=len(job.flows) <= MAX_SEARCHED_RECORDS)
    if found is None:
        return None
    calm = ~slow[found.steps]
    name_of = {member: capture.machine(member) for member in chain.from_iterable(found.hops)}
    leaf_of = {name_of[m]: leaf for m, leaf in leaves_of(name_of, capture).items()}
    hops = [(name_of[a], name_of[b]) for a, b in found.hops]
    candidates: list[Candidate] = []
    seconds: list[Floats] = []
    pairs: dict[int, PairDelays] = {}
    nothing = np.zeros(len(found.steps))
    for name in sorted(set(name_of.values())):
        members = tuple(sorted(m for m, n in name_of.items() if n == name))
        out = np.array([a == name != b for a, b in hops])
        into = np.array([b == name != a for a, b in hops])
        is_machine = any(m in capture.places and capture.places[m].node == name for m in members)
        candidates.append(Candidate("node", (name,), members, is_machine))
        parts = (found.thinking[:, out], found.hanging[:, into], found.hanging[:, out], found.unanswered[:, into])
        is_repeated = (found.repeated[:, into] > 0).any(axis=1).astype(float)
        row = [part.sum(axis=1) for part in parts]
        row += [nothing, nothing, found.hanging[:, ~(out | into)].sum(axis=1), nothing, is_repeated]
        seconds.append(np.stack(row, axis=1))
    for names, crossing in _uplinks(hops, leaf_of):
        is_link = len(names) == 2 and set(names) == set(leaf_of.values()) - {""}
        path = Candidate("link", ("-".join(names),), (), leaves=names) if is_link else Candidate("switch", names, ())
        candidates.append(path)
        pairs[len(seconds)] = across = _pair_delays(found, hops, crossing, calm)
        row = [nothing, nothing, nothing, nothing, across.hanging.sum(axis=1), nothing]
        seconds.append(np.stack([*row, found.hanging[:, ~crossing].sum(axis=1), nothing, nothing], axis=1))
    table = np.stack(seconds, axis=1)
    scatter = stats.spreads(table[calm], 0)
    at = EVIDENCE.index("lost")  # never negative, so its median and the distances from it say little
    table[:, :, at] -= table[calm, :, at].mean(axis=0)
    scatter[:, at] = table[calm, :, at].std(axis=0)
    excess = steps.normalised_s[found.steps] - usual
    numbers = tuple(int(k) for k in found.steps)
    return Delays(tuple(candidates), numbers, table, scatter, excess, (limit - usual) / 2, pairs)


def find_raised_stretches(delays: Delays, usual: float) -> list[tuple[int, ...]]:
    """Stretches in which one candidate delayed the job in step after step, although the single steps need not be
    slow: a fault of little strength in a noisy job. Those with the longest delays first. Only where consecutive steps
    were analysed.
    """
    found: list[tuple[float, tuple[int, ...]]] = []
    if len(delays.steps) < THRESHOLDS.steps * THRESHOLDS.raised_steps or np.any(np.diff(delays.steps) != 1):
        return []
    own = [at for at, name in enumerate(EVIDENCE) if name not in ("elsewhere", "others", "lost")]
    least = np.maximum(THRESHOLDS.raised * usual, THRESHOLDS.raised_deviations * delays.scatter[:, own])
    lost = np.maximum(delays.excess, 0.0)
    for at in range(len(delays.candidates)):
        series = delays.seconds[:, at]
        high = (series[:, own] > least[at]).any(axis=1) | (series[:, -1] > 0)
        delay = np.clip(series[:, own].max(axis=1), 0.0, np.maximum(lost, delays.min_excess))
        for first, last in runs(close_holes(high, MAX_USUAL_BETWEEN)):
            inside = np.zeros(len(high), dtype=bool)
            inside[first : last + 1] = True
            is_frequent = (
                high[inside].sum() >= THRESHOLDS.raised_steps and high[inside].mean() >= THRESHOLDS.raised_part
            )
            explained = float(delay[inside].sum())
            if (
                is_frequent
                and inside.mean() <= THRESHOLDS.longest
                and explained >= THRESHOLDS.explained * lost[inside].sum()
                and _loses_time(delays.excess, inside, usual)
            ):
                found.append((explained, tuple(delays.steps[k] for k in range(first, last + 1))))
    return [steps for _, steps in sorted(found, key=lambda row: -row[0])]


def _loses_time(excess: Floats, inside: Bools, usual: float) -> bool:
    """Whether the steps inside lose time, more than those outside do."""
    lost = np.maximum(excess, 0.0)
    mean = float(lost[inside].mean())
    is_much = mean >= THRESHOLDS.lost * usual
    return bool(is_much and mean >= THRESHOLDS.lost_ratio * float(lost[~inside].mean()))


def _pair_delays(found: HopDelays, hops: Sequence[tuple[str, str]], crossing: Bools, calm: Bools) -> PairDelays:
    """The seconds of each pair of machines across uplinks, both directions together."""
    pairs: dict[frozenset[str], list[int]] = {}
    for at in np.flatnonzero(crossing).tolist():
        pairs.setdefault(frozenset(hops[at]), []).append(at)
    hanging, thinking = (
        np.stack([part[:, own].sum(axis=1) for own in pairs.values()], axis=1)
        for part in (found.hanging, found.thinking)
    )
    return PairDelays(hanging, thinking, calm)


def leaves_of(members: Iterable[int], capture: Capture) -> dict[int, str]:
    """The leaf switch of each member: by the inventory, else the one that all it sends enters first. O(n log n) in
    records where the inventory lacks one.
    """
    members = list(members)
    known = {m: capture.places[m].switch for m in members if m in capture.places and capture.places[m].switch}
    entered: dict[int, set[str]] = {}
    if len(known) < len(members) and capture.paths:
        count = len(capture.paths)
        sent = (part.take(part.path >= 0) for _, part in capture.flows.parts())
        ways, _ = pieces.count_values(part.src.astype(np.int64) * count + part.path for part in sent)
        for way in ways.tolist():
            entered.setdefault(way // count, set()).update(capture.paths[way % count][:1])
    seen = {m: next(iter(names)) for m, names in entered.items() if len(names) == 1}
    return {m: known.get(m) or seen.get(m, "") for m in members}


def _uplinks(hops: Sequence[tuple[str, str]], leaf_of: dict[str, str]) -> list[tuple[tuple[str, ...], Bools]]:
    """Each leaf with hops that do not cross its boundary; leaves of equal hops are one."""
    leaves = np.array([(leaf_of.get(one), leaf_of.get(other)) for one, other in hops], object).reshape(-1, 2)
    found: dict[bytes, tuple[list[str], Bools]] = {}
    for leaf in sorted(set(leaf_of.values()) - {""}):
        inside = leaves == leaf
        crossing = inside[:, 0] != inside[:, 1]
        if crossing.any() and not crossing.all():
            found.setdefault(crossing.tobytes(), ([], crossing))[0].append(leaf)
    return [(tuple(names), crossing) for names, crossing in found.values()]

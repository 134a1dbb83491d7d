"""Who held up a stretch of slow steps: three measures of each member against its own usual steps.

* **Progress at the stall.** When one member is late, its peers send what they can and stop. Whoever had moved the
  fewest bytes by then is the one they wait for (or its next neighbour on a ring): the wait spreads from it.
* **Acknowledgements.** A link with delay, loss or a full queue shows in how long its end takes to answer the first
  bytes of a burst. The receiver that answers late in every slow step sits behind that link.
* **Busy time.** A port that is limited sends or takes without a pause while its peers wait between chunks.

Each slow step votes; a member is named when most of the steps agree on it. The votes need no layout, only members and
steps. O(records log records).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from diagnosis.flows.arrays import runs
from diagnosis.flows.capture import Bools, Capture, Flows, Ints
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.slowness import Slow, slow_steps
from diagnosis.flows.steps import Steps

#: Slow steps of one stretch may have so many usual ones between them.
BETWEEN: Final = 2
#: Steps that must vote, and the share of them that must agree.
VOTES: Final = 3
AGREE: Final = 0.6
#: A stall is a pause of the whole job so many times as long as the longest of usual steps, and this share of a step.
STALL: Final = 2.0
STALL_SHARE: Final = 0.2
#: A receiver answers late when it takes this many times its usual time and this share of a usual step longer.
LATE: Final = 4.0
LATE_SHARE: Final = 0.02
#: A hop is busy when it sends this many times as long as usual, and this many times as much longer as the median hop.
BUSY: Final = 2.0
AHEAD: Final = 1.5
#: A member must be this far ahead of the next one.
LEAD: Final = 1.3


@dataclass(frozen=True, slots=True)
class Vote:
    """One slow step's word: who, by which measure (``stall``, ``answer``, ``busy``), by how much (seconds)."""

    member: int
    how: str
    seconds: float


def stragglers(job: JobFlows, steps: Steps, capture: Capture) -> list[Slow]:
    """One finding for each stretch of slow steps whose steps agree on a machine (or address)."""
    mask, usual, _ = slow_steps(steps)
    table = _records(job, steps, capture)
    if table.is_empty() or not mask.any():
        return []
    calm = ~mask
    found: list[Slow] = []
    for first, last in _stretches(mask):
        inside = [k for k in range(first, last + 1) if mask[k]]
        votes = _votes(table, inside, np.flatnonzero(calm), usual)
        named = _agreed(votes, len(inside), capture)
        if named is not None:
            found.append(_finding(named, votes, first, last, steps, usual=usual, capture=capture))
    return found


def settled(known: Sequence[Slow], named: Sequence[Slow]) -> list[Slow]:
    """The findings of one job with those of :func:`stragglers`: who is known already is told once, and a group of which
    only one member can be meant gives way to the member that the steps agree on."""
    out = list(known)
    for one in named:
        beside = [s for s in out if s.kind == "slow_group" and s.t0 < one.t1 and s.t1 > one.t0]
        if any(set(s.nodes or s.culprits) <= set(one.nodes or one.culprits) for s in beside):
            continue
        vague = [s for s in beside if len(s.nodes or s.culprits) > 1 and s.t1 - s.t0 <= 2 * (one.t1 - one.t0)]
        out = [s for s in out if s not in vague] + [one]
    return out


def _stretches(mask: Bools) -> list[tuple[int, int]]:
    closed = mask.copy()
    for gap_first, gap_last in runs(~mask):
        if gap_first > 0 and gap_last < len(mask) - 1 and gap_last - gap_first + 1 <= BETWEEN:
            closed[gap_first : gap_last + 1] = True
    return list(runs(closed))


def _records(job: JobFlows, steps: Steps, capture: Capture) -> pl.DataFrame:
    """The records between members, small ones too, with their step."""
    flows: Flows = capture.flows
    inside = np.isin(flows.src, job.members) & np.isin(flows.dst, job.members) & (flows.src != flows.dst)
    mine = flows.take(inside)
    step = steps.of(mine.start)
    return pl.DataFrame(
        {
            "src": mine.src,
            "dst": mine.dst,
            "low": mine.port,
            "start": mine.start,
            "end": mine.end,
            "size": np.nan_to_num(mine.size),
            "control": mine.control,
            "step": step,
        }
    ).filter(pl.col("step").is_between(0, len(steps) - 1))


def _votes(table: pl.DataFrame, slow: Sequence[int], calm: Ints, usual: float) -> list[Vote]:
    data = table.filter(~pl.col("control"))
    found: list[Vote | None] = []
    pause = _longest_pause(data, calm)
    answers = _answers(table)
    normal = _median(answers.filter(pl.col("step").is_in(calm.tolist())), "answer", "dst")
    busy = data.group_by("step", "src", "dst").agg(busy=(pl.col("end") - pl.col("start")).sum())
    busy_normal = _median(busy.filter(pl.col("step").is_in(calm.tolist())), "busy", "src", "dst")
    for k in slow:
        found += [
            _at_the_stall(data.filter(pl.col("step") == k), pause, usual),
            _late_answer(answers.filter(pl.col("step") == k), normal, usual),
            _busiest(busy.filter(pl.col("step") == k), busy_normal, usual),
        ]
    return [vote for vote in found if vote is not None]


def _longest_pause(data: pl.DataFrame, calm: Ints) -> float:
    """The longest pause between first and last record of usual steps (95th percentile), seconds."""
    rows = data.filter(pl.col("step").is_in(calm.tolist())).sort("step", "start")
    gaps = rows.with_columns(
        gap=pl.col("start") - pl.col("end").cum_max().shift(1).over("step"),
    )
    worst = gaps.group_by("step").agg(pl.col("gap").max())["gap"].drop_nulls()
    return float(worst.quantile(0.95) or 0.0) if worst.len() else 0.0


def _at_the_stall(rows: pl.DataFrame, pause: float, usual: float) -> Vote | None:
    """Who had moved the fewest bytes when the whole job paused for longer than usual."""
    rows = rows.sort("start")
    if rows.height < 4:
        return None
    end = np.maximum.accumulate(rows["end"].to_numpy())
    gaps = rows["start"].to_numpy()[1:] - end[:-1]
    at = int(np.argmax(gaps))
    if gaps[at] < max(STALL * pause, STALL_SHARE * usual):
        return None
    before = rows.head(at + 1)
    moved: Counter[int] = Counter()
    whole: Counter[int] = Counter()
    for part, sums in ((before, moved), (rows, whole)):
        for src, dst, size in part.select("src", "dst", "size").iter_rows():
            sums[src] += size
            sums[dst] += size
    share = sorted((moved[m] / whole[m], m) for m in whole if whole[m] > 0)
    if len(share) < 2 or share[1][0] < LEAD * share[0][0] + 1e-9:
        return None
    return Vote(share[0][1], "stall", float(gaps[at]))


def _answers(table: pl.DataFrame) -> pl.DataFrame:
    """For each burst: how long its receiver takes until something comes back. Columns step, dst, answer (seconds)."""
    data = table.filter(~pl.col("control")).select("src", "dst", "low", "step", "start").sort("start")
    back = table.select(src=pl.col("dst"), dst=pl.col("src"), low="low", back="start").sort("back")
    joined = data.join_asof(
        back, left_on="start", right_on="back", by=["src", "dst", "low"], strategy="forward", check_sortedness=False
    )
    return joined.drop_nulls("back").select("step", "dst", answer=pl.col("back") - pl.col("start"))


def _late_answer(rows: pl.DataFrame, normal: dict[int, float], usual: float) -> Vote | None:
    """The receiver whose answers take longest against its usual ones."""
    late = []
    for member, seconds in rows.group_by("dst").agg(pl.col("answer").median()).iter_rows():
        base = normal.get(member)
        if base is not None:
            late.append((seconds - base, member, seconds > LATE * max(base, 1e-4)))
    late.sort(key=lambda row: (-row[0], row[1]))
    if not late or not late[0][2] or late[0][0] < LATE_SHARE * usual:
        return None
    if len(late) > 1 and late[0][0] < LEAD * max(late[1][0], 0.0):
        return None
    return Vote(late[0][1], "answer", late[0][0])


def _busiest(rows: pl.DataFrame, normal: dict[tuple[int, int], float], usual: float) -> Vote | None:
    """The member whose transfers go on longest against their usual time, while those of others do not."""
    more: dict[int, list[float]] = {}
    for src, dst, seconds in rows.select("src", "dst", "busy").iter_rows():
        base = normal.get((src, dst))
        if base is None:
            continue
        excess = seconds - base if seconds > BUSY * max(base, 1e-4) else 0.0
        more.setdefault(src, []).append(excess)
        more.setdefault(dst, []).append(excess)
    ranked = sorted(((float(np.mean(v)), m) for m, v in more.items()), key=lambda row: (-row[0], row[1]))
    if len(ranked) < 2 or ranked[0][0] < LATE_SHARE * usual or ranked[0][0] < AHEAD * ranked[1][0]:
        return None
    return Vote(ranked[0][1], "busy", ranked[0][0])


def _median(table: pl.DataFrame, column: str, *by: str) -> dict[Any, float]:
    """The median of a column for each value of ``by`` (a tuple where there are several)."""
    rows = table.group_by(*by).agg(pl.col(column).median())
    return {(row[0] if len(by) == 1 else tuple(row[:-1])): float(row[-1]) for row in rows.iter_rows()}


def _agreed(votes: Sequence[Vote], slow: int, capture: Capture) -> tuple[str, list[int], float] | None:
    """The machine that most slow steps name: its name, members and the share of votes."""
    if not votes:
        return None
    of = {v.member: _machine(v.member, capture) for v in votes}
    for_all = Counter(of[v.member] for v in votes)
    (name, count), *others = for_all.most_common(2)
    needed = max(1, min(VOTES, slow))
    share = count / len(votes)
    if count < needed or share < AGREE or (others and others[0][1] == count):
        return None
    return name, sorted({v.member for v in votes if of[v.member] == name}), share


def _machine(member: int, capture: Capture) -> str:
    place = capture.places.get(member)
    return place.node if place is not None and place.node else capture.names[member]


_WHY: Final = {
    "stall": "had moved the least when the others stopped to wait",
    "answer": "took {ms:,.0f} ms longer than usual to acknowledge what it received",
    "busy": "kept sending or receiving {ms:,.0f} ms longer than usual while others paused",
}


def _finding(
    named: tuple[str, list[int], float],
    votes: Sequence[Vote],
    first: int,
    last: int,
    steps: Steps,
    *,
    usual: float,
    capture: Capture,
) -> Slow:
    name, members, share = named
    mine = [v for v in votes if v.member in members]
    how, count = Counter(v.how for v in mine).most_common(1)[0]
    ms = 1e3 * float(np.median([v.seconds for v in mine if v.how == how]))
    seconds = steps.judged[first : last + 1]
    when = f"step {first + 1}" if first == last else f"steps {first + 1} to {last + 1}"
    nodes = [name] if name not in {capture.names[m] for m in members} else []
    return Slow(
        "slow_group",
        float(steps.start[first]),
        float(steps.end[last]),
        f"{name} {_WHY[how].format(ms=ms)} in {count} of the slow steps ({when}).",
        members=members,
        culprits=members,
        nodes=nodes,
        factor=float(np.median(seconds)) / usual,
        measure="late" if how == "stall" else "transfers",
        confidence=round(min(0.95, 0.35 + 0.5 * share + 0.02 * min(len(mine), 10)), 3),
    )

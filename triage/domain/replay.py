"""Dual-phase replay: two groupings of the machines whose failing groups meet in one machine
(ByteRobust, algorithm 1).

Machines 0 … m·n - 1 are cut twice into groups: horizontally ``H(x) = x // m`` (groups of ``m``
neighbours), vertically ``V(x) = x mod n`` (groups of every n-th). The job, its layers cut and its
data parallelism lowered, is replayed on each group; one group fails in each phase. The two meet in
exactly one machine if and only if ``m <= n`` (and, beyond the paper's ``z = m·n``, as long as a
horizontal group holds no two machines of one residue).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil


@dataclass(frozen=True, slots=True)
class Plan:
    """``machines`` in order; ``m`` the size of a horizontal group, ``n`` the number of vertical
    groups. ``notes`` are sentences.
    """

    machines: tuple[str, ...]
    m: int
    n: int
    notes: tuple[str, ...] = ()

    @property
    def horizontal(self) -> list[list[str]]:
        return [list(self.machines[at : at + self.m]) for at in range(0, len(self.machines), self.m)]

    @property
    def vertical(self) -> list[list[str]]:
        return [list(self.machines[at :: self.n]) for at in range(min(self.n, len(self.machines)))]

    @property
    def is_unique(self) -> bool:
        return self.m <= self.n

    def meet(self, horizontal: Sequence[int], vertical: Sequence[int]) -> list[str]:
        """Machines in the failing groups of both phases. One group each names one machine; more
        leave the whole product set.

        :raises ValueError: a group that the plan does not have.
        """
        for which, groups, count in (
            ("horizontal", horizontal, len(self.horizontal)),
            ("vertical", vertical, len(self.vertical)),
        ):
            for group in groups:
                if not 0 <= group < count:
                    raise ValueError(f"There is no {which} group {group}; the plan has {count}, numbered from 0.")
        return [
            name
            for x, name in enumerate(self.machines)
            if x // self.m in set(horizontal) and x % self.n in set(vertical)
        ]


def plan(machines: Sequence[str], *, pp: int = 1, dp: int | None = None, k: int = 1) -> Plan:
    """Plan a replay in which tensor and pipeline parallelism are kept and data parallelism is
    lowered: ``m = k·pp``, ``n = dp/k``.

    :param machines: in rank order, one tensor-parallel group (or several) a machine; names must be distinct.
    :param pp: machines that one pipeline spans; ``dp`` how many pipelines there are (default: machines / pp); ``k``
        pipelines a group.
    :raises ValueError: sizes that are not positive or do not fit the machines, with the numbers.
    """
    names = tuple(machines)
    if len(set(names)) != len(names):
        raise ValueError("A machine is listed twice.")
    if not names or pp < 1 or k < 1 or (dp is not None and dp < 1):
        raise ValueError("Machines, pp, dp and k must be at least 1.")
    width = dp if dp is not None else ceil(len(names) / pp)
    if width % k:
        raise ValueError(f"k = {k} does not divide the {width} pipelines; choose a divisor of {width}.")
    m, n = k * pp, width // k
    notes = []
    if m * n != len(names):
        notes.append(
            f"{m} × {n} = {m * n} machines are planned for, {len(names)} are listed: the last groups are not full."
        )
    planned = Plan(names, m, n)
    if not planned.is_unique:
        better = [d for d in range(1, width + 1) if width % d == 0 and d * pp <= width // d]
        advice = (
            f"; k = {better[-1]} gives a unique answer" if better else f"; at least {pp} pipelines are needed for that"
        )
        notes.append(
            f"Groups of {m} machines meet {n} residues more than once, so two failing groups leave {ceil(m / n)} "
            f"machines{advice}."
        )
    return replace(planned, notes=tuple(notes))


def verdict(of: Plan, horizontal: Sequence[int], vertical: Sequence[int]) -> tuple[list[str], str]:
    """The machines and a sentence, for what the two phases showed.

    :raises ValueError: see :meth:`Plan.meet`.
    """
    found = of.meet(horizontal, vertical)
    if not horizontal or not vertical:
        phase = "horizontal" if not horizontal else "vertical"
        return (
            [],
            f"No group failed in the {phase} phase: the fault did not show itself. Replay longer, or suspect code "
            "and data.",
        )
    if len(horizontal) == len(vertical) == 1 and len(found) == 1:
        return found, f"{found[0]} is the only machine in both failing groups."
    if not found:
        return (
            [],
            "The failing groups share no machine: more than one machine is faulty, or a replay failed for another "
            "reason.",
        )
    return (
        found,
        f"{len(found)} machines are in failing groups of both phases, so the faulty one is not unique. Test these.",
    )

"""From groups to culprits: the ranks that the others wait for.

A hung job is a wait-for graph. The hang begins at ranks that wait for nobody. In order:

1. outliers that do not communicate (data loader, storage, kernel): they wait for no peer;
2. ranks that have no process although their peers have one;
3. outliers in unknown code, if it cannot be a wait;
4. outliers that wait for their own GPU;
5. if all communicate, the end of the chain of waits (:mod:`waitgraph`).

ByteRobust stops at the outliers and evicts their group; this step orders them, and the group is still evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks, ranks_text
from diagnosis.kinds.stacks.ranks.cluster import Group, group_of_rank, ranks_of
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.waitgraph import blocking_ranks, find_chain_ends
from diagnosis.kinds.stacks.ranks.waits import COMM, COMPUTE, DEVICE, HOST, LOCAL, Activity
from diagnosis.kinds.stacks.read.stack_frames import frame_text

THRESHOLDS: Final = thresholds.of("blame")
LIMITS: Final = thresholds.limits("blame")


class Blame(msgspec.Struct, frozen=True):
    """``ranks`` accused, best first, with score in [0, 1] and reason; ``outliers`` all that differ from the dominant
    groups; ``reason`` the sentence; ``rule`` the rule that decided."""

    ranks: tuple[int, ...]
    scores: Mapping[int, float]
    reasons: Mapping[int, str]
    outliers: tuple[int, ...]
    reason: str
    rule: str


class Case(msgspec.Struct):
    """One round, ready to be judged."""

    groups: Sequence[Group]
    layout: Layout
    missing: Sequence[int] = ()
    failed: Sequence[int] = ()
    empty: Sequence[int] = ()
    odd_groups: list[Group] = msgspec.field(default_factory=list)
    outliers: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return sum(len(g.ranks) for g in self.groups)


def accuse(
    ranks: Iterable[int], score: float, why: Mapping[int, str] | str, case: Case, sentence: str, rule: str
) -> Blame:
    """A verdict that gives all ``ranks`` one score."""
    named = tuple(ranks)
    reasons = dict.fromkeys(named, why) if isinstance(why, str) else why
    return Blame(named, dict.fromkeys(named, score), reasons, tuple(sorted({*case.outliers, *named})), sentence, rule)


def accuse_nobody(sentence: str, rule: str) -> Blame:
    return Blame((), {}, {}, (), sentence, rule)


def blame(
    groups: Sequence[Group],
    layout: Layout,
    *,
    missing: Sequence[int] = (),
    failed: Sequence[int] = (),
    empty: Sequence[int] = (),
    expected: int = 0,
) -> Blame:
    """Name the culprits of one round. O(ranks × kinds × distinct stacks per group)."""
    is_few = not expected or len(missing) <= THRESHOLDS.missing_share * expected
    absent = sorted(missing) if is_few else []
    case = Case(groups, layout, absent, failed, empty)
    case.odd_groups = _odd_groups(case)
    case.outliers = tuple(sorted({*ranks_of(case.odd_groups), *absent}))
    for rule in _RULES:
        found = rule(case)
        if found is not None:
            return found
    return _chain_ends(case)


def _odd_groups(case: Case) -> list[Group]:
    """Groups that are not dominant, and dominant ones that do not wait for peers while others do. A failed switch or
    file system stops a quarter of the ranks or more: a large number does not prove them healthy. For a large group that
    waits for its GPU this is less certain, because the GPU may itself wait in a collective; it is an outlier only if no
    other group is.
    """
    communicating = sum(len(group.ranks) for group in case.groups if group.activity.kind == COMM)
    odd = [group for group in case.groups if _is_odd(group, case.total, communicating)]
    is_hang = communicating >= THRESHOLDS.waiting * case.total
    if odd or case.missing or not is_hang:
        return odd
    largest = THRESHOLDS.odd_share * case.total
    return [group for group in case.groups if group.activity.kind == DEVICE and len(group.ranks) < largest]


def _is_odd(group: Group, total: int, communicating: int) -> bool:
    """``communicating``: how many of all ranks wait for peers."""
    if not group.dominant:
        return True
    if group.activity.kind not in {HOST, COMPUTE, LOCAL} or len(group.ranks) > THRESHOLDS.odd_share * total:
        return False
    is_usual = group.activity.kind != HOST and total > THRESHOLDS.few
    enough = THRESHOLDS.waiting if is_usual else THRESHOLDS.waiting_host
    return bool(communicating >= enough * total)


def _not_comparable(case: Case) -> Blame | None:
    total = case.total
    if total < 2 and not case.missing:
        alone = map(_alone_text, case.groups)
        return accuse_nobody(next(alone, "No rank's stack could be read."), "too_few")
    if total > 2 and len(case.groups) == total:
        text = f"All {total} ranks are in different places: this is no hang at one point, or frames are cut."
        return accuse_nobody(f"{text} Take several rounds of dumps.", "all_differ")
    return None


def _alone_text(group: Group) -> str:
    """What the only rank does."""
    does = _capitalised(f"{ranks_text(group.ranks)} is {_place_text(group.activity)}")
    alone = "It is the only rank that could be read; with nothing to compare it with, no rank is named."
    return f"{does}. {alone}"


def _busy_ranks(case: Case) -> Blame | None:
    return _accuse_activities(case, {HOST, COMPUTE}, "busy", "where it waits for no peer")


def _missing_ranks(case: Case) -> Blame | None:
    if not case.missing:
        return None
    text = f"No process of {ranks_text(case.missing)} was dumped although its peers were"
    sentence = f"{text}: it is gone, or was not reachable{_waiting_text(case.groups, ())}."
    return accuse(case.missing, THRESHOLDS.missing, "was not dumped although its peers were", case, sentence, "missing")


def _local_ranks(case: Case) -> Blame | None:
    return _accuse_activities(case, {LOCAL}, "busy", "which is no call that waits for peers")


def _device_ranks(case: Case) -> Blame | None:
    return _accuse_activities(case, {DEVICE}, "device", "while its peers have gone on")


def _accuse_activities(case: Case, kinds: set[str], rule: str, clause: str) -> Blame | None:
    chosen = [group for group in case.odd_groups if group.activity.kind in kinds]
    if not chosen:
        return None
    chosen.sort(key=lambda group: (-_score(group), len(group.ranks), group.ranks))
    accused = [(group, group.ranks) for group in chosen]
    if kinds == {LOCAL}:
        accused = _blocking_only(case, chosen)
    scores: dict[int, float] = {}
    reasons: dict[int, str] = {}
    for group, ranks in accused:
        reason = f"{_place_text(group.activity)}, {clause}"
        scores |= dict.fromkeys(ranks, _score(group))
        reasons |= dict.fromkeys(ranks, reason)
    parts = [_activity_text(group, ranks) for group, ranks in accused[: LIMITS.groups]]
    waiting = _waiting_text(case.groups, [group for group, _ in accused])
    sentence = f"{', '.join(parts)}{waiting}."
    return Blame(tuple(scores), scores, reasons, case.outliers, _capitalised(sentence), rule)


def _place_text(activity: Activity) -> str:
    """What somebody does, and in which frame, whose name is said once."""
    place = f"in {frame_text(activity.frame)}"
    return place if place.startswith(f"{activity.what} ") else f"{activity.what} {place}"


def _score(group: Group) -> float:
    """The score of a rank that its peers wait for, by what it does."""
    return float(THRESHOLDS.activity[group.activity.kind])


def _blocking_only(case: Case, groups: Sequence[Group]) -> list[tuple[Group, list[int]]]:
    """The groups with those of their ranks that block the rest of their tensor group; all, where none does. Unknown
    code may be an unknown wait, and a waiting group stays together.
    """
    blocking = blocking_ranks(case.groups, case.layout, ranks_of(groups))
    if not blocking:
        return [(group, group.ranks) for group in groups]
    parts = [(group, sorted(blocking.intersection(group.ranks))) for group in groups]
    return [(group, ranks) for group, ranks in parts if ranks]


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _activity_text(group: Group, ranks: Sequence[int]) -> str:
    verb = "is" if len(ranks) == 1 else "are"
    return f"{ranks_text(ranks)} {verb} {group.activity.what}"


def _waiting_text(groups: Sequence[Group], chosen: Sequence[Group]) -> str:
    """The call in which the others wait, in words."""
    waiting = [g for g in groups if g.activity.kind == COMM and g not in chosen]
    if not waiting:
        return ""
    parts = [_waiting_group_text(group) for group in waiting[: LIMITS.groups]]
    rest = sum(len(group.ranks) for group in waiting[LIMITS.groups :])
    if rest:
        parts.append(f"{rest} elsewhere")
    return f"; meanwhile {', '.join(parts)} wait for their peers"


def _waiting_group_text(group: Group) -> str:
    text = f"{ranks_text(group.ranks)} {group.activity.what}"
    return f"{text} ({group.activity.dim} group)" if group.activity.dim else text


def _empty_dumps(case: Case) -> Blame | None:
    is_few = len(case.empty) <= THRESHOLDS.missing_share * max(1, case.total)
    if not case.empty or case.odd_groups or not is_few:
        return None
    text = f"All other ranks are alike; the dump of {ranks_text(case.empty)} is empty, so its process may be gone."
    return accuse(case.empty, THRESHOLDS.empty, "its dump is empty", case, text, "empty")


def _all_equal(case: Case) -> Blame | None:
    if len(case.groups) != 1:
        return None
    only = case.groups[0]
    where = (
        "in the same collective: the network or a device under it, or too few frames"
        if only.activity.kind == COMM
        else "at the same place: a cause common to all (storage, input, code), or too few frames"
    )
    return accuse_nobody(
        f"All {case.total} ranks are {where} ({only.activity.what}). No outlier can be named.", "all_equal"
    )


def _chain_ends(case: Case) -> Blame:
    """All ranks communicate: the chain of waits ends in a small set, or is a circle that a minority broke."""
    ends = find_chain_ends(case.groups, case.layout, case.outliers, case.failed)
    if ends.unread:
        text = f"All readable ranks wait; the chain of waits ends at rank {fold_ranks(ends.unread)}, whose dump failed."
        why = "could not be dumped, and the chain of waits ends at it"
        return accuse(ends.unread, THRESHOLDS.unread, why, case, text, "unread")
    if ends.ranks:
        return _accuse_ends(case, ends.ranks)
    odd = ends.separate or [group for group in case.groups if not group.dominant]
    if odd:
        return _accuse_other_call(case, odd)
    parts = [f"{ranks_text(group.ranks)} {group.activity.what}" for group in case.groups[: LIMITS.large_groups]]
    text = f"The ranks fall into {len(case.groups)} large groups and none is an outlier: {'; '.join(parts)}."
    return accuse_nobody(text, "no_outlier")


def _accuse_ends(case: Case, ranks: Sequence[int]) -> Blame:
    of = group_of_rank(case.groups)
    waits = "it waits for no rank outside its own group, while others wait for it"
    why = {rank: f"{of[rank].activity.what}; {waits}" for rank in ranks}
    text = (
        f"All ranks communicate; the chain of waits ends at {ranks_text(ranks)}, "
        "all of whose group have arrived: the collective itself does not finish there."
    )
    return accuse(ranks, THRESHOLDS.sink, why, case, text, "sink")


def _accuse_other_call(case: Case, odd: Iterable[Group]) -> Blame:
    """Accuse the groups that are in another call than most ranks."""
    smallest_first = sorted(odd, key=lambda group: (len(group.ranks), group.ranks))
    main_call = max(case.groups, key=lambda group: len(group.ranks)).activity.what
    other_call = smallest_first[0].activity.what
    of = group_of_rank(smallest_first)
    why = {rank: f"{group.activity.what}, while most ranks are {main_call}" for rank, group in of.items()}
    text = f"{ranks_text(why)} entered another call ({other_call}) than the other ranks ({main_call})."
    return accuse(ranks_of(smallest_first), THRESHOLDS.mismatch, why, case, _capitalised(text), "mismatch")


#: The first rule with an answer decides; without one, the chain of waits.
_RULES: tuple[Callable[[Case], Blame | None], ...] = (
    _not_comparable,
    _busy_ranks,
    _missing_ranks,
    _local_ranks,
    _device_ranks,
    _empty_dumps,
    _all_equal,
)

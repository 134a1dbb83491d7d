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
from dataclasses import dataclass, field
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks, ranks_text
from diagnosis.kinds.stacks.ranks.cluster import Group, group_of_rank, ranks_of
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.waitgraph import blocking_ranks, find_chain_ends
from diagnosis.kinds.stacks.ranks.waits import COMM, COMPUTE, DEVICE, HOST, LOCAL
from diagnosis.kinds.stacks.read.stack_frames import frame_text

THRESHOLDS: Final = thresholds.of("blame")
LIMITS: Final = thresholds.limits("blame")


@dataclass(frozen=True, slots=True)
class Blame:
    """``ranks`` accused, best first, with score in [0, 1] and reason; ``outliers`` all that differ from the dominant
    groups; ``reason`` the sentence; ``rule`` the rule that decided."""

    ranks: tuple[int, ...]
    scores: Mapping[int, float]
    reasons: Mapping[int, str]
    outliers: tuple[int, ...]
    reason: str
    rule: str


@dataclass(slots=True)
class Scene:
    """One round, ready to be judged."""

    groups: Sequence[Group]
    layout: Layout
    missing: Sequence[int] = ()
    failed: Sequence[int] = ()
    empty: Sequence[int] = ()
    odd_groups: list[Group] = field(default_factory=list)
    outliers: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return sum(len(g.ranks) for g in self.groups)


def accuse(
    ranks: Iterable[int], score: float, why: Mapping[int, str] | str, scene: Scene, sentence: str, rule: str
) -> Blame:
    """A verdict that gives all ``ranks`` one score."""
    named = tuple(ranks)
    reasons = dict.fromkeys(named, why) if isinstance(why, str) else why
    return Blame(named, dict.fromkeys(named, score), reasons, tuple(sorted({*scene.outliers, *named})), sentence, rule)


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
    """Name the culprits among the ranks of one round. O(ranks × kinds × distinct stacks per group)."""
    absent = [] if expected and len(missing) > THRESHOLDS.missing_share * expected else sorted(missing)
    scene = Scene(groups, layout, absent, failed, empty)
    scene.odd_groups = _odd_groups(scene)
    scene.outliers = tuple(sorted({*ranks_of(scene.odd_groups), *absent}))
    return next(found for rule in _RULES if (found := rule(scene)) is not None)


def _odd_groups(scene: Scene) -> list[Group]:
    """Groups that are not dominant, and dominant ones that do not wait for peers while others do. A failed switch or
    file system stops a quarter of the ranks or more: a large number does not prove them healthy. For a large group that
    waits for its GPU this is less certain, because the GPU may itself wait in a collective; it is an outlier only if no
    other group is.
    """
    total = scene.total
    communicating = sum(len(g.ranks) for g in scene.groups if g.activity.kind == COMM)

    def is_odd(g: Group) -> bool:
        if not g.dominant:
            return True
        is_usual = g.activity.kind != HOST and total > THRESHOLDS.few
        enough = THRESHOLDS.waiting if is_usual else THRESHOLDS.waiting_host
        busy = g.activity.kind in {HOST, COMPUTE, LOCAL}
        return busy and communicating >= enough * total and len(g.ranks) <= THRESHOLDS.odd_share * total

    odd = [g for g in scene.groups if is_odd(g)]
    if odd or scene.missing or communicating < THRESHOLDS.waiting * total:
        return odd
    return [g for g in scene.groups if g.activity.kind == DEVICE and len(g.ranks) < THRESHOLDS.odd_share * total]


def _not_comparable(scene: Scene) -> Blame | None:
    total = scene.total
    if total < 2 and not scene.missing:
        text = "Only one rank could be read; with nothing to compare it with, no rank is named."
        return accuse_nobody(text if total else "No rank's stack could be read.", "too_few")
    if total > 2 and len(scene.groups) == total:
        text = f"All {total} ranks are in different places: this is no hang at one point, or frames are cut."
        return accuse_nobody(f"{text} Take several rounds of dumps.", "all_differ")
    return None


def _busy_ranks(scene: Scene) -> Blame | None:
    return _accuse_activities(scene, {HOST, COMPUTE}, "busy", "where it waits for no peer")


def _missing_ranks(scene: Scene) -> Blame | None:
    if not scene.missing:
        return None
    text = f"No process of {ranks_text(scene.missing)} was dumped although its peers were"
    sentence = f"{text}: it is gone, or was not reachable{_waiting_text(scene.groups, ())}."
    return accuse(
        scene.missing, THRESHOLDS.missing, "was not dumped although its peers were", scene, sentence, "missing"
    )


def _local_ranks(scene: Scene) -> Blame | None:
    return _accuse_activities(scene, {LOCAL}, "busy", "which is no call that waits for peers")


def _device_ranks(scene: Scene) -> Blame | None:
    return _accuse_activities(scene, {DEVICE}, "device", "while its peers have gone on")


def _accuse_activities(scene: Scene, kinds: set[str], rule: str, clause: str) -> Blame | None:
    chosen = [g for g in scene.odd_groups if g.activity.kind in kinds]
    if not chosen:
        return None
    chosen.sort(key=lambda g: (-THRESHOLDS.activity[g.activity.kind], len(g.ranks), g.ranks))
    ranks = ranks_of(chosen)
    if kinds == {LOCAL}:
        # Unknown code may be an unknown wait. A culprit blocks the rest of its tensor group; a waiting group stays
        # together.
        blocking = blocking_ranks(scene.groups, scene.layout, ranks)
        chosen = [g for g in chosen if blocking.intersection(g.ranks)] or chosen
        ranks = [rank for rank in ranks_of(chosen) if not blocking or rank in blocking]
    scores, reasons = {}, {}
    for g in chosen:
        for rank in g.ranks:
            if rank in ranks:
                scores[rank] = THRESHOLDS.activity[g.activity.kind]
                reasons[rank] = f"{g.activity.what} in {frame_text(g.activity.frame)}, {clause}"
    parts = [_activity_text(g, [r for r in g.ranks if r in scores]) for g in chosen[: LIMITS.groups]]
    sentence = ", ".join(parts) + _waiting_text(scene.groups, chosen) + "."
    return Blame(tuple(scores), scores, reasons, scene.outliers, sentence[0].upper() + sentence[1:], rule)


def _activity_text(group: Group, ranks: Sequence[int]) -> str:
    verb = "is" if len(ranks) == 1 else "are"
    return f"{ranks_text(ranks)} {verb} {group.activity.what}"


def _waiting_text(groups: Sequence[Group], chosen: Sequence[Group]) -> str:
    """The call in which the others wait, in words."""
    waiting = [g for g in groups if g.activity.kind == COMM and g not in chosen]
    if not waiting:
        return ""
    parts = [
        f"{ranks_text(g.ranks)} {g.activity.what}" + (f" ({g.activity.dim} group)" if g.activity.dim else "")
        for g in waiting[: LIMITS.groups]
    ]
    rest = sum(len(g.ranks) for g in waiting[LIMITS.groups :])
    return "; meanwhile " + ", ".join([*parts, *([f"{rest} elsewhere"] if rest else [])]) + " wait for their peers"


def _empty_dumps(scene: Scene) -> Blame | None:
    if not scene.empty or scene.odd_groups or len(scene.empty) > THRESHOLDS.missing_share * max(1, scene.total):
        return None
    text = f"All other ranks are alike; the dump of {ranks_text(scene.empty)} is empty, so its process may be gone."
    return accuse(scene.empty, THRESHOLDS.empty, "its dump is empty", scene, text, "empty")


def _all_equal(scene: Scene) -> Blame | None:
    if len(scene.groups) != 1:
        return None
    only = scene.groups[0]
    where = (
        "in the same collective: the network or a device under it, or too few frames"
        if only.activity.kind == COMM
        else "at the same place: a cause common to all (storage, input, code), or too few frames"
    )
    return accuse_nobody(
        f"All {scene.total} ranks are {where} ({only.activity.what}). No outlier can be named.", "all_equal"
    )


def _chain_ends(scene: Scene) -> Blame | None:
    """All ranks communicate: the chain of waits ends in a small set, or is a circle that a minority broke."""
    ends = find_chain_ends(scene.groups, scene.layout, scene.outliers, scene.failed)
    if ends.unread:
        text = f"All readable ranks wait; the chain of waits ends at rank {fold_ranks(ends.unread)}, whose dump failed."
        return accuse(
            ends.unread,
            THRESHOLDS.unread,
            "could not be dumped, and the chain of waits ends at it",
            scene,
            text,
            "unread",
        )
    if ends.ranks:
        of = group_of_rank(scene.groups)
        why = {
            r: f"{of[r].activity.what}; it waits for no rank outside its own group, while others wait for it"
            for r in ends.ranks
        }
        text = (
            f"All ranks communicate; the chain of waits ends at {ranks_text(ends.ranks)}, "
            "all of whose group have arrived: the collective itself does not finish there."
        )
        return accuse(ends.ranks, THRESHOLDS.sink, why, scene, text, "sink")
    largest = max(scene.groups, key=lambda g: len(g.ranks))
    odd = ends.separate or [g for g in scene.groups if not g.dominant]
    if not odd:
        parts = "; ".join(f"{ranks_text(g.ranks)} {g.activity.what}" for g in scene.groups[: LIMITS.large_groups])
        return accuse_nobody(
            f"The ranks fall into {len(scene.groups)} large groups and none is an outlier: {parts}.", "no_outlier"
        )
    odd = sorted(odd, key=lambda g: (len(g.ranks), g.ranks))
    most = f"most ranks are {largest.activity.what}"
    why = {r: f"{g.activity.what}, while {most}" for r, g in group_of_rank(odd).items()}
    other_call, main_call = odd[0].activity.what, largest.activity.what
    text = f"{ranks_text(why)} entered another call ({other_call}) than the other ranks ({main_call})."
    text = text[0].upper() + text[1:]
    return accuse(ranks_of(odd), THRESHOLDS.mismatch, why, scene, text, "mismatch")


#: The first rule with an answer decides; the last rule always answers.
_RULES: tuple[Callable[[Scene], Blame | None], ...] = (
    _not_comparable, _busy_ranks, _missing_ranks, _local_ranks, _device_ranks, _empty_dumps, _all_equal, _chain_ends,
)  # fmt: skip
